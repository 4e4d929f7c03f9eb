//! The wait for any one of several locks.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lock_core::{Backoff, Error, Mode};
use tokio::task::coop::poll_proceed;

use crate::bare::{Acquiring, Alarm, BareLock, Denial, Hold, Limit, Wait};

/// The longest pause before a wait for a failed slot begins again, in first pauses.
const LONGEST: u32 = 16;

/// A wait for one of several slots. It can be dropped at any point.
///
/// First it tries one slot after the other, because a request for all slots would take all free slots for a
/// moment from other waiters. Only if no slot is free does it wait for all slots.
pub(super) struct Search {
    slots: Arc<[BareLock]>,
    first: usize,
    wait: Wait,
    /// Set with the first poll, so that the limit counts for the whole wait.
    limit: Limit,
    /// Sends the requests from the driver. A caller that blocks its thread needs this, because no other thread may
    /// be running the caller's runtime.
    on_driver: bool,
    state: State,
}

#[allow(clippy::large_enum_variant, reason = "one of them takes all the time that there is")]
enum State {
    New,
    /// The search, after this number of other slots, with the alarm that rings at the limit.
    Trying {
        tried: usize,
        place: Place,
        alarm: Alarm,
    },
    Waiting(Lines),
    Done,
}

/// A slot, and the wait for it.
type Place = (usize, Acquiring);

/// The waits for all slots.
struct Lines {
    places: Vec<Place>,
    /// The slots whose waits have failed.
    failed: Vec<usize>,
    /// Rings when the waits for these slots begin again.
    again: Option<Alarm>,
    /// The pauses before that. A silent store is patiently asked for no longer than a pause. So if the whole store is
    /// silent, all waits have failed at some time, and the search fails.
    pauses: Backoff,
    /// Why the waits that are over have ended.
    denial: Option<Denial>,
}

impl Search {
    pub(super) fn new(slots: Arc<[BareLock]>, first: usize, wait: Wait) -> Self {
        let (limit, state) = (Limit::none(), State::New);
        Self { slots, first, wait, limit, on_driver: false, state }
    }

    pub(super) fn on_driver(&mut self) {
        self.on_driver = true;
    }

    /// The slot that was found, and the hold on it.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(usize, Hold), Denial>> {
        // A task that acquires in a loop yields to other tasks now and then, as with tokio's locks.
        let coop = ready!(poll_proceed(context));
        let found = ready!(self.poll_slots(context));
        // Gives the places in the other lines up now, and not when the future is dropped.
        self.state = State::Done;
        coop.made_progress();
        Poll::Ready(found)
    }

    fn poll_slots(&mut self, context: &mut Context<'_>) -> Poll<Result<(usize, Hold), Denial>> {
        loop {
            match &mut self.state {
                State::New => {
                    if let Err(error) = self.begin() {
                        return Poll::Ready(Err(Denial::Failed(error)));
                    }
                }
                State::Trying { tried, place: (slot, trying), alarm } => {
                    match trying.poll(context) {
                        Poll::Ready(Ok(hold)) => return Poll::Ready(Ok((*slot, hold))),
                        Poll::Ready(Err(denial)) => {
                            let tried = *tried + 1;
                            let alarm = std::mem::replace(alarm, Alarm::silent());
                            if let Some(denial) = self.go_on(tried, denial, alarm) {
                                return Poll::Ready(Err(denial));
                            }
                        }
                        // If the driver has ended, the answer says so.
                        Poll::Pending => return alarm.unanswered(context).map(Err),
                    }
                }
                State::Waiting(lines) => {
                    let found = lines.poll(context);
                    if found.is_ready() {
                        return found;
                    }
                    let failed = ready!(lines.poll_again(&self.slots[0], context));
                    self.rejoin(failed);
                }
                State::Done => panic!("a future for a permit was polled after it had completed"),
            }
        }
    }

    fn begin(&mut self) -> Result<(), Error> {
        let any = &self.slots[0];
        any.start()?;
        self.limit = Limit::of(self.wait, any);
        let alarm = self.limit.alarm(any);
        self.attempt(0, alarm);
        Ok(())
    }

    /// Goes on after a slot that was not free, or returns why the wait is over.
    fn go_on(&mut self, tried: usize, denial: Denial, alarm: Alarm) -> Option<Denial> {
        match denial {
            Denial::WouldBlock if tried < self.slots.len() => self.attempt(tried, alarm),
            Denial::WouldBlock if !matches!(self.wait, Wait::Try) => self.stand_in_line(),
            // If the store is silent, a request for each further slot would take its full time. So
            // the wait for all slots at once begins, which tolerates failures of some slots.
            Denial::Failed(_) if !matches!(self.wait, Wait::Try) => self.stand_in_line(),
            denial => return Some(denial),
        }
        None
    }

    fn attempt(&mut self, tried: usize, alarm: Alarm) {
        let place = self.place(self.after_first(tried), Wait::Try);
        self.state = State::Trying { tried, place, alarm };
    }

    fn stand_in_line(&mut self) {
        self.state = State::Waiting(Lines::new(&self.slots[0]));
        self.rejoin((0..self.slots.len()).map(|after| self.after_first(after)).collect());
    }

    /// Waits for these slots, too.
    fn rejoin(&mut self, slots: Vec<usize>) {
        let wait = self.limit.wait(&self.slots[0]);
        let places: Vec<_> = slots.into_iter().map(|slot| self.place(slot, wait)).collect();
        if let State::Waiting(lines) = &mut self.state {
            // No wait that has failed is left. Each new wait reports its own end.
            lines.denial.take_if(|denial| matches!(denial, Denial::Failed(_)));
            lines.places.extend(places);
        }
    }

    /// The slot with this offset from the first slot.
    fn after_first(&self, offset: usize) -> usize {
        (self.first + offset) % self.slots.len()
    }

    /// The wait for this slot.
    fn place(&self, slot: usize, wait: Wait) -> Place {
        let mut acquiring = self.slots[slot].acquiring(Mode::Exclusive, wait);
        if self.on_driver {
            acquiring.on_driver();
        }
        (slot, acquiring)
    }
}

impl Lines {
    fn new(any: &BareLock) -> Self {
        let pause = any.patience().0.max(any.ttl());
        let pauses = Backoff::new(pause, pause.saturating_mul(LONGEST));
        Self { places: Vec::new(), failed: Vec::new(), again: None, pauses, denial: None }
    }

    /// The slots whose waits have failed, when it is time to wait for them again.
    fn poll_again(&mut self, any: &BareLock, context: &mut Context<'_>) -> Poll<Vec<usize>> {
        if self.failed.is_empty() {
            return Poll::Pending;
        }
        let again = self.again.get_or_insert_with(|| any.alarm(self.pauses.fail()));
        ready!(Pin::new(again).poll(context));
        self.again = None;
        Poll::Ready(std::mem::take(&mut self.failed))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(usize, Hold), Denial>> {
        let mut at = 0;
        while let Some((slot, place)) = self.places.get_mut(at) {
            match place.poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(hold)) => return Poll::Ready(Ok((*slot, hold))),
                Poll::Ready(Err(Denial::Closed)) => return Poll::Ready(Err(Denial::Closed)),
                Poll::Ready(Err(denial)) => {
                    let (slot, _) = self.places.remove(at);
                    if matches!(denial, Denial::Failed(_)) {
                        self.failed.push(slot);
                    }
                    self.deny(denial);
                }
            }
        }
        match self.denial.take_if(|_| self.places.is_empty()) {
            Some(denial) => Poll::Ready(Err(denial)),
            None => Poll::Pending,
        }
    }

    /// Notes why a wait has ended. A timeout outlasts a failure, because the store did not refuse every slot. A failure
    /// that still stands becomes the source of the timeout.
    fn deny(&mut self, denial: Denial) {
        self.denial = Some(match (self.denial.take(), denial) {
            (Some(Denial::Timeout(source)), Denial::Failed(error))
            | (Some(Denial::Failed(error)), Denial::Timeout(source)) => {
                Denial::Timeout(source.or(Some(error)))
            }
            (Some(Denial::Timeout(earlier)), Denial::Timeout(source)) => {
                Denial::Timeout(source.or(earlier))
            }
            (_, denial) => denial,
        });
    }
}
