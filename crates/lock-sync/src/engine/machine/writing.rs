//! The value beside the lock: who knows it, and what becomes of a lease while the value is written.
//!
//! A lease knows the value that came with its grant, or that a holder has loaded or written. So a process passes the
//! value on together with the lease. While a write has no answer, the process does not know the value, and does not
//! pass the lease on. If the writer goes away, the lease goes back, and the store refuses a late arrival of the write.

use lock_core::{LoadedValue, Released};

use super::leased::{Going, Leased, Stage};
use super::{Machine, Manner, Write};
use crate::engine::holdings::HoldId;

impl<W> Machine<W> {
    /// The value beside the lock, if this process knows it.
    pub(in super::super) fn value(&self, hold: HoldId) -> Option<LoadedValue> {
        self.live(hold)?.value.clone()
    }

    /// A holder has loaded the value. `None`: it is about to write the value by other means, so this process no longer
    /// knows it.
    pub(in super::super) fn loaded(&mut self, hold: HoldId, value: Option<&LoadedValue>) {
        if let Some(leased) = self.held_mut(hold).filter(|leased| leased.writing.is_none()) {
            leased.value = value.cloned();
        }
    }

    /// A holder begins to write the value. `last`: it lets go of the lock afterwards. `None` if the lease is over, or
    /// if no token is left by which the store could tell this write from an earlier one without an answer. Then the
    /// process asks for tokens, unless the lease is not renewed.
    pub(in super::super) fn begin_write(
        &mut self,
        hold: HoldId,
        last: bool,
        manner: Manner,
    ) -> Option<Write> {
        let (ends, renews) = (last && !self.goes_on(hold, manner), self.policy.renew);
        let leased = self.held_mut(hold)?;
        let mut token = leased.holds.get(hold)?.token;
        if leased.written.is_some_and(|written| written >= token) {
            match leased.tokens.take() {
                Some(next) => token = next,
                None if leased.writing.is_some() => {
                    (leased.tokens.wanted, leased.tokens.asked) = (renews, false);
                    return None;
                }
                None => {}
            }
            // The renewals of a holder that writes again and again bring more tokens.
            leased.used = leased.used.saturating_add(1);
        }
        leased.holds.change(hold, |holding| holding.token = token);
        leased.value = None;
        let (claim, follows_doubt) = (leased.claim.clone(), leased.writing.is_some());
        leased.writing = Some(Write { claim, token, ends, follows_doubt });
        leased.written = Some(token);
        leased.writing.clone()
    }

    /// Whether a holder still waits for a token with which to [begin a write](Self::begin_write).
    pub(in super::super) fn wants_token(&self, hold: HoldId) -> bool {
        self.live(hold).is_some_and(|leased| leased.tokens.left() == 0 && leased.tokens.wanted)
    }

    /// Whether the lease stays in this process, or takes a new place in the queue of the store, when its holder lets
    /// go.
    fn goes_on(&self, hold: HoldId, manner: Manner) -> bool {
        let Some(leased) = self.live(hold) else { return false };
        let now = self.pass.now;
        match self.queue.first_want() {
            Some(want) => {
                let kept = leased.tokens.left() > 0 && leased.may_go_on(now, manner, &self.policy);
                want == leased.claim.mode && kept || self.request_again(hold.seat()).is_some()
            }
            None => {
                let cached = manner.cache().is_some() && !self.closed && self.policy.renew;
                cached && !leased.idles(now, manner, self.policy.ttl).is_zero()
            }
        }
    }

    /// The store has answered a write that leaves the lease as it is: this is the value now, if the answer says so. The
    /// store may still carry out an earlier write without an answer, unless it has carried out this one.
    pub(in super::super) fn wrote(&mut self, hold: HoldId, value: Option<&LoadedValue>) {
        if let Some(leased) = self.held_mut(hold) {
            let doubted = |write: &Write| value.is_none() && write.follows_doubt;
            let writing = leased.writing.take().filter(doubted);
            leased.writing = writing.map(|write| Write { ends: false, ..write });
            leased.value = value.cloned();
        }
    }

    /// The store has written the value and ended the lease.
    pub(in super::super) fn committed(&mut self, hold: HoldId, told: u32) {
        let mut going = Going::new(self.pass.now);
        going.release.send();
        if let Some((_, leased)) = self.remove(hold)
            && leased.is_live()
        {
            leased.stage = Stage::Going(going);
            self.released(hold.seat(), &Ok((Released::Freed { told }, None)));
        }
    }

    /// The lease of a live hold.
    pub(super) fn held_mut(&mut self, hold: HoldId) -> Option<&mut Leased> {
        self.live_mut(hold).filter(|leased| leased.holds.get(hold).is_some_and(|it| it.is_live()))
    }
}
