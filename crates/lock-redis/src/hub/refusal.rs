//! What a server has refused, and until when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::{Error, ErrorKind};

use crate::link::Live;

/// What the present connection has to say about the channel of this client alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InboxState {
    Untried,
    Heard,
    /// All works without, but for the queue.
    Refused {
        since: Instant,
    },
}

/// The server, or what stands before it, takes no subscriptions.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The refusal holds for as long as this connection, at most.
    pub(super) live: Arc<Live>,
    pub(super) since: Instant,
    pub(super) error: Error,
}

/// A server that refused is asked again after this time: rights may have been given.
const REFUSED: Duration = Duration::from_secs(5);

impl Refusal {
    pub(super) fn is_over(&self) -> bool {
        self.live.is_closed()
            || self.error.kind() == ErrorKind::Denied && self.since.elapsed() >= REFUSED
    }
}

impl InboxState {
    pub(super) fn after(was_refused: bool) -> Self {
        if was_refused { Self::Refused { since: Instant::now() } } else { Self::Heard }
    }

    pub(super) fn is_to_be_tried(self) -> bool {
        match self {
            Self::Untried => true,
            Self::Heard => false,
            Self::Refused { since } => since.elapsed() >= REFUSED,
        }
    }
}
