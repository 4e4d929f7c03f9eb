//! The hold: the part of a guard that is not the data.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};

use lock_core::observer::HoldEnd;
use lock_core::{Claim, FencingToken, Instant, Key, LoadedValue, Mode, Released};

use super::observed::Told;
use super::right::Right;
use super::validity::Validity;
use super::{Asks, Entry, Exit, HoldId, HoldView, Home, Manner, Rest, Running, Ticket, Write};
use crate::error::{LeaseLost, LossReason, ReleaseError};

/// The right of one holder to the lock. Dropping it passes the lock on.
pub(crate) struct Hold {
    entry: Arc<Entry>,
    right: Right,
    /// How many permits the hold has; 0 for other kinds of lock.
    permits: u32,
    manner: Manner,
    /// What the handles of the lease share with this hold, once there is a handle or observers have heard of the hold.
    view: OnceLock<Arc<HoldView>>,
    /// Whether dropping has to give the hold up.
    live: bool,
}

/// How and when an observed hold ends.
type End = (HoldEnd, Instant);

impl Hold {
    /// A hold with so many permits. `told`: what observers have heard of the hold.
    #[inline]
    pub(super) fn new(
        entry: Arc<Entry>,
        right: Right,
        permits: u32,
        manner: Manner,
        told: Option<Told>,
    ) -> Self {
        let hold = Self { entry, right, permits, manner, view: OnceLock::new(), live: true };
        if let Some(told) = told {
            hold.view.get_or_init(|| hold.make_view(Some(told)));
        }
        hold
    }

    /// The short way to a hold beside others, if there is one. There is none if observers hear of acquisitions.
    #[inline]
    pub(crate) fn share(entry: &Arc<Entry>, mode: Mode, manner: Manner) -> Option<Self> {
        let way = entry.observed.is_none().then(|| entry.share(mode, manner)).flatten()?;
        Some(Self::new(Arc::clone(entry), way.into(), mode.permits(), manner, None))
    }

    /// Tells the handles of the lease that this hold is over, and notes how it ends. Must be called before the lock
    /// passes on.
    #[cold]
    fn end(&self, how: HoldEnd) -> Option<End> {
        self.end_at(how, || self.lease().now())
    }

    /// As [`end`](Self::end), at this instant. Only the observers need it.
    fn end_at(&self, how: HoldEnd, now: impl FnOnce() -> Instant) -> Option<End> {
        let view = self.view.get()?;
        // Without a handle, there is none to tell.
        if Arc::strong_count(view) > 1 {
            view.give_up();
        }
        view.told()?;
        let now = now();
        let lost = self.check_at(now).err();
        Some((lost.map_or(how, |lost| HoldEnd::Lost(lost.reason())), now))
    }

    /// Tells the observers of the end.
    #[inline]
    fn tell(&self, end: Option<End>) {
        let told = self.view.get().and_then(|view| view.told());
        if let (Some((how, now)), Some(told), Some(observed)) = (end, told, &self.entry.observed) {
            told.ended(observed, self.id(), how, now);
        }
    }

    /// Lets go of the lock, at this instant if it is known.
    #[inline]
    fn leave(&mut self, now: Option<Instant>) {
        let (hold, manner) = (self.id(), self.manner);
        if self.came_through_gate() {
            self.entry.leave_gate(hold, manner);
        } else {
            self.entry.release(Exit { hold, lease: &mut self.right.lease, manner, now });
        }
    }

    /// How many permits the hold has; 0 for other kinds of lock.
    pub(crate) fn permits(&self) -> u32 {
        self.permits
    }

    /// Goes on holding in a weaker mode: from exclusive to shared or upgradable, or from upgradable to shared. No other
    /// exclusive holder gets in between.
    pub(crate) fn downgrade(&mut self, to: Mode) {
        self.entry.event(|machine| machine.downgrade(self.id(), to));
    }

    /// Moves this many permits into a new hold with the token of this one. `None` unless both keep at least one permit.
    /// Sends no request.
    pub(crate) fn split(&mut self, part: u32) -> Option<Self> {
        let rest = self.permits().checked_sub(part).filter(|rest| *rest > 0 && part > 0)?;
        // A hold that is already lost can be split as well.
        let hold = self.entry.lock().machine.split(self.id(), part);
        let hold = hold.unwrap_or(self.id().gone());
        self.permits = rest;
        let right = Right { hold, lease: self.right.lease.clone(), ..self.right };
        let told = self.view.get().and_then(|view| view.told()).zip(self.entry.observed.as_ref());
        let told = told.map(|(whole, observed)| whole.split(observed, &right, part));
        Some(Self::new(Arc::clone(&self.entry), right, part, self.manner, told))
    }

    /// Ends the hold, and takes its permits out of the semaphore for good. The request is enqueued, as for a drop.
    pub(crate) fn forget(mut self) {
        self.live = false;
        let end = self.end(HoldEnd::Forgotten);
        self.entry.event(|machine| machine.forget(self.id(), self.manner));
        self.tell(end);
    }

    /// The claim under which the store knows the lease, unless the lease is over.
    pub(crate) fn claim(&self) -> Option<Claim> {
        self.entry.lock().machine.claim(self.id()).cloned()
    }

    // ---- The value beside the lock ----
    //
    // What the process knows of the value makes no step of a plan due. So the calls that change only that are no events.

    /// The value, if this process knows it.
    pub(crate) fn value(&self) -> Option<LoadedValue> {
        self.entry.lock().machine.value(self.id())
    }

    /// This holder has loaded the value.
    pub(crate) fn loaded(&self, value: &LoadedValue) {
        self.entry.lock().machine.loaded(self.id(), Some(value));
    }

    /// The value is about to be written without [`begin_write`](Self::begin_write).
    pub(crate) fn drop_value(&self) {
        self.entry.lock().machine.loaded(self.id(), None);
    }

    /// Begins to write the value. If the hold is dropped before it has noted the answer, the lease goes back to the
    /// store. `last`: the holder lets go afterwards.
    pub(crate) fn begin_write(&mut self, last: bool) -> Option<Write> {
        let (hold, manner) = (self.id(), self.manner);
        let write = self.entry.event(|machine| machine.begin_write(hold, last, manner))?;
        self.right.token = write.token;
        if let Some(view) = self.view.get() {
            view.set_token(write.token);
        }
        Some(write)
    }

    /// Waits for a token with which to begin a write, unless the store gives none or the lease is over.
    pub(crate) async fn token_for_write(&self) {
        self.entry.token(self.id()).await;
    }

    /// The store has answered a write, and the lease goes on. Without a value, the store has written nothing.
    pub(crate) fn wrote(&self, value: Option<&LoadedValue>) {
        self.entry.lock().machine.wrote(self.id(), value);
    }

    /// The store has written the value and ended the lease.
    pub(crate) fn committed(mut self, told: u32) {
        self.live = false;
        let end = self.end(HoldEnd::Committed);
        self.entry.event(|machine| machine.committed(self.id(), told));
        self.tell(end);
    }

    pub(super) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// Whether the holder is a reader that came through the gate.
    pub(super) fn came_through_gate(&self) -> bool {
        self.right.lease.is_none()
    }

    pub(super) fn id(&self) -> HoldId {
        self.right.hold
    }

    fn lease(&self) -> &Arc<Validity> {
        self.right.lease.as_ref().unwrap_or(self.entry.gate.lease())
    }

    /// Takes over the ticket of an upgrade.
    pub(super) fn become_exclusive(&mut self, ticket: Ticket) {
        if let Some(view) = self.view.get() {
            view.set_token(ticket.token);
        }
        self.right = ticket.into();
    }

    pub(crate) fn key(&self) -> &Key {
        &self.entry.key
    }

    pub(crate) fn fencing_token(&self) -> FencingToken {
        self.right.token
    }

    pub(crate) fn check(&self) -> Result<(), LeaseLost> {
        self.check_at(self.lease().now())
    }

    /// Whether the hold has its lease at this instant.
    fn check_at(&self, now: Instant) -> Result<(), LeaseLost> {
        self.lease().check(self.id().serial(), self.right.until, now)
    }

    /// The store has told this holder that it does not know the lease. Ends the lease, and returns why.
    pub(crate) fn disown(&self) -> LeaseLost {
        self.entry.event(|machine| machine.disown(self.id()));
        self.loss()
    }

    /// Why this hold is over.
    pub(crate) fn loss(&self) -> LeaseLost {
        self.check().err().unwrap_or(LeaseLost::new(LossReason::Revoked))
    }

    /// What a handle of the lease knows of this hold. Allocates, if there is no view yet.
    pub(crate) fn view(&self) -> &Arc<HoldView> {
        self.view.get_or_init(|| self.make_view(None))
    }

    #[cold]
    fn make_view(&self, told: Option<Told>) -> Arc<HoldView> {
        Arc::new(HoldView::new(&self.entry, &self.right, self.lease(), told))
    }

    /// Gives the hold up, and tells the observers.
    async fn let_go(&mut self) -> (Option<LeaseLost>, Rest) {
        loop {
            let now = self.lease().now();
            let end = self.end_at(HoldEnd::Released, || now);
            let lost = self.check_at(now).err();
            if let Some(rest) = self.entry.release_here(self.id(), self.manner) {
                self.live = false;
                self.tell(end);
                return (lost, rest);
            }
            // The mode to release is not known yet. While this waits, dropping the future releases the hold.
            self.entry.weakened(self.id()).await;
        }
    }

    /// Passes the lock on. If the store must hear of that, waits until it has.
    pub(crate) async fn release(self) -> Result<(), ReleaseError> {
        let home = self.entry.shared.home;
        self.release_from(home).await
    }

    /// As [`release`](Self::release), with the request on another runtime.
    pub(crate) async fn release_from(mut self, home: Home) -> Result<(), ReleaseError> {
        let (lost, rest) = self.let_go().await;
        let ending = match rest {
            Rest::Lease(ending) => ending,
            Rest::Part(part) => {
                self.entry.returned(vec![part]).await.map_err(ReleaseError::Backend)?;
                let valid = self.lease().is_valid(self.lease().now());
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
        let mut running = Running::release(&self.entry, ending, home);
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
    #[inline]
    fn drop(&mut self) {
        if !self.live {
            return;
        }
        if self.view.get().is_some() {
            let end = self.end(HoldEnd::Dropped);
            self.leave(end.as_ref().map(|(_, now)| *now));
            self.tell(end);
        } else {
            self.leave(None);
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("key", &self.entry.key)
            .field("fencing_token", &self.fencing_token())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
