//! The facts beside the leases: the claims that this process asks for, the conversions, and the watch.

use lock_core::{Claim, Error, Instant, Mode};

use super::timing::jitter;
use crate::engine::holds::HoldId;
use crate::engine::queue::WaiterId;

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

/// A conversion of a lease. Until the store has answered, the lease may have either mode.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) to: Mode,
    /// A request is under way.
    pub(super) sent: bool,
    /// When to ask, if no request is under way.
    pub(super) at: Instant,
    /// A hint arrived after the request had left: ask again.
    pub(super) again: bool,
    pub(super) outage: Option<Outage>,
}

impl Change {
    pub(super) fn new(to: Mode, now: Instant) -> Self {
        Self { to, sent: false, at: now, again: false, outage: None }
    }

    /// Whether this makes the lease exclusive. Every other conversion makes it weaker.
    pub(super) fn strengthens(&self) -> bool {
        self.to == Mode::Exclusive
    }
}

/// An upgrade that is wanted. There is at most one: two upgradable holds exclude each other.
#[derive(Debug)]
pub(super) struct Upgrade {
    pub(super) id: WaiterId,
    pub(super) hold: HoldId,
    /// A renewal was to bring the token that the exclusive lease lacks.
    pub(super) stocked: bool,
}

/// Whether this process listens for hints.
#[derive(Debug)]
pub(super) enum Watching {
    Off,
    Starting { failures: u32 },
    On { failures: u32 },
    Failed { retry: Instant, failures: u32 },
}
