//! The line: the waiters for a key in this process, in order.

use std::collections::BTreeSet;

use lock_core::{Instant, Mode};
use slab::Slab;

/// One waiter. Valid from [`Queue::push`] to [`Queue::remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterId(u32);

/// How long a waiter is ready to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until the store has answered once.
    Try,
    /// Until this instant.
    Until(Instant),
    /// Without a limit.
    Forever,
}

/// A FIFO queue of waiters with outcomes of type `O` and wakers of type `W`.
///
/// A waiter stands in line until [`answer`](Self::answer) gives it an outcome. Its slot stays until the waiter has
/// picked the outcome up. Leaving from the middle costs as much as leaving from the front. Slots are reused, so a
/// lock that has been used for a while allocates nothing here.
#[derive(Debug)]
pub(super) struct Queue<W, O> {
    slots: Slab<Slot<W, O>>,
    front: Option<u32>,
    back: Option<u32>,
    waiting: usize,
    /// The waiters with a limit, by the instant at which it is reached.
    limits: BTreeSet<(Instant, WaiterId)>,
}

#[derive(Debug)]
enum Slot<W, O> {
    Waiting { patience: Patience, want: Mode, waker: Option<W>, position: Position },
    Answered(O),
}

#[derive(Clone, Copy, Debug)]
enum Position {
    InLine { previous: Option<u32>, next: Option<u32> },
    Aside,
}

impl<W, O> Queue<W, O> {
    pub(super) fn new() -> Self {
        Self { slots: Slab::new(), front: None, back: None, waiting: 0, limits: BTreeSet::new() }
    }

    /// Whether no waiter stands in line. Waiters with an outcome do not stand in line.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many waiters stand in line.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// Adds a waiter at the back of the line, for a hold in this mode.
    pub(super) fn push(&mut self, patience: Patience, want: Mode) -> WaiterId {
        let position = Position::InLine { previous: self.back, next: None };
        let id = self.insert(patience, want, position);
        match self.back {
            Some(back) => self.link(back).1.replace(id.0),
            None => self.front.replace(id.0),
        };
        self.back = Some(id.0);
        self.waiting += 1;
        id
    }

    /// Adds a waiter beside the line, for an upgrade to exclusive. The line does not count it.
    pub(super) fn push_aside(&mut self, patience: Patience) -> WaiterId {
        self.insert(patience, Mode::Exclusive, Position::Aside)
    }

    fn insert(&mut self, patience: Patience, want: Mode, position: Position) -> WaiterId {
        let slot = Slot::Waiting { patience, want, waker: None, position };
        let index = self.slots.insert(slot) as u32;
        if let Patience::Until(limit) = patience {
            self.limits.insert((limit, WaiterId(index)));
        }
        WaiterId(index)
    }

    /// The first waiter in line, and its patience.
    #[inline]
    pub(super) fn first(&self) -> Option<(WaiterId, Patience)> {
        let id = WaiterId(self.front?);
        self.patience(id).map(|patience| (id, patience))
    }

    /// The mode that the first waiter in line wants.
    #[inline]
    pub(super) fn first_want(&self) -> Option<Mode> {
        self.want(WaiterId(self.front?))
    }

    /// The modes that the waiters in line want, in order.
    pub(super) fn wants(&self) -> impl Iterator<Item = Mode> {
        self.iter().filter_map(|id| self.want(id))
    }

    /// The waiters in line, in order.
    pub(super) fn waiting(&self) -> Vec<(WaiterId, Patience, Mode)> {
        let waiter = |id| Some((id, self.patience(id)?, self.want(id)?));
        self.iter().filter_map(waiter).collect()
    }

    fn iter(&self) -> impl Iterator<Item = WaiterId> {
        std::iter::successors(self.front, |index| match &self.slots[*index as usize] {
            Slot::Waiting { position: Position::InLine { next, .. }, .. } => *next,
            Slot::Waiting { .. } | Slot::Answered(_) => None,
        })
        .map(WaiterId)
    }

    /// The mode that a waiter wants; `None` once it has an outcome.
    #[inline]
    pub(super) fn want(&self, id: WaiterId) -> Option<Mode> {
        match &self.slots[id.0 as usize] {
            Slot::Waiting { want, .. } => Some(*want),
            Slot::Answered(_) => None,
        }
    }

    /// The patience of a waiter; `None` once it has an outcome.
    #[inline]
    pub(super) fn patience(&self, id: WaiterId) -> Option<Patience> {
        match &self.slots[id.0 as usize] {
            Slot::Waiting { patience, .. } => Some(*patience),
            Slot::Answered(_) => None,
        }
    }

    /// Takes a waiter out of the line and gives it its outcome. Returns its waker.
    #[inline]
    pub(super) fn answer(&mut self, id: WaiterId, outcome: O) -> Option<W> {
        let waker = self.unlink(id);
        self.slots[id.0 as usize] = Slot::Answered(outcome);
        waker
    }

    /// Leaves this waker, if there is one, to be woken once the waiter has its outcome. `waker` becomes the one that
    /// was left before.
    ///
    /// Returns `false` if the waiter already has its outcome: [`take`](Self::take) it.
    #[inline]
    pub(super) fn park(&mut self, id: WaiterId, waker: &mut Option<W>) -> bool {
        match &mut self.slots[id.0 as usize] {
            Slot::Waiting { waker: slot, .. } => {
                if waker.is_some() {
                    std::mem::swap(slot, waker);
                }
                true
            }
            Slot::Answered(_) => false,
        }
    }

    /// The waker that the waiter has left.
    pub(super) fn parked(&self, id: WaiterId) -> Option<&W> {
        match &self.slots[id.0 as usize] {
            Slot::Waiting { waker, .. } => waker.as_ref(),
            Slot::Answered(_) => None,
        }
    }

    /// Takes back the waker that the waiter has left.
    pub(super) fn unpark(&mut self, id: WaiterId) -> Option<W> {
        match &mut self.slots[id.0 as usize] {
            Slot::Waiting { waker, .. } => waker.take(),
            Slot::Answered(_) => None,
        }
    }

    /// Picks up the outcome and gives the slot back. `None` while there is no outcome.
    #[inline]
    pub(super) fn take(&mut self, id: WaiterId) -> Option<O> {
        match self.slots[id.0 as usize] {
            Slot::Answered(_) => self.remove(id).1,
            Slot::Waiting { .. } => None,
        }
    }

    /// Removes a waiter, wherever it stands. Returns its waker, or an outcome that was not picked up.
    #[inline]
    pub(super) fn remove(&mut self, id: WaiterId) -> (Option<W>, Option<O>) {
        let waker = self.unlink(id);
        match self.slots.remove(id.0 as usize) {
            Slot::Answered(outcome) => (waker, Some(outcome)),
            Slot::Waiting { .. } => (waker, None),
        }
    }

    /// The instant at which the first limit is reached.
    #[inline]
    pub(super) fn first_limit(&self) -> Option<Instant> {
        self.limits.first().map(|(limit, _)| *limit)
    }

    /// A waiter whose limit has been reached.
    pub(super) fn overdue(&self, now: Instant) -> Option<WaiterId> {
        self.limits.first().filter(|(limit, _)| *limit <= now).map(|(_, id)| *id)
    }

    #[inline]
    fn unlink(&mut self, id: WaiterId) -> Option<W> {
        let Slot::Waiting { patience, waker, position, .. } = &mut self.slots[id.0 as usize] else {
            return None;
        };
        let (patience, waker, position) = (*patience, waker.take(), *position);
        if let Patience::Until(limit) = patience {
            self.limits.remove(&(limit, id));
        }
        let Position::InLine { previous, next } = position else { return waker };
        match previous {
            Some(previous) => *self.link(previous).1 = next,
            None => self.front = next,
        }
        match next {
            Some(next) => *self.link(next).0 = previous,
            None => self.back = previous,
        }
        self.waiting -= 1;
        waker
    }

    #[inline]
    fn link(&mut self, index: u32) -> (&mut Option<u32>, &mut Option<u32>) {
        match &mut self.slots[index as usize] {
            Slot::Waiting { position: Position::InLine { previous, next }, .. } => (previous, next),
            _ => unreachable!("only waiters in line are linked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(Option<u64>),
        SettleFirst,
        RemoveNth(usize),
        TakeAnswered(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => proptest::option::of(0u64..100).prop_map(Step::Push),
            2 => Just(Step::SettleFirst),
            2 => (0usize..16).prop_map(Step::RemoveNth),
            1 => (0usize..16).prop_map(Step::TakeAnswered),
        ]
    }

    proptest! {
        /// The queue behaves like a plain deque of waiters beside a list of those with an outcome.
        #[test]
        fn it_is_a_queue(steps in proptest::collection::vec(step(), 1..200)) {
            let mut queue: Queue<u32, u32> = Queue::new();
            let mut line: VecDeque<(WaiterId, Option<u64>, u32)> = VecDeque::new();
            let mut answered: Vec<(WaiterId, u32)> = Vec::new();
            let mut serial = 0;
            for step in steps {
                match step {
                    Step::Push(limit) => {
                        let patience = limit.map_or(Patience::Forever, |nanos| {
                            Patience::Until(Instant::from_nanos(nanos))
                        });
                        let id = queue.push(patience, Mode::Exclusive);
                        serial += 1;
                        prop_assert!(queue.park(id, &mut Some(serial)));
                        line.push_back((id, limit, serial));
                    }
                    Step::SettleFirst => {
                        prop_assert_eq!(queue.first().map(|(id, _)| id), line.front().map(|w| w.0));
                        if let Some((id, _, waker)) = line.pop_front() {
                            prop_assert_eq!(queue.answer(id, waker * 10), Some(waker));
                            answered.push((id, waker * 10));
                        }
                    }
                    Step::RemoveNth(n) => {
                        if n < line.len() {
                            let (id, _, waker) = line.remove(n).unwrap();
                            prop_assert_eq!(queue.remove(id), (Some(waker), None));
                        }
                    }
                    Step::TakeAnswered(n) => {
                        if n < answered.len() {
                            let (id, outcome) = answered.remove(n);
                            prop_assert_eq!(queue.take(id), Some(outcome));
                        }
                    }
                }
                prop_assert_eq!(queue.len(), line.len());
                prop_assert_eq!(queue.is_empty(), line.is_empty());
                let nearest = line.iter().filter_map(|w| w.1).min().map(Instant::from_nanos);
                prop_assert_eq!(queue.first_limit(), nearest);
            }
        }
    }
}
