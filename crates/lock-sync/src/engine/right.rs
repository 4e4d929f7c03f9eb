//! What a holder has been given.

use std::sync::Arc;

use lock_core::{FencingToken, Instant};

use super::gate::{Reader, Way};
use super::holdings::HoldId;
use super::machine::Ticket;
use super::validity::Validity;

/// What the machine or the gate has given to a holder.
pub(super) struct Right {
    pub(super) hold: HoldId,
    pub(super) token: FencingToken,
    /// The end of the maximum hold.
    pub(super) until: Instant,
    /// `None` for a reader that came through the gate. The gate has the lease of such a reader.
    pub(super) lease: Option<Arc<Validity>>,
}

impl From<Ticket> for Right {
    fn from(ticket: Ticket) -> Self {
        let Ticket { hold, token, hold_until: until, lease, .. } = ticket;
        Self { hold, token, until, lease: Some(lease) }
    }
}

impl From<Way> for Right {
    #[inline]
    fn from(way: Way) -> Self {
        match way {
            Way::Ticket(ticket) => ticket.into(),
            Way::Gate(reader) => reader.into(),
        }
    }
}

impl From<Reader> for Right {
    fn from(Reader { hold, token }: Reader) -> Self {
        Self { hold, token, until: Instant::FAR_FUTURE, lease: None }
    }
}
