//! Seats: where this process keeps one claim of the key each, from the first request to the answered
//! release.

use super::facts::Asking;
use super::leased::{Leased, Stage};

/// What the store knows of one claim, as far as this process can tell.
#[derive(Debug)]
pub(super) enum Seat {
    Free,
    Asking(Asking),
    Leased(Box<Leased>),
}

impl Seat {
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }

    #[inline]
    pub(super) fn leased(&self) -> Option<&Leased> {
        match self {
            Self::Leased(leased) => Some(leased),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn leased_mut(&mut self) -> Option<&mut Leased> {
        match self {
            Self::Leased(leased) => Some(leased),
            _ => None,
        }
    }

    /// The lease on this seat, if this process has it and has not given it up.
    #[inline]
    pub(super) fn live(&self) -> Option<&Leased> {
        self.leased().filter(|leased| leased.is_live())
    }

    #[inline]
    pub(super) fn live_mut(&mut self) -> Option<&mut Leased> {
        self.leased_mut().filter(|leased| leased.is_live())
    }

    /// The claim that this process wants granted: on this seat, or in exchange for the lease on it.
    pub(super) fn asking_mut(&mut self) -> Option<&mut Asking> {
        match self {
            Self::Free => None,
            Self::Asking(asking) => Some(asking),
            Self::Leased(leased) => match &mut leased.stage {
                Stage::Going(going) => going.next.as_deref_mut(),
                Stage::Live | Stage::Lost(_) => None,
            },
        }
    }

    /// The claim, if it has been refused and waits for a hint or for the time to ask again.
    #[inline]
    pub(super) fn waiting(&self) -> Option<&Asking> {
        match self {
            Self::Asking(asking) if asking.sent.is_none() => Some(asking),
            _ => None,
        }
    }
}
