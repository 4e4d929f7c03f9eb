//! What this backend can do beyond leases, a file for each ability.

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
