//! A lease of this process: its tokens, its turn, and when the store has to hear of it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Claim, Clock, Demand, FencingToken, Grant, Instant, Mode, TokenRange, Ttl};

use super::super::lease::Lease;
use super::Ticket;
use super::facts::{Asking, Change, Outage};
use crate::engine::holds::{HoldId, Holds};
use crate::engine::tokens::Tokens;
use crate::error::LeaseLost;

/// The process watches a lease that is held for longer than this: the holder hears at once if the key goes.
const WATCH_AFTER: Duration = Duration::from_millis(50);
/// A lease that was given up and wanted again at once stays for this time when its holder goes: that is
/// likely to happen again.
pub(super) const PAUSE: Duration = Duration::from_millis(1);
/// The process checks a hint after this time. Most hints are the echo of what the process did itself, and
/// concern a hold that is over by then.
const CHECK_AFTER: Duration = Duration::from_millis(3);
/// The shortest pause before a request about a lease is repeated.
pub(super) const SOON: Duration = Duration::from_millis(1);

/// A lease that the store granted to this process, from the grant to the answered release.
#[derive(Debug)]
pub(super) struct Leased {
    pub(super) claim: Claim,
    pub(super) lease: Arc<Lease>,
    pub(super) stage: Stage,
    pub(super) tokens: Tokens,
    /// How many holders the lease has had.
    pub(super) used: u32,
    /// A holder came while another had it, or while more waited.
    pub(super) crowded: bool,
    /// The value of `used` at which the process last asked for more tokens.
    pub(super) stocked: Option<u32>,
    /// The store had no more tokens to give.
    pub(super) barren: bool,
    pub(super) demand: Demand,
    /// The store answered, and could not say whether other processes wait.
    silent: bool,
    /// The process has asked for that since hints may have been missed. If no answer comes, it asks again with the
    /// next renewal, not at once.
    pub(super) inquired: bool,
    /// A wish was heard while a renewal was under way, whose answer may be older.
    wish: bool,
    pub(super) granted: Instant,
    /// What counts against the budget: since when others may be waiting, and the holders since.
    pub(super) turn: (Instant, u32),
    pub(super) holds: Holds,
    /// The token of the holders that share the lease now.
    pub(super) group: Option<FencingToken>,
    /// Until when the lease stays if it has no holder.
    pub(super) idle_until: Instant,
    /// The conversion that the store has been asked for, and may have carried out.
    pub(super) change: Option<Change>,
    /// How often the mode has changed.
    pub(super) conversions: u64,
    /// From then on the process makes the lease weaker, if a weaker mode will do.
    pub(super) weaken_at: Instant,
    /// The renewal under way: whether it asks for tokens.
    pub(super) renewal: Option<Stocking>,
    pub(super) renew_at: Instant,
    /// The renewal may come a little early, in company.
    pub(super) relaxed: bool,
    /// A hint cast doubt on the lease: renew it then.
    pub(super) check_at: Option<Instant>,
    pub(super) watch_at: Instant,
    /// The store may have another lease than this one: it cannot be passed on.
    pub(super) spent: bool,
    /// It was given up, and wanted again before the store had heard of that.
    pub(super) retaken: bool,
}

/// The memory of a lease that is over. The next lease takes it, so that a pass allocates less.
#[derive(Debug)]
pub(super) struct Memory {
    lease: Arc<Lease>,
    holds: Holds,
}

impl Memory {
    pub(super) fn of(leased: Leased) -> Self {
        Self { lease: leased.lease, holds: leased.holds }
    }

    /// Memory for the next lease. A guard or a future may still look at the earlier one.
    fn reused(memory: Option<Self>, next: Lease) -> (Arc<Lease>, Holds) {
        let Some(Self { mut lease, holds }) = memory else {
            return (Arc::new(next), Holds::default());
        };
        match Arc::get_mut(&mut lease) {
            Some(earlier) => *earlier = next,
            None => lease = Arc::new(next),
        }
        (lease, holds.emptied())
    }
}

/// How this process stands to a lease.
#[derive(Debug)]
pub(super) enum Stage {
    /// It is this process's, with holders or without.
    Live,
    /// It is over, but guards live that had it, and with them a way to the data.
    Lost(LeaseLost),
    /// It was given up. The store has not confirmed that.
    Going(Going),
}

/// A lease that goes back to the store.
#[derive(Debug)]
pub(super) struct Going {
    pub(super) release: Release,
    /// The claim that takes a place in the queue in the same step.
    pub(super) next: Option<Box<Asking>>,
    /// The store has stopped answering.
    pub(super) outage: Option<Outage>,
    /// Another grant of the claim was heard of while the release was under way. The store may have made that
    /// grant after it carried out the release.
    pub(super) granted_again: bool,
}

impl Going {
    /// Nothing was sent yet.
    pub(super) fn due() -> Self {
        Self { release: Release::Due, next: None, outage: None, granted_again: false }
    }
}

#[derive(Debug)]
pub(super) enum Release {
    /// Nothing was sent: the process may still take the lease back.
    Due,
    /// The request is under way. At this instant the shell looks after it.
    Sent(Instant),
    /// It failed, and is due again at this instant.
    Failed(Instant),
}

/// Whether a renewal asks for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stocking {
    Yes,
    No,
}

impl Leased {
    /// `memory` is what an earlier lease has left.
    pub(super) fn new(
        memory: Option<Memory>,
        clock: Clock,
        claim: Claim,
        grant: Grant,
        ttl: Ttl,
        now: Instant,
    ) -> Box<Self> {
        let (lease, holds) = Memory::reused(memory, Lease::new(clock, grant.valid_until));
        let left = grant.valid_until.saturating_duration_since(now);
        // A lease that was handed over is short: a holder that keeps it for longer than a moment claims it.
        let short = left <= ttl.duration() / 2;
        Box::new(Self {
            claim,
            lease,
            stage: Stage::Live,
            tokens: Tokens::new(grant.tokens),
            used: 0,
            crowded: false,
            stocked: None,
            barren: false,
            demand: grant.demand,
            silent: false,
            inquired: false,
            wish: false,
            granted: now,
            turn: (now, 0),
            holds,
            group: None,
            idle_until: now,
            change: None,
            conversions: 0,
            weaken_at: Instant::FAR_FUTURE,
            renewal: None,
            renew_at: now + if short { left / 10 } else { left.min(ttl.duration()) / 3 },
            relaxed: !short,
            check_at: None,
            watch_at: now + WATCH_AFTER,
            spent: false,
            retaken: false,
        })
    }

    /// A claim that the store may have granted although this process has seen no grant.
    pub(super) fn unseen(clock: Clock, claim: Claim, until: Instant, now: Instant) -> Box<Self> {
        let tokens = TokenRange::single(FencingToken::new(0));
        let mut leased = Self::new(None, clock, claim, Grant::new(tokens, until), Ttl::MAX, now);
        leased.spent = true;
        leased
    }

    // ---- Stage ----

    #[inline]
    pub(super) fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Live)
    }

    /// Whether this process has holders that rely on the lease.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        self.is_live() && !self.holds.is_empty()
    }

    /// Whether the lease is here and has no holder.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.is_live() && self.holds.is_empty()
    }

    /// Whether it was given up and the store cannot have heard of that.
    #[inline]
    pub(super) fn is_going_soon(&self) -> bool {
        matches!(&self.stage, Stage::Going(going) if matches!(going.release, Release::Due))
    }

    // ---- Holders ----

    /// Gives the lease to one more holder. `None` if there is no token left.
    ///
    /// Holders that share the lease have one token, until one of them holds it alone.
    #[inline]
    pub(super) fn ticket(
        &mut self,
        (seat, serial): (usize, u64),
        want: Mode,
        until: Instant,
        now: Instant,
    ) -> Option<Ticket> {
        let shares = matches!(want, Mode::Shared | Mode::Upgradable | Mode::Joint { .. });
        let token = match self.group {
            Some(token) if shares => token,
            _ => self.tokens.take()?,
        };
        self.group = shares.then_some(token);
        let hold = self.add((seat, serial), want, token, until);
        self.consider_weaker(now);
        Some(Ticket { hold, lease: Arc::clone(&self.lease), token, hold_until: until })
    }

    /// Gives the lease to one more reader. `None` if the readers have no token yet.
    #[inline]
    pub(super) fn share(&mut self, at: (usize, u64)) -> Option<Ticket> {
        let token = self.group?;
        let until = Instant::FAR_FUTURE;
        let hold = self.add(at, Mode::Shared, token, until);
        Some(Ticket { hold, lease: Arc::clone(&self.lease), token, hold_until: until })
    }

    #[inline]
    fn add(&mut self, at: (usize, u64), mode: Mode, token: FencingToken, until: Instant) -> HoldId {
        self.used = self.used.saturating_add(1);
        self.turn.1 = self.turn.1.saturating_add(1);
        self.holds.add(at.0, at.1, mode, token, until)
    }

    /// Makes a hold exclusive, with a token of its own.
    pub(super) fn strengthen(&mut self, hold: HoldId) -> Option<Ticket> {
        let token = self.tokens.take()?;
        self.group = None;
        self.holds.change(hold, |holding| {
            holding.mode = Mode::Exclusive;
            holding.token = token;
        });
        self.weaken_at = Instant::FAR_FUTURE;
        let hold_until = self.holds.get(hold)?.until;
        Some(Ticket { hold, lease: Arc::clone(&self.lease), token, hold_until })
    }

    /// Makes a hold weaker. More holders may join it.
    pub(super) fn downgrade(&mut self, hold: HoldId, to: Mode, now: Instant) {
        let Some(holding) = self.holds.get(hold).copied() else { return };
        if holding.mode.is_stronger_than(to) {
            self.holds.change(hold, |holding| holding.mode = to);
            self.group = Some(holding.token);
            self.weaken_at = now;
        }
    }

    /// Whether the holders read under this lease, and no other process is known to want it. The first reader of a lease
    /// that is stronger than it needs makes the lease weaker: that is not the short way.
    pub(super) fn is_shared_quietly(&self) -> bool {
        self.is_live()
            && (!self.holds.is_empty() || self.claim.mode == Mode::Shared)
            && self.demand == Demand::Quiet
            && self.group.is_some()
            && self.has_room(Mode::Shared)
    }

    /// Whether one more hold in this mode fits on the lease.
    #[inline]
    pub(super) fn has_room(&self, want: Mode) -> bool {
        // While a weaker mode has been asked for, the lease may have it.
        let mode = self.weakening().map_or(self.claim.mode, |change| change.to);
        // A lease of which a part is to be forgotten comes to an end first.
        let ends = mode.counts() && self.holds.has_forgotten();
        mode.covers(want) && !ends && self.holds.have_room(mode, want)
    }

    /// Whether the lease has permits that no holder uses, or that are on their way back.
    #[inline]
    pub(super) fn has_idle_permits(&self) -> bool {
        self.claim.mode.counts()
            && !self.spent
            && (self.change.is_some() || self.holds.need(self.claim.mode) != self.claim.mode)
    }

    /// The permits that this process certainly has by this lease.
    pub(super) fn permits(&self, of: u32) -> u64 {
        // Those that are being given back belong to others already, for all that is known.
        let mode = self.change.as_ref().map_or(self.claim.mode, |change| change.to);
        match mode {
            Mode::Permits { take, of: known }
                if known == of && (self.is_live() || self.is_going_soon()) =>
            {
                u64::from(take)
            }
            _ => 0,
        }
    }

    // ---- What the store says ----

    /// When to repeat a request about the lease that got no answer, while there is time.
    pub(super) fn retry_at(&self, now: Instant, ttl: Ttl) -> Instant {
        let left = self.lease.deadline().saturating_duration_since(now);
        now + (ttl.duration() / 10).min(left / 4).max(SOON)
    }

    #[inline]
    pub(super) fn demand(&self) -> Demand {
        self.demand
    }

    /// Whether the store has answered that it cannot tell whether other processes wait.
    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    /// Others were heard of, or not. Their waiting counts from now, the present holder included.
    fn set_demand(&mut self, demand: Demand, now: Instant) {
        if self.demand == Demand::Quiet && demand != Demand::Quiet {
            self.turn = (now, 1);
        }
        self.demand = demand;
    }

    /// Another process waits.
    pub(super) fn hear_wish(&mut self, now: Instant) {
        self.wish =
            self.renewal.is_some() || self.change.as_ref().is_some_and(|change| change.sent);
        self.set_demand(Demand::Wanted, now);
    }

    /// Hints may have been missed: what others want is unknown.
    pub(super) fn hear_nothing(&mut self, now: Instant) {
        self.listen_again();
        self.set_demand(Demand::Unknown, now);
    }

    /// The store may know by now whether other processes wait.
    pub(super) fn listen_again(&mut self) {
        (self.silent, self.inquired) = (false, false);
    }

    /// The store has answered a request about the lease.
    pub(super) fn answered(&mut self, demand: Demand, now: Instant) {
        let demand = if std::mem::take(&mut self.wish) { Demand::Wanted } else { demand };
        self.silent = demand == Demand::Unknown;
        self.set_demand(demand, now);
    }

    /// A hint casts doubt on the lease.
    pub(super) fn doubt(&mut self, now: Instant) {
        self.check_at.get_or_insert(now + CHECK_AFTER);
    }
}
