//! Seats. Each seat keeps one claim of this process, from the first request to the answered release.

use lock_core::Claim;

use super::facts::Asking;
use super::leased::{Going, Leased, Stage};
use crate::engine::request::Outage;

/// The state of one claim, as far as this process knows it.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most machines have one seat, which is often leased")]
pub(super) enum Seat {
    Free,
    Asking(Asking),
    Leased(Leased),
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
        let Self::Leased(leased) = self else { return None };
        Some(leased)
    }

    #[inline]
    pub(super) fn leased_mut(&mut self) -> Option<&mut Leased> {
        let Self::Leased(leased) = self else { return None };
        Some(leased)
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
        let Stage::Going(going) = &self.leased()?.stage else { return None };
        Some(going)
    }

    pub(super) fn going_mut(&mut self) -> Option<&mut Going> {
        let Stage::Going(going) = &mut self.leased_mut()?.stage else { return None };
        Some(going)
    }

    /// The outage of a request about the claim, except a renewal.
    pub(super) fn outage(&self) -> Option<&Outage> {
        match self {
            Self::Free => None,
            Self::Asking(asking) => asking.request.outage.as_ref(),
            Self::Leased(leased) => match &leased.stage {
                Stage::Going(going) => going.release.outage.as_ref(),
                _ => leased.change.as_ref()?.request.outage.as_ref(),
            },
        }
    }

    /// The claim, if no request for it is under way: it waits for a hint or for the time to ask.
    #[inline]
    pub(super) fn waiting(&self) -> Option<&Asking> {
        let Self::Asking(asking) = self else { return None };
        (!asking.request.sent).then_some(asking)
    }
}
