//! Who waits for a key in this process, in order.

use std::collections::BTreeSet;

use lock_core::{Instant, Mode};

/// One waiter. Valid from [`Queue::push`] to [`Queue::remove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaiterId(u32);

/// How long a waiter is ready to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until the store has answered once.
    Try,
    /// Until this instant.
    Until(Instant),
    /// For as long as somebody else holds the lock.
    Forever,
}

/// A FIFO queue of waiters with outcomes of type `O` and wakers of type `W`.
///
/// A waiter stands in line until [`settle`](Self::settle) gives it an outcome; its slot stays until
/// the waiter has picked that up. Leaving from the middle costs the same as from the front. Slots
/// are reused, so a lock that is warm allocates nothing here.
#[derive(Debug)]
pub(super) struct Queue<W, O> {
    slots: Vec<Slot<W, O>>,
    free: Option<u32>,
    front: Option<u32>,
    back: Option<u32>,
    waiting: usize,
    /// The waiters with a limit, by the instant at which it is reached.
    limits: BTreeSet<(Instant, WaiterId)>,
}

#[derive(Debug)]
enum Slot<W, O> {
    /// The next free slot.
    Free(Option<u32>),
    Waiting {
        patience: Patience,
        want: Mode,
        waker: Option<W>,
        place: Place,
    },
    Settled(O),
}

#[derive(Clone, Copy, Debug)]
enum Place {
    InLine { previous: Option<u32>, next: Option<u32> },
    Aside,
}

impl<W, O> Queue<W, O> {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: None,
            front: None,
            back: None,
            waiting: 0,
            limits: BTreeSet::new(),
        }
    }

    /// Whether nobody stands in line. Settled waiters do not.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many stand in line.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// Joins at the back, for a hold in this mode.
    pub(super) fn push(&mut self, patience: Patience, want: Mode) -> WaiterId {
        let place = Place::InLine { previous: self.back, next: None };
        let id = self.insert(patience, want, place);
        match self.back {
            Some(back) => self.link(back).1.replace(id.0),
            None => self.front.replace(id.0),
        };
        self.back = Some(id.0);
        self.waiting += 1;
        id
    }

    /// Joins beside the line, which does not count it. It waits to be exclusive.
    pub(super) fn push_aside(&mut self, patience: Patience) -> WaiterId {
        self.insert(patience, Mode::Exclusive, Place::Aside)
    }

    fn insert(&mut self, patience: Patience, want: Mode, place: Place) -> WaiterId {
        let slot = Slot::Waiting { patience, want, waker: None, place };
        let index = match self.free {
            Some(index) => {
                if let Slot::Free(next) = self.slots[index as usize] {
                    self.free = next;
                }
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        if let Patience::Until(limit) = patience {
            self.limits.insert((limit, WaiterId(index)));
        }
        WaiterId(index)
    }

    /// Who is first in line, and its patience.
    #[inline]
    pub(super) fn first(&self) -> Option<(WaiterId, Patience)> {
        let id = WaiterId(self.front?);
        self.patience(id).map(|patience| (id, patience))
    }

    /// What the first in line wants.
    #[inline]
    pub(super) fn first_want(&self) -> Option<Mode> {
        self.want(WaiterId(self.front?))
    }

    /// What those in line want, in order.
    pub(super) fn wants(&self) -> impl Iterator<Item = Mode> {
        self.iter().filter_map(|id| self.want(id))
    }

    /// Those in line, in order.
    pub(super) fn waiting(&self) -> Vec<WaiterId> {
        self.iter().collect()
    }

    fn iter(&self) -> impl Iterator<Item = WaiterId> {
        std::iter::successors(self.front, |index| match &self.slots[*index as usize] {
            Slot::Waiting { place: Place::InLine { next, .. }, .. } => *next,
            Slot::Waiting { .. } | Slot::Free(_) | Slot::Settled(_) => None,
        })
        .map(WaiterId)
    }

    /// What a waiter in line wants.
    #[inline]
    pub(super) fn want(&self, id: WaiterId) -> Option<Mode> {
        match &self.slots[id.0 as usize] {
            Slot::Waiting { want, .. } => Some(*want),
            Slot::Free(_) | Slot::Settled(_) => None,
        }
    }

    /// The patience of a waiter in line.
    #[inline]
    pub(super) fn patience(&self, id: WaiterId) -> Option<Patience> {
        match &self.slots[id.0 as usize] {
            Slot::Waiting { patience, .. } => Some(*patience),
            Slot::Free(_) | Slot::Settled(_) => None,
        }
    }

    /// Takes a waiter out of the line and gives it its outcome; returns its waker.
    #[inline]
    pub(super) fn settle(&mut self, id: WaiterId, outcome: O) -> Option<W> {
        let waker = self.unlink(id);
        self.slots[id.0 as usize] = Slot::Settled(outcome);
        waker
    }

    /// Leaves a waker, if there is one, to be woken with when the outcome is there. The one that was left before is
    /// there instead afterwards.
    ///
    /// Returns `false` if the outcome is there already: [`take`](Self::take) it.
    #[inline]
    pub(super) fn park(&mut self, id: WaiterId, waker: &mut Option<W>) -> bool {
        match &mut self.slots[id.0 as usize] {
            Slot::Waiting { waker: slot, .. } => {
                if waker.is_some() {
                    std::mem::swap(slot, waker);
                }
                true
            }
            Slot::Free(_) | Slot::Settled(_) => false,
        }
    }

    /// The waker that was left.
    pub(super) fn parked(&self, id: WaiterId) -> Option<&W> {
        match &self.slots[id.0 as usize] {
            Slot::Waiting { waker, .. } => waker.as_ref(),
            Slot::Free(_) | Slot::Settled(_) => None,
        }
    }

    /// Takes back the waker that was left.
    pub(super) fn unpark(&mut self, id: WaiterId) -> Option<W> {
        match &mut self.slots[id.0 as usize] {
            Slot::Waiting { waker, .. } => waker.take(),
            Slot::Free(_) | Slot::Settled(_) => None,
        }
    }

    /// Picks up the outcome and gives the slot back; `None` while there is none.
    #[inline]
    pub(super) fn take(&mut self, id: WaiterId) -> Option<O> {
        match self.slots[id.0 as usize] {
            Slot::Settled(_) => self.remove(id).1,
            Slot::Free(_) | Slot::Waiting { .. } => None,
        }
    }

    /// Leaves the queue, from wherever the waiter stands; returns its waker, or an outcome not picked up.
    pub(super) fn remove(&mut self, id: WaiterId) -> (Option<W>, Option<O>) {
        let waker = self.unlink(id);
        let slot = std::mem::replace(&mut self.slots[id.0 as usize], Slot::Free(self.free));
        self.free = Some(id.0);
        match slot {
            Slot::Settled(outcome) => (waker, Some(outcome)),
            Slot::Free(_) | Slot::Waiting { .. } => (waker, None),
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
        let Slot::Waiting { patience, waker, place, .. } = &mut self.slots[id.0 as usize] else {
            return None;
        };
        let (patience, waker, place) = (*patience, waker.take(), *place);
        if let Patience::Until(limit) = patience {
            self.limits.remove(&(limit, id));
        }
        let Place::InLine { previous, next } = place else { return waker };
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
            Slot::Waiting { place: Place::InLine { previous, next }, .. } => (previous, next),
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
        TakeSettled(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => proptest::option::of(0u64..100).prop_map(Step::Push),
            2 => Just(Step::SettleFirst),
            2 => (0usize..16).prop_map(Step::RemoveNth),
            1 => (0usize..16).prop_map(Step::TakeSettled),
        ]
    }

    proptest! {
        /// The queue behaves like a plain deque of waiters beside a list of settled ones.
        #[test]
        fn it_is_a_queue(steps in proptest::collection::vec(step(), 1..200)) {
            let mut queue: Queue<u32, u32> = Queue::new();
            let mut line: VecDeque<(WaiterId, Option<u64>, u32)> = VecDeque::new();
            let mut settled: Vec<(WaiterId, u32)> = Vec::new();
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
                            prop_assert_eq!(queue.settle(id, waker * 10), Some(waker));
                            settled.push((id, waker * 10));
                        }
                    }
                    Step::RemoveNth(n) => {
                        if n < line.len() {
                            let (id, _, waker) = line.remove(n).unwrap();
                            prop_assert_eq!(queue.remove(id), (Some(waker), None));
                        }
                    }
                    Step::TakeSettled(n) => {
                        if n < settled.len() {
                            let (id, outcome) = settled.remove(n);
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
