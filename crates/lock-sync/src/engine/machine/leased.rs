//! A lease of this process: its tokens, its turn, and when to send the store a request about it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::observer::Entered;
use lock_core::{Claim, FencingToken, Grant, Instant, LoadedValue, Mode, Ttl};

use super::super::validity::Validity;
use super::facts::{Asking, Change};
use super::{Ticket, Write};
use crate::engine::holdings::{HoldId, Holdings};
use crate::engine::request::Request;
use crate::engine::tokens::{LOW_TOKENS, Tokens};
use crate::engine::turn::Turn;
use crate::error::LeaseLost;

/// The process watches a lease that it has for longer than this, so that a holder hears at once if the key is lost.
const WATCH_AFTER: Duration = Duration::from_millis(50);
/// A lease that was given up and taken back at once stays for this time when its next holder goes, because it is
/// likely to be wanted at once again.
pub(super) const PAUSE: Duration = Duration::from_millis(1);
/// The process checks its lease this time after a hint. Most hints are echoes of its own requests, and the hold that
/// they are about is over by then.
const CHECK_AFTER: Duration = Duration::from_millis(3);
/// The shortest pause before a request about a lease is repeated.
pub(super) const SOON: Duration = Duration::from_millis(1);

/// A lease that the store granted to this process, from the grant to the answered release.
#[derive(Debug)]
pub(super) struct Leased {
    pub(super) claim: Claim,
    pub(super) lease: Arc<Validity>,
    pub(super) stage: Stage,
    pub(super) tokens: Tokens,
    /// How many holders the lease has had.
    pub(super) used: u32,
    pub(super) granted: Instant,
    pub(super) turn: Turn,
    pub(super) holds: Holdings,
    /// The token of the holders that share the lease now.
    pub(super) group: Option<FencingToken>,
    /// Until when the lease stays if it has no holder.
    pub(super) idle_until: Instant,
    /// The conversion that has begun. The store may have carried it out.
    pub(super) change: Option<Change>,
    /// How often the mode has changed.
    pub(super) conversions: u64,
    /// When the process makes the lease weaker, if a weaker mode is enough by then.
    pub(super) weaken_at: Instant,
    pub(super) renewal: Request,
    /// How long the grant took, or the latest renewal, which may have failed. Zero if the store told of the grant
    /// without being asked.
    pub(super) trip: Duration,
    /// How long the lease lives after each request about it. A holder may have asked for more than the policy says. It
    /// never becomes shorter, because a shorter request would end the lease in the store before its deadline here.
    pub(super) ttl: Ttl,
    /// A holder wants the lease to last until then.
    pub(super) wanted_until: Instant,
    pub(super) watch_at: Instant,
    /// The store may not know the lease as this process does. The process must not take it back. No live lease is
    /// spent.
    pub(super) spent: bool,
    /// The process gave the lease up, and took it back before it sent the release.
    pub(super) retaken: bool,
    /// The store told this process of the grant without being asked.
    pub(super) is_pushed: bool,
    /// The value beside the lock, if the process knows it. Only holders of this lease can change it.
    pub(super) value: Option<LoadedValue>,
    /// A write of the value that the store has not answered.
    pub(super) writing: Option<Write>,
    /// The highest token under which a holder of this lease has written the value.
    pub(super) written: Option<FencingToken>,
}

/// The stage of a lease, for this process.
#[derive(Debug)]
pub(super) enum Stage {
    /// The lease is here, with or without holders.
    Live,
    /// The lease is over, but some of its guards live on and still give access to the data.
    Lost(LeaseLost),
    /// The process has given the lease up, and the store has not confirmed that.
    Going(Going),
}

/// A lease that goes back to the store.
#[derive(Debug)]
pub(super) struct Going {
    /// The release. Until it is sent for the first time, the process may take the lease back.
    pub(super) release: Request,
    /// The claim that takes a place in the store's queue in the step that releases the lease.
    pub(super) next: Option<Box<Asking>>,
    /// The process heard of another grant of the claim while the release was under way. The store may have made
    /// that grant after it carried out the release.
    pub(super) granted_again: bool,
}

impl Going {
    /// A release that is due.
    pub(super) fn new(now: Instant) -> Self {
        Self { release: Request::new(now), next: None, granted_again: false }
    }
}

impl Leased {
    /// A lease that was just granted, without holds. `holds` brings their memory.
    pub(super) fn new(
        holds: Holdings,
        lease: Arc<Validity>,
        claim: Claim,
        grant: Grant,
        ttl: Ttl,
        now: Instant,
    ) -> Self {
        let left = grant.valid_until.saturating_duration_since(now);
        // A lease that was handed over is short. An early renewal gives it the full length, unless its holder lets
        // go before that.
        let short = left <= ttl.duration() / 2;
        let mut renewal = Request::new(Instant::FAR_FUTURE);
        let after = if short { left / 10 } else { left.min(ttl.duration()) / 3 };
        renewal.by(now + after, !short);
        Self {
            claim,
            lease,
            stage: Stage::Live,
            tokens: Tokens::new(grant.tokens),
            used: 0,
            granted: now,
            turn: Turn::new(grant.contention, now),
            holds,
            group: None,
            idle_until: now,
            change: None,
            conversions: 0,
            weaken_at: Instant::FAR_FUTURE,
            renewal,
            trip: ttl.duration().saturating_sub(left),
            ttl,
            wanted_until: now,
            watch_at: now + WATCH_AFTER,
            spent: false,
            retaken: false,
            is_pushed: false,
            value: grant.value,
            writing: None,
            written: None,
        }
    }

    // ---- Stage ----

    #[inline]
    pub(super) fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Live)
    }

    /// Whether the lease is live and has holds.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.is_live() && !self.holds.is_empty()
    }

    /// Whether the lease is live and has no hold.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.is_live() && self.holds.is_empty()
    }

    /// Whether this process may still give the lease to holders.
    #[inline]
    pub(super) fn is_usable(&self, now: Instant) -> bool {
        !self.spent && self.writing.is_none() && self.lease.is_valid(now)
    }

    // ---- Holders ----

    /// The lease has one more holder.
    #[inline]
    pub(super) fn serve(&mut self) {
        self.used = self.used.saturating_add(1);
        self.turn.serve();
    }

    /// Gives the place of this hold to the next holder, with this serial number and a new token. `None` if the hold has
    /// another mode than `want`, or if few tokens are left: the next event asks for more.
    #[inline]
    pub(super) fn pass_on(
        &mut self,
        hold: HoldId,
        lease: &mut Option<Arc<Validity>>,
        serial: u64,
        want: Mode,
    ) -> Option<Ticket> {
        let entered = if self.holds.live() > 1 { Entered::Joined } else { Entered::HandOff };
        let holding = self.holds.passing(hold, want).filter(|_| self.tokens.left() > LOW_TOKENS)?;
        let token = self.tokens.take()?;
        let hold = holding.pass_on(hold, serial, token);
        self.group = None;
        self.serve();
        let lease = lease.take().unwrap_or_else(|| Arc::clone(&self.lease));
        debug_assert!(Arc::ptr_eq(&lease, &self.lease));
        let (since, hold_until) = (self.granted, Instant::FAR_FUTURE);
        Some(Ticket { hold, lease, token, since, hold_until, entered })
    }

    /// Whether one more holder in this mode may take the short way: the lease serves such holders, and no other process
    /// is known to want it. The first reader of a lease that is too strong may not, because the machine must plan to
    /// make it weaker.
    pub(super) fn is_shared_quietly(&self, want: Mode) -> bool {
        let (held, stocked) = (!self.holds.is_empty(), self.tokens.left() > LOW_TOKENS);
        let joins = match want {
            Mode::Shared => self.group.is_some() && (held || self.claim.mode == Mode::Shared),
            Mode::Permits { .. } => held && stocked && self.change.is_none(),
            _ => false,
        };
        joins && self.is_live() && self.turn.is_quiet() && self.has_room(want)
    }

    /// Whether one more hold in this mode fits on the lease.
    #[inline]
    pub(super) fn has_room(&self, want: Mode) -> bool {
        // While a conversion to a weaker mode is under way, the lease may already have that mode.
        let mode = self.weakening().map_or(self.claim.mode, |change| change.to);
        // A lease with forgotten permits admits no holder, so that it ends.
        let ends = mode.counts() && self.holds.has_forgotten();
        mode.covers(want) && !ends && self.holds.have_room(mode, want)
    }

    /// Whether the lease has permits that no holder uses, or that are going back to the store.
    #[inline]
    pub(super) fn has_idle_permits(&self) -> bool {
        self.claim.mode.counts()
            && (self.change.is_some() || self.holds.need(self.claim.mode) != self.claim.mode)
    }

    // ---- What the store says ----

    /// When to repeat a request about the lease that failed.
    pub(super) fn retry_at(&self, now: Instant) -> Instant {
        let left = self.lease.deadline().saturating_duration_since(now);
        now + (self.ttl.duration() / 10).min(left / 4).max(SOON)
    }

    /// Whether a renewal or a conversion is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.renewal.sent || self.change.as_ref().is_some_and(|change| change.request.sent)
    }

    /// A hint casts doubt on the lease.
    pub(super) fn doubt(&mut self, now: Instant) {
        self.renewal.by(now + CHECK_AFTER, false);
    }
}
