//! Seats. Each seat keeps one claim of this process, from the first request to the answered release.

use lock_core::Claim;

use super::facts::Asking;
use super::leased::{Going, Leased, Stage};
use crate::engine::request::Outage;

/// The state of one claim, as far as this process knows it.
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

    pub(super) fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Free => None,
            Self::Asking(asking) => Some(&asking.claim),
            Self::Leased(leased) => Some(&leased.claim),
        }
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

    /// The claim that this process asks for: on this seat, or in exchange for the lease on it.
    pub(super) fn asking_mut(&mut self) -> Option<&mut Asking> {
        match self {
            Self::Free => None,
            Self::Asking(asking) => Some(asking),
            Self::Leased(_) => self.going_mut()?.next.as_deref_mut(),
        }
    }

    /// The release of the lease on this seat, if the process has given the lease up.
    pub(super) fn going(&self) -> Option<&Going> {
        match &self.leased()?.stage {
            Stage::Going(going) => Some(going),
            Stage::Live | Stage::Lost(_) => None,
        }
    }

    pub(super) fn going_mut(&mut self) -> Option<&mut Going> {
        match &mut self.leased_mut()?.stage {
            Stage::Going(going) => Some(going),
            Stage::Live | Stage::Lost(_) => None,
        }
    }

    /// The outage of a request about the claim, except a renewal.
    pub(super) fn outage(&self) -> Option<&Outage> {
        match self {
            Self::Free => None,
            Self::Asking(asking) => asking.request.outage.as_ref(),
            Self::Leased(leased) => {
                let change = leased.change.as_ref().and_then(|it| it.request.outage.as_ref());
                change.or(self.going().and_then(|going| going.release.outage.as_ref()))
            }
        }
    }

    /// The claim, if no request for it is under way: it waits for a hint or for the time to ask.
    #[inline]
    pub(super) fn waiting(&self) -> Option<&Asking> {
        match self {
            Self::Asking(asking) if !asking.request.sent => Some(asking),
            _ => None,
        }
    }
}
