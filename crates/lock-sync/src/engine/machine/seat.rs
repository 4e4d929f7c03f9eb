//! Seats: where this process keeps one claim of the key each, from the first request to the answered
//! release.

use lock_core::{Claim, Error, Instant};

use super::leased::{Leased, Stage};
use super::timing::jitter;

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

/// A claim that the store has not granted.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) claim: Claim,
    /// The request under way.
    pub(super) sent: Option<Sent>,
    /// The store has been asked.
    asked: bool,
    /// The latest request asks for a place in the store's queue.
    pub(super) queued: bool,
    /// The claim may have a place already, or the lease itself.
    pub(super) placed: bool,
    /// The store has stopped answering: it may have granted the claim.
    pub(super) outage: Option<Outage>,
    /// Other processes go first: a hint before this instant counts from this instant on.
    pub(super) yielding: Option<Instant>,
    /// When to ask, if no hint comes first.
    pub(super) until: Instant,
    /// A hint has come: ask at once. That the claim has waited for long is not said by this.
    pub(super) hinted: bool,
    /// The request only keeps a place: it may go a little earlier, in company.
    pub(super) relaxed: bool,
}

impl Asking {
    pub(super) fn new(claim: Claim, until: Instant) -> Self {
        Self {
            claim,
            sent: None,
            asked: false,
            queued: false,
            placed: false,
            outage: None,
            yielding: None,
            until,
            hinted: false,
            relaxed: false,
        }
    }

    /// A claim that other processes go before: until `hinted` if a hint says that the key is free, and
    /// until `most` in any case.
    pub(super) fn yielding(claim: Claim, hinted: Instant, most: Instant) -> Self {
        let until = most + jitter(&claim);
        Self { yielding: Some(hinted), ..Self::new(claim, until) }
    }

    /// Notes that a request goes out. `queued`: it asks for a place.
    pub(super) fn send(&mut self, queued: bool) {
        let fresh = self.outage.is_some() || !self.asked;
        self.sent = Some(Sent { fresh, again: false, ask_by: Instant::FAR_FUTURE, wanted: false });
        self.asked = true;
        self.queued = queued;
        (self.yielding, self.hinted) = (None, false);
    }

    /// Whether the store has refused the claim, or other processes go first.
    pub(super) fn is_held_up(&self) -> bool {
        self.sent.as_ref().is_none_or(|sent| !sent.fresh)
    }
}

/// A request under way, and what hints have said meanwhile. The answer may be older than the hints.
#[derive(Debug)]
pub(super) struct Sent {
    /// The store has answered no earlier request.
    pub(super) fresh: bool,
    /// A refusal may be out of date: ask again at once.
    pub(super) again: bool,
    /// When to ask again at the latest.
    pub(super) ask_by: Instant,
    /// Other processes wait.
    pub(super) wanted: bool,
}

/// Since when the store has not answered.
#[derive(Clone, Debug)]
pub(super) struct Outage {
    pub(super) since: Instant,
    pub(super) error: Error,
    pub(super) tries: u32,
}

impl Outage {
    /// The outage so far, and one more failure.
    pub(super) fn continued(before: Option<Self>, now: Instant, error: Error) -> Self {
        let (since, tries) = before.map_or((now, 0), |outage| (outage.since, outage.tries + 1));
        Self { since, error, tries }
    }
}
