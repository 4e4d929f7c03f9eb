//! A request as it arrives at the store.

use std::sync::Arc;

use super::connection::Connection;
use crate::Instant;

/// Whose request it is, and when it was sent and has arrived.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    pub(super) client: &'a Arc<Connection>,
    pub(super) sent: Instant,
    pub(super) now: Instant,
}
