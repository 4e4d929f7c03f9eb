//! A request as it arrives at the store.

use std::sync::Arc;

use super::connection::Connection;
use crate::{FencingToken, Instant};

/// The client of a request, when the request was sent and arrived, and how to number its tokens.
#[derive(Debug)]
pub(super) struct Visit<'a> {
    pub(super) client: &'a Arc<Connection>,
    pub(super) sent: Instant,
    pub(super) now: Instant,
    /// The last token that a quorum wants for the request.
    pub(super) floor: Option<FencingToken>,
}

impl<'a> Visit<'a> {
    /// A visit for which the store numbers the tokens itself.
    pub(super) fn new(client: &'a Arc<Connection>, sent: Instant, now: Instant) -> Self {
        Self { client, sent, now, floor: None }
    }

    pub(super) fn numbered(mut self, floor: FencingToken) -> Self {
        self.floor = Some(floor);
        self
    }
}
