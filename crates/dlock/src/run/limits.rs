//! When to end a program whose lease is about to end. Pure.

use std::time::Duration;

/// The times within which `dlock` ends a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// How long the program has between TERM and KILL.
    grace: Duration,
    /// How long before the end of the lease `dlock` sends KILL. The system needs this time to carry it out.
    margin: Duration,
    /// What a lease must have left when the program begins.
    least: Duration,
}

/// The grace, unless a quarter of the lease is shorter.
const GRACE: Duration = Duration::from_secs(5);

/// The shortest and the longest margin; in between, a twentieth of the lease.
const MARGINS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The longest time between two looks at the lease.
const LOOK: Duration = Duration::from_millis(500);

impl Limits {
    /// The limits for leases of this length. Fails if the grace is so long that a late renewal ends the program, or if the
    /// lease is so short that every renewal comes too late.
    pub(super) fn new(ttl: Duration, grace: Option<Duration>) -> Result<Self, String> {
        let margin = (ttl / 20).clamp(MARGINS.0, MARGINS.1);
        let most = (ttl / 2).saturating_sub(margin);
        let grace = grace.unwrap_or(GRACE.min(ttl / 4).min(most));
        if grace > most {
            return Err(format!(
                "a grace of {grace:?} does not fit into a lease of {ttl:?}: at most {most:?}, or a longer --ttl"
            ));
        }
        // The first renewal comes when two thirds of the lease are left.
        if grace + margin >= ttl / 3 * 2 {
            return Err(format!(
                "a lease of {ttl:?} is too short: dlock ends the program {margin:?} before the end of the lease"
            ));
        }
        Ok(Self { grace, margin, least: ttl * 3 / 4 })
    }

    /// Whether this rest of the lease is too short to begin with: the first renewal of such a lease may come after
    /// the time at which the program gets TERM.
    pub(super) fn is_short(&self, left: Duration) -> bool {
        left < self.least
    }

    /// Whether the program gets TERM when this rest of the lease is left.
    pub(super) fn is_due(&self, left: Duration) -> bool {
        left <= self.grace + self.margin
    }

    /// How long after TERM the program gets KILL when this rest of the lease is left. If the lease has ended
    /// already, another client may have the lock, and a longer wait makes that worse.
    pub(super) fn until_kill(&self, left: Duration) -> Duration {
        self.grace.min(left.saturating_sub(self.margin))
    }

    /// When to look at the lease again.
    pub(super) fn next_look(&self, left: Duration) -> Duration {
        left.saturating_sub(self.grace + self.margin).clamp(Duration::from_millis(5), LOOK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_program_is_killed_before_its_lease_ends() {
        for (ttl, grace) in
            [(30_000, None), (30_000, Some(10_000)), (1_000, None), (500, Some(100))]
        {
            let limits = Limits::new(ms(ttl), grace.map(ms)).unwrap();
            // Looks at the lease, each time as late as allowed, until the program gets TERM.
            let mut left = ms(ttl);
            while !limits.is_due(left) {
                left = left.saturating_sub(limits.next_look(left));
            }
            let rest = left - limits.until_kill(left);
            assert!(rest >= ms(90), "{ttl} {grace:?}: killed {rest:?} before the end");
            assert!(limits.until_kill(left) + ms(10) >= grace.map_or(ms(ttl.min(20_000) / 4), ms));
        }
    }

    /// The store gives a waiter a second at most. The client renews a lease after a third of its rest.
    #[test]
    fn a_lease_that_is_long_enough_to_begin_is_renewed_in_time() {
        for ttl in (500..60_000).step_by(10) {
            let limits = Limits::new(ms(ttl), None).unwrap();
            for left in (0..=ttl.min(1_000)).step_by(10) {
                let at_renewal = ms(left) - ms(left / 3);
                assert!(
                    limits.is_short(ms(left)) || !limits.is_due(at_renewal),
                    "{left} of {ttl} ms: due before the renewal"
                );
            }
        }
    }

    #[test]
    fn a_grace_that_does_not_fit_is_refused() {
        assert!(Limits::new(ms(30_000), Some(ms(13_500))).is_ok());
        let error = Limits::new(ms(30_000), Some(ms(14_000))).unwrap_err();
        assert!(error.contains("at most 13.5s"), "{error}");
    }

    #[test]
    fn a_lease_that_ends_before_its_first_renewal_could_save_it_is_refused() {
        let error = Limits::new(ms(150), None).unwrap_err();
        assert!(error.contains("too short"), "{error}");
        for ttl in 1..60_000 {
            let Ok(limits) = Limits::new(ms(ttl), None) else { continue };
            assert!(!limits.is_due(ms(ttl) / 3 * 2), "{ttl}");
        }
        assert!(Limits::new(ms(200), None).is_ok());
    }

    #[test]
    fn after_the_end_of_the_lease_there_is_no_grace() {
        assert_eq!(
            Limits::new(ms(30_000), None).unwrap().until_kill(Duration::ZERO),
            Duration::ZERO
        );
    }
}
