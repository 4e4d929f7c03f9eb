//! The facts beside the leases: the claims that this process asks for, conversions, the upgrade and the watch.

use lock_core::{Claim, Instant, Mode};

use crate::engine::holdings::HoldId;
use crate::engine::queue::WaiterId;
use crate::engine::request::Request;
use crate::engine::timing::jitter;

/// A claim that the store has not granted. The answer to a request may be older than the hints since it was sent.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) claim: Claim,
    pub(super) request: Request,
    /// The store has refused the claim, and no request has failed since.
    pub(super) refused: bool,
    /// The latest request asks for a place in the store's queue.
    pub(super) queued: bool,
    /// The store may have given the claim a place, or even the lease.
    pub(super) placed: bool,
    /// Other processes go first: the claim acts on a hint only from this instant on.
    pub(super) yielding: Option<Instant>,
    /// A hint has come: ask at once. Such a request does not insist on a place: see `Step::Ask`.
    pub(super) hinted: bool,
    /// A hint has said that another process waits.
    pub(super) wanted: bool,
}

impl Asking {
    pub(super) fn new(claim: Claim, at: Instant) -> Self {
        Self {
            claim,
            request: Request::new(at),
            refused: false,
            queued: false,
            placed: false,
            yielding: None,
            hinted: false,
            wanted: false,
        }
    }

    /// A claim that lets other processes go first. A hint that the key is free makes it ask, but not before `hinted`.
    /// Without such a hint, the claim asks shortly after `most`.
    pub(super) fn yielding(claim: Claim, hinted: Instant, most: Instant) -> Self {
        let at = most + jitter(&claim);
        Self { yielding: Some(hinted), ..Self::new(claim, at) }
    }

    /// Notes that a request goes out. `queued`: it asks for a place.
    pub(super) fn send(&mut self, queued: bool) {
        self.request.send();
        (self.queued, self.yielding) = (queued, None);
        (self.hinted, self.wanted) = (false, false);
    }

    /// Something has happened to the key.
    pub(super) fn hear(&mut self, now: Instant) {
        match self.yielding {
            // Hints do not make requests to a failing store more frequent.
            _ if self.request.is_failing() => {}
            Some(end) if now < end => self.request.by(end, false),
            _ => self.hinted = true,
        }
    }
}

/// A conversion of a lease. Until the store answers a request, the lease may have either mode.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) to: Mode,
    pub(super) request: Request,
    /// The store may have given the upgrade a place, or may have carried it out.
    pub(super) placed: bool,
}

impl Change {
    pub(super) fn new(to: Mode) -> Self {
        Self { to, request: Request::new(Instant::FAR_FUTURE), placed: false }
    }

    /// Whether the conversion makes the lease exclusive. Every other conversion makes the lease weaker.
    pub(super) fn strengthens(&self) -> bool {
        self.to == Mode::Exclusive
    }
}

/// An upgrade that a holder waits for. There is at most one, because two upgradable holds exclude each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Upgrade {
    pub(super) id: WaiterId,
    pub(super) hold: HoldId,
}

/// Whether this process listens for hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watching {
    Off,
    Starting,
    On,
    /// To be tried again at this instant.
    Failed(Instant),
}
