//! A lease in this process's hands: its tokens, its turn, and when it must be renewed.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Claim, Clock, Demand, FencingToken, Grant, Instant, Mode, TokenRange, Ttl};

use super::super::lease::Lease;
use super::holds::{HoldId, Holds, covers};
use super::renewing::SOON;
use super::{Manner, Policy, Ticket};
use crate::handoff::Handoff;

/// A lease is handed over only if a twentieth of its time is left, or this.
const SLICE: Duration = Duration::from_millis(100);
/// How long a lease stays here at most although nobody stands in the store's queue: there may be others
/// who want it and do not.
const STAY: Duration = Duration::from_secs(1);
/// A lease that is held for longer than this is watched: its holder hears at once if the key goes.
const WATCH_AFTER: Duration = Duration::from_millis(50);
/// A lease that is stronger than its holders need stays so for this time, unless somebody wants it: the
/// next who comes may need it again.
const STRONG: Duration = Duration::from_millis(5);
/// A lease that was given up and wanted again at once is kept for this time when nobody here has it: that is
/// likely to happen again.
const LINGER: Duration = Duration::from_millis(1);
/// A hint is checked after this time: many are the echo of what this process did itself, and most
/// of those concern a hold that is over by then.
const CHECK_AFTER: Duration = Duration::from_millis(3);

/// A lease that was granted to this process.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) claim: Claim,
    pub(super) lease: Arc<Lease>,
    tokens: Tokens,
    /// How many had joined the line when the tokens were asked for: others may have been granted permits
    /// since, whom somebody who came later must not be given a lower token than.
    line: u64,
    /// The same for those that the renewal under way asks for.
    pub(super) next_line: u64,
    /// The store had no tokens to give.
    pub(super) barren: bool,
    /// How many holders there have been.
    pub(super) used: u32,
    demand: Demand,
    granted: Instant,
    /// A wish was heard while a renewal was under way, whose answer may be older.
    wish: bool,
    /// What counts against the budget: since when others may be waiting, and the holders since.
    turn: (Instant, u32),
    pub(super) holds: Holds,
    /// The token of those who share the lease now.
    group: Option<FencingToken>,
    /// How the latest holder wants the lock to be passed on.
    pub(super) manner: Manner,
    /// The mode to which the lease is being converted, or may have been.
    pub(super) converting: Option<Mode>,
    /// How often it has become another.
    pub(super) conversions: u64,
    /// An upgrade was given up, of which it is not known whether it was granted.
    pub(super) leaving: Option<Leaving>,
    /// A weaker mode would do: from then on it is asked for.
    pub(super) weaken_at: Instant,
    pub(super) renew_at: Instant,
    /// Whether the renewal may come a little early, in company.
    pub(super) relaxed: bool,
    /// A request about the lease is under way: the store must not hear of the next before.
    pub(super) renewing: bool,
    /// The renewal under way asks for tokens.
    pub(super) stocking: bool,
    /// A hint made it doubtful whether this is still held: ask then.
    pub(super) check_at: Option<Instant>,
    pub(super) watch_at: Instant,
    /// There is nothing here to hand over.
    pub(super) spent: bool,
    /// It was given up, and wanted again before the store had heard of that.
    pub(super) retaken: bool,
}

/// How an upgrade that nobody waits for any more leaves the store's queue: by being asked for once more,
/// without a place. Then it is granted or it is not, and nothing is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// A request is under way.
    Sent,
    /// It has to be asked for at this instant.
    Due(Instant),
}

/// What may be done with a lease that its holder has given up and for which somebody waits here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    HandOver,
    /// It may stay, but a token for the next holder has to be reserved first.
    AwaitTokens,
    GiveUp,
}

impl Held {
    pub(super) fn new(
        clock: Clock,
        claim: Claim,
        grant: Grant,
        ttl: Ttl,
        line: u64,
        now: Instant,
    ) -> Box<Self> {
        let left = grant.valid_until.saturating_duration_since(now);
        let short = left <= ttl.duration() / 2;
        Box::new(Self {
            claim,
            lease: Arc::new(Lease::new(clock, grant.valid_until)),
            tokens: Tokens::new(grant.tokens),
            line,
            next_line: 0,
            barren: false,
            used: 0,
            demand: grant.demand,
            granted: now,
            wish: false,
            turn: (now, 0),
            holds: Holds::default(),
            group: None,
            manner: Manner { handoff: Handoff::Fair, cache: None },
            converting: None,
            conversions: 0,
            leaving: None,
            weaken_at: Instant::FAR_FUTURE,
            // What was handed over is short: whoever keeps it for longer than a moment claims it.
            renew_at: now + if short { left / 10 } else { left.min(ttl.duration()) / 3 },
            relaxed: !short,
            renewing: false,
            stocking: false,
            check_at: None,
            watch_at: now + WATCH_AFTER,
            spent: false,
            retaken: false,
        })
    }

    /// A claim that may be held although nobody has seen a grant.
    pub(super) fn unseen(clock: Clock, claim: Claim, until: Instant, now: Instant) -> Box<Self> {
        let tokens = TokenRange::single(FencingToken::new(0));
        let mut held = Self::new(clock, claim, Grant::new(tokens, until), Ttl::MAX, 0, now);
        held.spent = true;
        held
    }

    /// Gives the lease to one more holder. `None` if there is no token left.
    ///
    /// Those who share it have one token, until somebody holds it alone.
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
        self.used = self.used.saturating_add(1);
        self.turn.1 = self.turn.1.saturating_add(1);
        let hold = self.holds.add(seat, serial, want, token, until);
        self.consider_weaker(now);
        Some(Ticket { hold, lease: Arc::clone(&self.lease), token, hold_until: until })
    }

    /// Gives the lease to one more of those who read. `None` if they have no token yet.
    #[inline]
    pub(super) fn share(&mut self, (seat, serial): (usize, u64), manner: Manner) -> Option<Ticket> {
        let token = self.group?;
        self.used = self.used.saturating_add(1);
        self.turn.1 = self.turn.1.saturating_add(1);
        self.manner = manner;
        let until = Instant::FAR_FUTURE;
        let hold = self.holds.add(seat, serial, Mode::Shared, token, until);
        Some(Ticket { hold, lease: Arc::clone(&self.lease), token, hold_until: until })
    }

    /// A further token, for a holder that has become another.
    pub(super) fn next_token(&mut self) -> Option<FencingToken> {
        self.group = None;
        self.tokens.take()
    }

    /// What a hold's claim and tokens have become by a conversion.
    pub(super) fn become_exclusive(&mut self, claim: Claim, tokens: TokenRange) {
        self.claim = claim;
        self.tokens = Tokens::new(tokens);
        self.group = None;
    }

    /// A writer goes on as a reader, beside whom others may come.
    pub(super) fn downgrade(&mut self, hold: HoldId, to: Mode, now: Instant) {
        let Some(holding) = self.holds.get(hold).copied() else { return };
        if covers(holding.mode, to) && holding.mode != to {
            self.holds.change(hold, |holding| holding.mode = to);
            self.group = Some(holding.token);
            self.weaken_at = now;
        }
    }

    /// Whether those who read do so under this lease, and nobody elsewhere is known to want it.
    pub(super) fn is_shared_quietly(&self) -> bool {
        self.demand == Demand::Quiet && self.group.is_some() && self.has_room(Mode::Shared)
    }

    /// Whether there is room for this mode beside those who hold the lease.
    pub(super) fn has_room(&self, want: Mode) -> bool {
        // What it is about to become it may be already.
        let mode = self.converting.unwrap_or(self.claim.mode);
        // A lease of which a part is to be forgotten comes to an end first.
        let ends = counts(mode) && self.holds.has_forgotten();
        covers(mode, want) && !ends && self.holds.have_room(mode, want)
    }

    /// Notes that the lease need not be as strong as it is, if so.
    pub(super) fn consider_weaker(&mut self, now: Instant) {
        let need = self.holds.need(self.claim.mode);
        self.weaken_at = match need {
            _ if need == self.claim.mode => Instant::FAR_FUTURE,
            _ if self.weaken_at < Instant::FAR_FUTURE => self.weaken_at,
            Mode::Permits { .. } => now + LINGER,
            _ => now + STRONG,
        };
    }

    /// When the lease is to be converted, first or again.
    pub(super) fn weaken_due(&self) -> Instant {
        match self.converting {
            Some(_) => self.renew_at,
            None if self.holds.need(self.claim.mode) == self.claim.mode => Instant::FAR_FUTURE,
            None => self.weaken_at,
        }
    }

    /// The mode to convert the lease to, if it is time.
    pub(super) fn weaker(&mut self, now: Instant) -> Option<Mode> {
        if let Some(to) = self.converting {
            // The store may be out of reach.
            return (now >= self.renew_at).then_some(to);
        }
        let wanted = self.demand == Demand::Wanted;
        if !wanted && now < self.weaken_at {
            return None;
        }
        if wanted {
            self.holds.forget_peak();
        }
        let need = match self.claim.mode {
            // As many as were used at once of late: what is used again and again need not come and go.
            mode @ Mode::Permits { .. } => self.holds.need_at_peak(mode),
            mode => self.holds.need(mode),
        };
        self.holds.forget_peak();
        if need == self.claim.mode {
            self.weaken_at = Instant::FAR_FUTURE;
            self.consider_weaker(now);
            return None;
        }
        Some(need)
    }

    /// Gives back at once what is not used now.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.holds.forget_peak();
        self.weaken_at = self.weaken_at.min(now);
    }

    /// Whether there are permits here that nobody here uses, or that are on their way back.
    pub(super) fn has_idle_permits(&self) -> bool {
        counts(self.claim.mode)
            && !self.spent
            && (self.converting.is_some() || self.holds.need(self.claim.mode) != self.claim.mode)
    }

    /// What may be done with the lease now that its holder is done.
    pub(super) fn fate(&self, now: Instant, manner: Manner, policy: &Policy) -> Fate {
        let valid = !self.spent && self.lease.is_valid(now);
        // What others were granted meanwhile may have left it without a token.
        if valid && self.used == 0 && self.tokens.left() > 0 {
            return Fate::HandOver;
        }
        if !self.may_go_on(now, manner, policy) {
            return Fate::GiveUp;
        }
        match self.tokens.left() {
            0 if self.stays(now, manner, policy) => Fate::AwaitTokens,
            0 => Fate::GiveUp,
            _ => Fate::HandOver,
        }
    }

    /// Whether the lease may have another holder as far as those are concerned who wait elsewhere.
    pub(super) fn may_go_on(&self, now: Instant, manner: Manner, policy: &Policy) -> bool {
        let (since, served) = self.turn;
        let ttl = policy.ttl.duration();
        // A lease that is not renewed is not passed on when it is used up.
        let slice = if policy.renew { SLICE.min(ttl / 20) } else { ttl / 2 };
        // A writer who waits holds back readers who come later, wherever they come.
        let reads = matches!(self.claim.mode, Mode::Shared | Mode::Upgradable);
        let held_back = reads && self.demand == Demand::Wanted;
        !(self.spent || held_back)
            && self.lease.is_valid(now)
            && now + slice < self.lease.deadline()
            && (self.stays(now, manner, policy)
                || manner.handoff.allows(served, now.saturating_duration_since(since)))
    }

    /// Whether nobody elsewhere is known to want the lease, and it has not been here for too long.
    fn stays(&self, now: Instant, manner: Manner, policy: &Policy) -> bool {
        policy.renew
            && manner.handoff != Handoff::Never
            && self.demand == Demand::Quiet
            && !self.has_stayed(now)
    }

    /// Whether it is time to let in those who do not stand in the queue, should there be any.
    pub(super) fn has_stayed(&self, now: Instant) -> bool {
        // Whoever reads stands in nobody's way who does.
        let alone = matches!(self.claim.mode, Mode::Exclusive | Mode::Permits { .. });
        alone && self.demand == Demand::Quiet && now >= self.granted + STAY
    }

    /// Whether a lease that nobody uses has been here for so long that others should have a chance.
    pub(super) fn was_kept(&self, now: Instant, ttl: Ttl) -> bool {
        now >= self.granted + STAY.max(ttl.duration() / 3)
    }

    /// How long the lease is kept although nobody here wants it: as long as its holder asked for, and in
    /// any case for a moment if the last moment was too short and nobody elsewhere wants it.
    pub(super) fn idles(&self, manner: Manner) -> Option<Duration> {
        let lingers = self.retaken && self.demand == Demand::Quiet;
        manner.cache.max(lingers.then_some(LINGER))
    }

    /// When to repeat a request about the lease of which nothing was heard, while there is time.
    pub(super) fn retry_at(&self, now: Instant, ttl: Duration) -> Instant {
        let left = self.lease.deadline().saturating_duration_since(now);
        now + (ttl / 10).min(left / 4).max(SOON)
    }

    pub(super) fn demand(&self) -> Demand {
        self.demand
    }

    /// Others were heard of, or not. Their waiting counts from now, the present holder included.
    pub(super) fn set_demand(&mut self, demand: Demand, now: Instant) {
        if self.demand == Demand::Quiet && demand != Demand::Quiet {
            self.turn = (now, 1);
        }
        self.demand = demand;
    }

    pub(super) fn hear_wish(&mut self, now: Instant) {
        self.wish = self.renewing;
        self.set_demand(Demand::Wanted, now);
    }

    /// A renewal has said so.
    pub(super) fn answered(&mut self, demand: Demand, now: Instant) {
        let demand = if std::mem::take(&mut self.wish) { Demand::Wanted } else { demand };
        self.set_demand(demand, now);
    }

    /// Gives up tokens that are not above this one: several leases have one order of tokens.
    pub(super) fn skip_to(&mut self, above: FencingToken) {
        self.tokens.skip_to(above);
    }

    pub(super) fn tokens_left(&self) -> u32 {
        self.tokens.left()
    }

    pub(super) fn refill(&mut self, range: TokenRange) {
        self.tokens.add(range);
        self.barren = false;
    }

    /// Takes these tokens in place of all that are left.
    pub(super) fn restock(&mut self, range: TokenRange) {
        self.tokens = Tokens::new(range);
        self.line = self.next_line;
        self.barren = false;
    }

    /// Whether the lease may stay until fresh tokens have come.
    pub(super) fn may_await_tokens(&self, now: Instant, manner: Manner, policy: &Policy) -> bool {
        let settled = self.converting.is_none() && self.leaving.is_none();
        settled
            && !self.barren
            && policy.renew
            && self.demand != Demand::Wanted
            && self.may_go_on(now, manner, policy)
    }

    /// Gives up the tokens that are left.
    pub(super) fn drop_tokens(&mut self) {
        self.tokens.used = self.tokens.range.count().get();
        self.tokens.more = None;
    }

    /// Whether its tokens may be given to who joined the line with so many others.
    pub(super) fn is_for(&self, arrival: u64) -> bool {
        arrival <= self.line
    }

    /// A hint casts doubt on the lease.
    pub(super) fn doubt(&mut self, now: Instant) {
        self.check_at.get_or_insert(now + CHECK_AFTER);
    }
}

pub(super) fn counts(mode: Mode) -> bool {
    matches!(mode, Mode::Permits { .. })
}

/// The tokens that are reserved and not yet given out, in rising order.
#[derive(Debug)]
struct Tokens {
    range: TokenRange,
    used: u32,
    /// A later range that does not adjoin.
    more: Option<TokenRange>,
}

impl Tokens {
    fn new(range: TokenRange) -> Self {
        Self { range, used: 0, more: None }
    }

    /// Skips those that are not above this one.
    fn skip_to(&mut self, above: FencingToken) {
        while let Some(token) = self.peek()
            && token <= above
        {
            let behind = above.get().saturating_sub(token.get()).saturating_add(1);
            let left = self.range.count().get() - self.used;
            self.used += u32::try_from(behind).map_or(left, |behind| behind.min(left));
        }
    }

    fn peek(&mut self) -> Option<FencingToken> {
        if self.range.nth(self.used).is_none() {
            self.range = self.more.take()?;
            self.used = 0;
        }
        self.range.nth(self.used)
    }

    fn take(&mut self) -> Option<FencingToken> {
        let token = self.peek()?;
        self.used += 1;
        Some(token)
    }

    fn left(&self) -> u32 {
        let more = self.more.map_or(0, |more| more.count().get());
        (self.range.count().get() - self.used).saturating_add(more)
    }

    /// Adds a range above all others. Should one not fit, tokens are skipped, never repeated.
    fn add(&mut self, range: TokenRange) {
        let last = self.more.map_or(self.range.last(), |more| more.last());
        if range.first() <= last {
            return;
        }
        if self.more.is_none()
            && range.first().get() == last.get() + 1
            && let Some(count) = self.range.count().checked_add(range.count().get())
        {
            self.range = TokenRange::new(self.range.first(), count);
        } else {
            self.more = Some(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn range(first: u64, count: u32) -> TokenRange {
        TokenRange::new(FencingToken::new(first), NonZeroU32::new(count).unwrap())
    }

    fn drain(mut tokens: Tokens) -> Vec<u64> {
        let left = tokens.left();
        let all: Vec<u64> = std::iter::from_fn(|| tokens.take()).map(|token| token.get()).collect();
        assert_eq!(all.len() as u32, left);
        all
    }

    #[test]
    fn ranges_that_adjoin_become_one() {
        let mut tokens = Tokens::new(range(5, 2));
        tokens.take();
        tokens.add(range(7, 2));
        assert!(tokens.more.is_none());
        tokens.add(range(20, 2));
        assert_eq!(drain(tokens), [6, 7, 8, 20, 21]);
    }

    #[test]
    fn tokens_are_skipped_rather_than_repeated() {
        let mut tokens = Tokens::new(range(5, 2));
        tokens.add(range(4, 3));
        tokens.add(range(10, 2));
        tokens.add(range(11, 2));
        tokens.add(range(30, 1));
        assert_eq!(drain(tokens), [5, 6, 30]);
    }
}
