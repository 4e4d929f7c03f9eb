//! Refusals of a server, and how long they count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::{Error, ErrorKind};

use crate::link::Live;

/// Whether the present connection hears the channel of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InboxState {
    Untried,
    Heard,
    /// All features but the queue work without it.
    Refused {
        since: Instant,
    },
}

/// The server, or a proxy before it, accepts no subscriptions.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The refusal lasts at most as long as this connection.
    pub(super) live: Arc<Live>,
    pub(super) since: Instant,
    pub(super) error: Error,
}

/// After this time the client asks again: the user may have got the right since.
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
