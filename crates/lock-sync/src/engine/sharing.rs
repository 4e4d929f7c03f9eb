//! How holders come and go beside other holders: by the gate, or by a short way under the lock.

use std::sync::Arc;

use lock_core::Mode;

use super::gate::{Leaving, Way};
use super::holdings::HoldId;
use super::manner::Manner;
use super::{Entry, Exit};
use crate::sync::atomic::Ordering;
use crate::sync::now;

impl Entry {
    /// The short ways for one more holder beside others, if there is one: see [`enter`](super::gate::Gate::enter) and
    /// [`share`](super::machine::Machine::share).
    #[inline]
    pub(super) fn share(self: &Arc<Self>, want: Mode, manner: Manner) -> Option<Way> {
        // The machine does not learn the manner of a reader that comes through the gate.
        let gated = want == Mode::Shared && self.has_gate(manner);
        match gated.then(|| self.gate.enter(self.shared.clock)).flatten() {
            Some(Ok(reader)) => return Some(Way::Gate(reader)),
            Some(Err(reader)) => self.leave_gate(reader.hold, manner),
            None => {}
        }
        self.share_by_lock(want, manner, gated)
    }

    /// `gated`: the gate may open for this holder.
    pub(super) fn share_by_lock(&self, want: Mode, manner: Manner, gated: bool) -> Option<Way> {
        if self.wanted.load(Ordering::Acquire) || self.crowded.load(Ordering::Relaxed) {
            return None;
        }
        // Read before taking the lock, because many tasks contend for it.
        let now = now(self.shared.clock);
        let mut state = self.lock_beside_gate();
        // Another reader may have opened the gate. If each of two readers closed it for the other one, it would stay
        // closed.
        if gated && let Some(reader) = self.gate.enter_at(now) {
            return Some(Way::Gate(reader));
        }
        self.close_gate(&mut state);
        if !state.news.is_empty() {
            return None;
        }
        let armed = state.armed_at();
        if gated && let Some(opening) = state.machine.open(now, manner, armed) {
            return Some(Way::Gate(self.gate.open(&opening)));
        }
        state.machine.share(want, now, manner).map(Way::Ticket)
    }

    /// Whether readers with this manner may come through the gate. Observers hear of each reader.
    #[inline]
    fn has_gate(&self, manner: Manner) -> bool {
        self.observed.is_none() && manner == self.shared.manner
    }

    /// A reader that came through the gate leaves.
    #[inline]
    pub(super) fn leave_gate(self: &Arc<Self>, hold: HoldId, manner: Manner) {
        match self.gate.leave() {
            Leaving::Left => {}
            Leaving::Last => self.let_go(self.lock(), |_| {}),
            Leaving::Closed => self.leave_by_lock(hold, manner),
        }
    }

    pub(super) fn leave_by_lock(self: &Arc<Self>, hold: HoldId, manner: Manner) {
        let mut state = self.lock_beside_gate();
        // If the gate has opened again, the reader is known to the gate.
        let leaving = self.gate.leave();
        if leaving == Leaving::Left {
            return;
        }
        self.close_gate(&mut state);
        match leaving {
            Leaving::Last => self.let_go(state, |_| {}),
            _ => self.release_locked(state, Exit { hold, lease: &mut None, manner, now: None }),
        }
    }
}
