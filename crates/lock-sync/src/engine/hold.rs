//! The hold: the part of a guard that is not the data.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};

use lock_core::observer::HoldEnd;
use lock_core::{Claim, FencingToken, Instant, Key, LoadedValue, Mode, Released};

use super::observed::{Begun, Told};
use super::{Asks, Entry, Held, HoldId, Manner, Rest, Running, Ticket, Write};
use crate::error::{LeaseLost, LossReason, ReleaseError};

/// The right of one holder to the lock. Dropping it passes the lock on.
pub(crate) struct Hold {
    entry: Arc<Entry>,
    ticket: Ticket,
    /// How many permits the hold has; 0 for other kinds of lock.
    permits: u32,
    manner: Manner,
    /// What the handles of the lease share with this hold, once there is a handle.
    held: OnceLock<Arc<Held>>,
    /// Whether dropping has to give the hold up.
    live: bool,
    /// From the begin of the hold to its end, if observers hear of it. In a box: without observers a hold stays small.
    told: Option<Box<Told>>,
}

impl Hold {
    /// A hold to which this acquisition has led, if observers have heard of one.
    pub(super) fn new(
        entry: Arc<Entry>,
        ticket: Ticket,
        mode: Mode,
        manner: Manner,
        begun: Option<Begun>,
    ) -> Self {
        let begun = begun.zip(entry.observed.as_ref());
        let told = begun.map(|(begun, observed)| Box::new(begun.granted(observed, mode, &ticket)));
        let (permits, held) = (mode.permits(), OnceLock::new());
        Self { entry, ticket, permits, manner, held, live: true, told }
    }

    /// Notes how and when the hold ends, before it lets go.
    fn end(&mut self, how: HoldEnd) -> Option<(Box<Told>, HoldEnd, Instant)> {
        let told = self.told.take()?;
        let now = self.ticket.lease.now();
        let lost = self.ticket.check_at(now).err();
        Some((told, lost.map_or(how, |lost| HoldEnd::Lost(lost.reason())), now))
    }

    /// Tells the observers of the end.
    fn tell(&self, end: Option<(Box<Told>, HoldEnd, Instant)>) {
        if let (Some((told, how, now)), Some(observed)) = (end, &self.entry.observed) {
            told.ended(observed, self.ticket.hold, how, now);
        }
    }

    /// How many permits the hold has; 0 for other kinds of lock.
    pub(crate) fn permits(&self) -> u32 {
        self.permits
    }

    /// Goes on holding in a weaker mode: from exclusive to shared or upgradable, or from upgradable to shared. No other
    /// exclusive holder gets in between.
    pub(crate) fn downgrade(&mut self, to: Mode) {
        self.entry.event(|machine| machine.downgrade(self.ticket.hold, to));
    }

    /// Moves this many permits into a new hold with the token of this one. `None` unless both keep at least one permit.
    /// Sends no request.
    pub(crate) fn split(&mut self, part: u32) -> Option<Self> {
        let rest = self.permits().checked_sub(part).filter(|rest| *rest > 0 && part > 0)?;
        // A hold that is already lost can be split as well.
        let hold = self.entry.lock().machine.split(self.ticket.hold, part);
        let hold = hold.unwrap_or(self.ticket.hold.gone());
        self.permits = rest;
        let ticket = Ticket { hold, lease: Arc::clone(&self.ticket.lease), ..self.ticket };
        let told = self.told.as_ref().zip(self.entry.observed.as_ref());
        let told = told.map(|(whole, observed)| Box::new(whole.split(observed, &ticket, part)));
        Some(Self {
            entry: Arc::clone(&self.entry),
            ticket,
            permits: part,
            manner: self.manner,
            held: OnceLock::new(),
            live: true,
            told,
        })
    }

    /// Ends the hold, and takes its permits out of the semaphore for good. The request is enqueued, as for a drop.
    pub(crate) fn forget(mut self) {
        self.live = false;
        self.tell_handles();
        let end = self.end(HoldEnd::Forgotten);
        self.entry.event(|machine| machine.forget(self.ticket.hold, self.manner));
        self.tell(end);
    }

    /// The claim under which the store knows the lease, unless the lease is over.
    pub(crate) fn claim(&self) -> Option<Claim> {
        self.entry.lock().machine.claim(self.ticket.hold).cloned()
    }

    // ---- The value beside the lock ----

    /// The value, if this process knows it.
    pub(crate) fn value(&self) -> Option<LoadedValue> {
        self.entry.lock().machine.value(self.ticket.hold)
    }

    /// This holder has loaded the value.
    pub(crate) fn loaded(&self, value: &LoadedValue) {
        self.entry.lock().machine.loaded(self.ticket.hold, value);
    }

    /// The value is about to be written without [`begin_write`](Self::begin_write).
    pub(crate) fn forget_value(&self) {
        self.entry.lock().machine.forget_value(self.ticket.hold);
    }

    /// Begins to write the value. If the hold is dropped before it has noted the answer, the lease goes back to the
    /// store. `last`: the holder lets go afterwards.
    pub(crate) fn begin_write(&mut self, last: bool) -> Option<Write> {
        let (hold, manner) = (self.ticket.hold, self.manner);
        let write = self.entry.event(|machine| machine.begin_write(hold, last, manner))?;
        self.ticket.token = write.token;
        if let Some(held) = self.held.get() {
            held.set_token(write.token);
        }
        Some(write)
    }

    /// Waits for a token with which to begin a write, unless the store gives none or the lease is over.
    pub(crate) async fn token_for_write(&self) {
        let hold = self.ticket.hold;
        self.entry.event(|machine| machine.want_token(hold));
        poll_fn(|context| self.entry.poll_token(hold, context)).await;
    }

    /// The store has answered a write, and the lease goes on. Without a value, the store has written nothing.
    pub(crate) fn wrote(&self, value: Option<&LoadedValue>) {
        self.entry.lock().machine.wrote(self.ticket.hold, value);
    }

    /// The store has written the value and ended the lease.
    pub(crate) fn committed(mut self, told: u32) {
        self.live = false;
        self.tell_handles();
        let end = self.end(HoldEnd::Committed);
        self.entry.event(|machine| machine.committed(self.ticket.hold, told));
        self.tell(end);
    }

    pub(super) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    pub(super) fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    pub(super) fn id(&self) -> HoldId {
        self.ticket.hold
    }

    /// Takes over the ticket of an upgrade.
    pub(super) fn become_exclusive(&mut self, ticket: Ticket) {
        if let Some(held) = self.held.get() {
            held.set_token(ticket.token);
        }
        self.ticket = ticket;
    }

    pub(crate) fn key(&self) -> &Key {
        &self.entry.key
    }

    pub(crate) fn fencing_token(&self) -> FencingToken {
        self.ticket.token
    }

    pub(crate) fn check(&self) -> Result<(), LeaseLost> {
        self.ticket.check()
    }

    /// Why this hold is over, if the store says that it no longer knows the lease.
    pub(crate) fn loss(&self) -> LeaseLost {
        self.check().err().unwrap_or(LeaseLost::new(LossReason::Revoked))
    }

    /// What a handle of the lease knows of this hold. The first call allocates.
    pub(crate) fn held(&self) -> &Arc<Held> {
        let (entry, ticket) = (&self.entry, &self.ticket);
        let new = || Held::new(Arc::downgrade(entry), entry.key.clone(), ticket.clone());
        self.held.get_or_init(|| Arc::new(new()))
    }

    /// Tells the handles of the lease that this hold is over, before the lock passes on.
    fn tell_handles(&self) {
        if let Some(held) = self.held.get() {
            held.give_up();
        }
    }

    /// Gives the hold up, and tells the observers.
    async fn let_go(&mut self) -> (Option<LeaseLost>, Rest) {
        loop {
            let lost = self.check().err();
            let end = self.end(HoldEnd::Released);
            if let Some(rest) = self.entry.release_here(self.ticket.hold, self.manner) {
                self.live = false;
                self.tell(end);
                return (lost, rest);
            }
            // The mode to release is not known yet. While this waits, dropping the future releases the hold.
            self.told = end.map(|(told, ..)| told);
            poll_fn(|context| self.entry.poll_settled(self.ticket.hold, context)).await;
        }
    }

    /// Passes the lock on. If the store must hear of that, waits until it has.
    pub(crate) async fn release(mut self) -> Result<(), ReleaseError> {
        self.tell_handles();
        let (lost, rest) = self.let_go().await;
        let ending = match rest {
            Rest::Lease(ending) => ending,
            Rest::Part(part) => {
                let part = [part];
                let back = poll_fn(|context| self.entry.poll_returned(&part, context)).await;
                back.map_err(ReleaseError::Backend)?;
                let valid = self.ticket.lease.is_valid(self.ticket.lease.now());
                let lost = ReleaseError::Lost(LeaseLost::new(LossReason::Expired));
                return if valid { Ok(()) } else { Err(lost) };
            }
            Rest::Nothing => return Ok(()),
            Rest::Over => {
                let lost = lost.or_else(|| self.check().err());
                return Err(ReleaseError::Lost(
                    lost.unwrap_or(LeaseLost::new(LossReason::Expired)),
                ));
            }
        };
        let mut running = Running::release(&self.entry, ending, self.entry.shared.home);
        let answer = poll_fn(|context| running.poll(context)).await;
        match answer {
            Some(Ok(Released::NotHeld)) => {
                Err(ReleaseError::Lost(LeaseLost::new(LossReason::Revoked)))
            }
            Some(Err(error)) => Err(ReleaseError::Backend(error)),
            _ => Ok(()),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.tell_handles();
        if self.live {
            let end = self.end(HoldEnd::Dropped);
            let now = end.as_ref().map(|(_, _, now)| *now);
            self.entry.release(self.ticket.hold, self.manner, now);
            self.tell(end);
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("key", &self.entry.key)
            .field("fencing_token", &self.ticket.token)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::memory::MemoryBackend;
    use tokio::runtime::Handle;
    use tokio::time::sleep;

    use super::*;
    use crate::engine::{Acquiring, Wait};
    use crate::locks::Locks;
    use crate::sync::atomic::Ordering;

    #[tokio::test(start_paused = true)]
    async fn a_lease_remembers_no_reader_that_has_gone() {
        // A renewal comes before the first limit. It says that no other process waits.
        let limit = Duration::from_secs(3);
        let locks = Locks::builder(MemoryBackend::new()).on_runtime(Handle::current());
        let locks = locks.ttl(limit).max_hold(limit).build().unwrap();
        let entry = locks.shared.named("it".try_into().unwrap(), None, locks.shared.policy.clone());
        let read = async || {
            let manner = entry.shared().manner;
            let mut acquiring =
                Acquiring::new(Arc::clone(&entry), Mode::Shared, Wait::Forever, manner);
            poll_fn(|context| acquiring.poll(context)).await.unwrap()
        };
        let (mut oldest, mut older) = (None, read().await);
        let lease = Arc::clone(&older.ticket.lease);
        for _ in 0..100 {
            sleep(limit * 2 / 3).await;
            let next = read().await;
            assert!(Arc::ptr_eq(&next.ticket.lease, &lease), "one lease for all of them");
            let gone: Option<Hold> = oldest.replace(std::mem::replace(&mut older, next));
            let lost = gone.map(|hold| hold.check().map_err(|lost| lost.reason()));
            assert!(lost.is_none_or(|lost| lost == Err(LossReason::HeldTooLong)));
        }
        drop(oldest);
        assert_eq!(lease.known_losses(), 0);
    }
    #[tokio::test]
    async fn a_pass_without_contention_locks_the_entry_three_times() {
        let locks = Locks::new(MemoryBackend::new());
        let entry = locks.shared.named("it".try_into().unwrap(), None, locks.shared.policy.clone());
        let count = || entry.locked.load(Ordering::Relaxed);
        for pass in 0..100 {
            let before = count();
            let manner = entry.shared().manner;
            let mut acquiring =
                Acquiring::new(Arc::clone(&entry), Mode::Exclusive, Wait::Forever, manner);
            let hold = poll_fn(|context| acquiring.poll(context)).await.unwrap();
            hold.release().await.unwrap();
            let locked = count() - before;
            // The first pass starts the timer.
            assert!(locked <= 3 || pass == 0, "{locked} times in pass {pass}");
        }
        assert!(!entry.is_held() && !entry.is_cached());
        assert!(entry.lock().machine.is_idle(), "the last release is noted");
    }
}
