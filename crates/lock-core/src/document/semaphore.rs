//! The number of permits of a key.

use std::time::Duration;

use crate::{Error, ErrorKind, Instant, Permits};

/// How long an unchanged limit is remembered after its last use.
const MEMORY: Duration = Duration::from_secs(60 * 60);

/// The state of a semaphore, without its leases.
#[derive(Debug)]
pub(crate) struct Semaphore {
    /// The limits that users declare, the last one first.
    declared: Vec<u32>,
    /// How many permits there are now.
    limit: u32,
    closed: bool,
    last_used: Instant,
}

impl Semaphore {
    pub(crate) fn new(declared: u32, now: Instant) -> Self {
        Self { declared: vec![declared], limit: declared, closed: false, last_used: now }
    }

    /// A semaphore that was read from a document, and is in use now.
    pub(crate) fn of(declared: Vec<u32>, limit: u32, closed: bool, now: Instant) -> Self {
        Self { declared, limit, closed, last_used: now }
    }

    pub(crate) fn declared(&self) -> &[u32] {
        &self.declared
    }

    /// Whether a store that forgets the semaphore loses nothing but the declared number.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.limit == self.declared[0] && !self.closed
    }

    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Notes that the semaphore is in use until this instant.
    pub(crate) fn used_until(&mut self, until: Instant) {
        self.last_used = self.last_used.max(until);
    }

    /// Sets when the semaphore was last in use, as the store remembers it.
    pub(crate) fn was_used(&mut self, at: Instant) {
        self.last_used = at;
    }

    /// Whether the store can forget the semaphore without a loss.
    pub(crate) fn is_spent(&self, now: Instant) -> bool {
        self.is_unchanged() && self.last_used + MEMORY <= now
    }

    /// Replaces the limit, unless this number was declared last.
    pub(crate) fn redeclare(&mut self, declared: u32) {
        if self.declared[0] != declared {
            self.declared.retain(|known| *known != declared);
            self.declared.insert(0, declared);
            self.declared.truncate(Permits::DECLARATIONS);
            self.limit = declared;
        }
    }

    /// Refuses a client whose number of permits no client has declared before.
    pub(crate) fn check(&self, declared: u32) -> Result<(), Error> {
        if self.declared.contains(&declared) {
            return Ok(());
        }
        let known = self.declared[0];
        Err(Error::new(
            ErrorKind::InvalidConfig,
            format!("this semaphore was declared with {known} permits, and now with {declared}"),
        ))
    }

    pub(crate) fn add(&mut self, count: u32) -> Result<(), Error> {
        let limit = self.limit.checked_add(count).ok_or_else(|| {
            let limit = self.limit;
            let message = format!("{count} permits and the {limit} there are would be too many");
            Error::new(ErrorKind::InvalidConfig, message)
        })?;
        self.limit = limit;
        Ok(())
    }

    /// Removes permits that are free, or that are released in this step.
    pub(crate) fn remove(&mut self, count: u32) {
        self.limit = self.limit.saturating_sub(count);
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(0);

    #[test]
    fn only_an_unchanged_limit_is_forgotten_after_an_hour() {
        let (before, after) = (START + MEMORY - Duration::from_nanos(1), START + MEMORY);
        let mut semaphore = Semaphore::new(3, START);
        assert!(!semaphore.is_spent(before) && semaphore.is_spent(after));
        semaphore.used_until(after);
        assert!(!semaphore.is_spent(after));

        let mut changed = Semaphore::new(3, START);
        changed.add(1).unwrap();
        assert!(!changed.is_spent(after));
        changed.remove(1);
        assert!(changed.is_spent(after));
        changed.close();
        assert!(!changed.is_spent(after));
    }

    #[test]
    fn a_declared_number_is_known_until_eight_others_were_declared() {
        let mut semaphore = Semaphore::new(3, START);
        semaphore.add(2).unwrap();
        semaphore.redeclare(3);
        assert_eq!(semaphore.limit(), 5, "3 was declared last");
        semaphore.redeclare(10);
        assert_eq!(semaphore.limit(), 10);
        assert!(semaphore.check(3).is_ok() && semaphore.check(4).is_err());
        assert!(semaphore.is_spent(START + MEMORY), "the limit is the declared one");
        for declared in 11..17 {
            semaphore.redeclare(declared);
        }
        assert!(semaphore.check(3).is_ok());
        semaphore.redeclare(17);
        assert!(semaphore.check(3).is_err() && semaphore.check(10).is_ok());
    }

    #[test]
    fn the_most_permits_are_exact() {
        let mut semaphore = Semaphore::new(u32::MAX - 1, START);
        semaphore.add(1).unwrap();
        assert_eq!(semaphore.limit(), u32::MAX);
        assert_eq!(semaphore.add(1).unwrap_err().kind(), ErrorKind::InvalidConfig);
        assert_eq!(semaphore.limit(), u32::MAX);
    }
}
