//! Permits: how many there are, and how many are free.

use super::entry::Document;
use super::room;
use super::semaphore::Semaphore;
use super::visit::{Party, Visit};
use crate::{Acquire, Claim, Error, ErrorKind, Hint, Instant, Mode, Permits, Released, Resize};
use crate::{Resized, Result};

impl<P: Party> Document<P> {
    /// The state of the semaphore that a client declares to have `of` permits.
    ///
    /// The errors are those of [`PermitBackend::permits`](crate::PermitBackend::permits). The
    /// [example](Document#examples) of a document shows a verb.
    pub fn permits(&mut self, of: u32, visit: &Visit<'_, P>) -> Result<Permits> {
        self.semaphore(of, visit.now)?;
        Ok(self.count(visit.now))
    }

    /// Adds permits, removes free permits, or makes `of` the limit. Serves the waiters, and tells every watcher if
    /// there are further permits.
    ///
    /// The errors are those of [`PermitBackend::resize`](crate::PermitBackend::resize). The
    /// [example](Document#examples) of a document shows a verb.
    pub fn resize(&mut self, of: u32, change: Resize, visit: &mut Visit<'_, P>) -> Result<Resized> {
        self.check_kind(visit.now)?;
        let before = self.known(of, visit.now).limit();
        if change == Resize::Declare {
            self.known(of, visit.now).redeclare(of);
        }
        self.declare(of, visit.now)?;
        let Permits { limit, held, waiting, .. } = self.count(visit.now);
        let semaphore = self.known(of, visit.now);
        match change {
            Resize::Add(count) => semaphore.add(count)?,
            Resize::Remove(count) => {
                let free = if waiting > 0 { 0 } else { limit.saturating_sub(held) };
                semaphore.remove(count.min(free));
            }
            Resize::Declare => {}
        }
        let after = semaphore.limit();
        if after > before || matches!(change, Resize::Add(_)) {
            visit.audience.tell_all(visit.client, Hint::Released);
        }
        self.serve(None, visit);
        Ok(Resized::new(after.abs_diff(before), self.count(visit.now)))
    }

    /// Ends a lease as a release does, but its permits do not come back.
    ///
    /// The errors are those of [`PermitBackend::forget`](crate::PermitBackend::forget). The
    /// [example](Document#examples) of a document shows a verb.
    pub fn forget_permits(&mut self, claim: &Claim, visit: &mut Visit<'_, P>) -> Result<Released> {
        let Mode::Permits { take, .. } = claim.mode else {
            return Err(Error::new(ErrorKind::InvalidConfig, "only permits can be forgotten"));
        };
        self.leases.drop_expired(visit.now);
        let held = self.leases.remove(claim.owner, claim.mode);
        if let (true, Some(semaphore)) = (held, &mut self.semaphore) {
            semaphore.remove(take);
        }
        Ok(self.let_go(claim, held, visit))
    }

    /// Closes the semaphore, and tells its waiters to ask again.
    ///
    /// The errors are those of [`PermitBackend::close`](crate::PermitBackend::close). The [example](Document#examples)
    /// of a document shows a verb.
    pub fn close(&mut self, of: u32, visit: &mut Visit<'_, P>) -> Result<()> {
        self.semaphore(of, visit.now)?.close();
        self.queue.drop_counting();
        visit.audience.tell_all(visit.client, Hint::Released);
        self.serve(None, visit);
        Ok(())
    }

    /// Removes the semaphore, if the claim holds the key.
    ///
    /// The errors are those of [`PermitBackend::undeclare`](crate::PermitBackend::undeclare). The
    /// [example](Document#examples) of a document shows a verb.
    pub fn undeclare(&mut self, claim: &Claim, now: Instant) -> bool {
        self.leases.drop_expired(now);
        let holds = self.leases.has(claim.owner, Mode::Exclusive);
        if holds {
            self.semaphore = None;
        }
        holds
    }

    /// Notes the limit that a request for permits declares, and that the semaphore is in use.
    pub(crate) fn declare_for(&mut self, request: &Acquire, now: Instant) -> Result<()> {
        let Mode::Permits { of, .. } = request.claim.mode else { return Ok(()) };
        let semaphore = self.declare(of, now)?;
        // A place lives at least as long as a lease.
        semaphore.used_until(now + request.ttl.for_place().duration());
        Ok(())
    }

    /// Notes that a lease in this mode uses the semaphore until this instant.
    pub(crate) fn use_until(&mut self, mode: Mode, until: Instant) {
        if let (true, Some(semaphore)) = (mode.counts(), &mut self.semaphore) {
            semaphore.used_until(until);
        }
    }

    /// Refuses a request for permits of a closed semaphore.
    pub(crate) fn admit(&self, mode: Mode) -> Result<()> {
        match &self.semaphore {
            Some(semaphore) if mode.counts() && semaphore.is_closed() => {
                Err(Error::new(ErrorKind::Closed, "the semaphore is closed"))
            }
            _ => Ok(()),
        }
    }

    /// The semaphore with the limit that a client declares, if the key is not another kind of lock.
    fn semaphore(&mut self, of: u32, now: Instant) -> Result<&mut Semaphore> {
        self.check_kind(now)?;
        self.declare(of, now)
    }

    /// Refuses a key that is another kind of lock.
    fn check_kind(&mut self, now: Instant) -> Result<()> {
        self.drop_ended(now);
        if !self.leases.as_slice().iter().all(|lease| lease.mode.counts()) {
            let message = "the key is held as another kind of lock";
            return Err(Error::new(ErrorKind::ForeignKey, message));
        }
        Ok(())
    }

    /// The semaphore. The first client declares its limit, and every other client must declare a limit that was
    /// declared before.
    fn declare(&mut self, of: u32, now: Instant) -> Result<&mut Semaphore> {
        let semaphore = self.known(of, now);
        semaphore.check(of)?;
        semaphore.used_until(now);
        Ok(semaphore)
    }

    /// The known semaphore, or a new one with this limit.
    fn known(&mut self, of: u32, now: Instant) -> &mut Semaphore {
        if self.semaphore.as_ref().is_some_and(|semaphore| semaphore.is_spent(now)) {
            self.semaphore = None;
        }
        self.semaphore.get_or_insert_with(|| Semaphore::new(of, now))
    }

    fn count(&mut self, now: Instant) -> Permits {
        self.queue.drop_lapsed(now);
        let mut permits = Permits::new(self.semaphore.as_ref().map_or(0, Semaphore::limit));
        permits.held = saturated(room::permits(self.leases.as_slice()));
        permits.waiting = saturated(self.queue.len() as u64);
        permits.closed = self.semaphore.as_ref().is_some_and(Semaphore::is_closed);
        permits
    }
}

fn saturated(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
