//! The capabilities of this backend beyond leases, one file for each.

mod cell;
mod inspect;
mod permits;
mod quorum;

use lock_core::{Convertible, JointBackend, SharedBackend};

use crate::RedisBackend;

impl SharedBackend for RedisBackend {
    type Conversion = Convertible;
}

impl JointBackend for RedisBackend {}
