//! The leases of etcd that this client has: those in use, and those that wait for the next hold. Pure.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::{Instant, Ttl};

/// The shortest lease that etcd grants with its usual settings.
pub(crate) const SHORTEST: i64 = 2;

/// How long an idle lease is kept for the next hold.
const IDLE: Duration = Duration::from_secs(60);

/// How many idle leases are kept, at most.
const MOST_IDLE: usize = 1000;

/// The whole seconds for which etcd is asked to keep a lease of this time.
pub(crate) fn seconds(ttl: Ttl) -> i64 {
    let seconds = ttl.as_millis().div_ceil(1000);
    i64::try_from(seconds).unwrap_or(i64::MAX).max(SHORTEST)
}

fn time(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// When a lease that was asked for `asked` seconds, and has been given fewer, counts as sent: then its whole time ends
/// with the time that etcd gives it.
pub(crate) fn dated(sent: Instant, asked: i64, given: i64) -> Instant {
    let missing = u64::try_from(time(asked - given).as_nanos()).unwrap_or(u64::MAX);
    Instant::from_nanos(sent.as_nanos().saturating_sub(missing))
}

/// The leases of a client.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    known: HashMap<i64, Known>,
    /// The idle leases, and since when each is idle.
    idle: Vec<(i64, Instant)>,
    /// At how many leases to look for those that are over.
    sweep_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    seconds: i64,
    /// When the last request was sent that gave the lease its whole time.
    refreshed: Instant,
    /// Whether the key that shows that it lives was written.
    is_planted: bool,
}

impl Known {
    /// By this instant, etcd has not ended the lease.
    fn lives_until(&self) -> Instant {
        self.refreshed + time(self.seconds)
    }
}

/// What the idle leases need now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Upkeep {
    pub(crate) keep_alive: Vec<i64>,
    pub(crate) revoke: Vec<i64>,
    /// When to look again.
    pub(crate) next: Option<Instant>,
}

impl Pool {
    /// Notes a lease that was granted by a request sent at this instant.
    pub(crate) fn add(&mut self, id: i64, seconds: i64, sent: Instant) {
        if self.known.len() >= self.sweep_at {
            self.known.retain(|_, known| known.lives_until() > sent);
            self.idle.retain(|(id, _)| self.known.contains_key(id));
            self.sweep_at = (self.known.len() * 2).max(64);
        }
        self.known.insert(id, Known { seconds, refreshed: sent, is_planted: false });
    }

    /// An idle lease of so many seconds that will live for half of its time at least.
    pub(crate) fn take(&mut self, seconds: i64, now: Instant) -> Option<i64> {
        let soon = now + time(seconds) / 2;
        let fits = |id: &i64| {
            let known = self.known.get(id)?;
            (known.seconds == seconds && known.lives_until() > soon).then_some(known.refreshed)
        };
        let candidates = self.idle.iter().enumerate();
        let best = candidates.filter_map(|(index, (id, _))| Some((fits(id)?, index))).max()?.1;
        Some(self.idle.swap_remove(best).0)
    }

    /// Takes a lease back that is not in use any more. `false` if it should be revoked instead.
    pub(crate) fn give_back(&mut self, id: i64, now: Instant) -> bool {
        let Some(known) = self.known.get(&id) else { return false };
        if known.lives_until() <= now || self.idle.len() >= MOST_IDLE {
            self.forget(id);
            return false;
        }
        if !self.idle.iter().any(|(idle, _)| *idle == id) {
            self.idle.push((id, now));
        }
        true
    }

    /// Notes that a request sent at this instant has given the lease so many seconds.
    pub(crate) fn refreshed(&mut self, id: i64, sent: Instant, given: i64) {
        if let Some(known) = self.known.get_mut(&id) {
            known.refreshed = known.refreshed.max(dated(sent, known.seconds, given));
        }
    }

    /// When the last request was sent that gave the lease its whole time, if this client knows.
    pub(crate) fn last_refreshed(&self, id: i64) -> Option<Instant> {
        self.known.get(&id).map(|known| known.refreshed)
    }

    /// Whether etcd has not ended the lease by now, though the clocks differ by the drift. An operator may have ended
    /// it.
    pub(crate) fn lives(&self, id: i64, now: Instant) -> bool {
        self.known.get(&id).is_some_and(|known| {
            let drift = Ttl::new(time(known.seconds)).map_or(Duration::ZERO, Ttl::drift);
            known.lives_until() > now + drift
        })
    }

    pub(crate) fn plant(&mut self, id: i64) {
        if let Some(known) = self.known.get_mut(&id) {
            known.is_planted = true;
        }
    }

    pub(crate) fn is_planted(&self, id: i64) -> bool {
        self.known.get(&id).is_none_or(|known| known.is_planted)
    }

    pub(crate) fn forget(&mut self, id: i64) {
        self.known.remove(&id);
        self.idle.retain(|(idle, _)| *idle != id);
    }

    /// Which idle leases to keep alive, and which ones to revoke. Forgets those that it names to revoke, and those that
    /// are over.
    pub(crate) fn upkeep(&mut self, now: Instant) -> Upkeep {
        let mut upkeep = Upkeep::default();
        let known = &mut self.known;
        self.idle.retain(|&(id, since)| {
            let Some(lease) = known.get(&id).copied() else { return false };
            let is_over = lease.lives_until() <= now;
            if is_over || since + IDLE <= now {
                known.remove(&id);
                if !is_over {
                    upkeep.revoke.push(id);
                }
                return false;
            }
            let due = lease.refreshed + time(lease.seconds) / 3;
            if due <= now {
                upkeep.keep_alive.push(id);
            }
            // A renewal that fails is repeated a little later.
            let again = due.max(now + Duration::from_millis(500));
            let next = again.min(since + IDLE);
            upkeep.next = Some(upkeep.next.map_or(next, |other| other.min(next)));
            true
        });
        upkeep
    }

    /// All idle leases, for a client that ends.
    pub(crate) fn idle(&self) -> Vec<i64> {
        self.idle.iter().map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1 << 40);

    fn at(seconds: f64) -> Instant {
        START + Duration::from_secs_f64(seconds)
    }

    fn ttl(millis: u64) -> Ttl {
        Ttl::new(Duration::from_millis(millis)).unwrap()
    }

    #[test]
    fn a_ttl_is_rounded_up() {
        let rounded = [10, 1_000, 2_000, 2_001, 3_000, 29_999].map(|it| seconds(ttl(it)));
        assert_eq!(rounded, [2, 2, 2, 3, 3, 30]);
        assert_eq!(seconds(Ttl::MAX), 24 * 60 * 60);
    }

    #[test]
    fn an_idle_lease_of_the_wanted_time_is_used_again() {
        let mut pool = Pool::default();
        pool.add(1, 3, at(0.0));
        pool.add(2, 30, at(0.0));
        pool.add(3, 30, at(1.0));
        assert_eq!(pool.take(30, at(1.0)), None, "all are in use");
        assert!(pool.give_back(1, at(1.0)) && pool.give_back(2, at(1.0)));
        assert!(pool.give_back(3, at(1.0)) && pool.give_back(3, at(1.0)));
        assert_eq!(pool.take(10, at(1.0)), None);
        assert_eq!(pool.take(30, at(1.0)), Some(3), "it lives longest");
        assert_eq!(pool.take(30, at(14.0)), Some(2));
        assert_eq!(pool.take(30, at(14.0)), None);
        // The other one has less than half of its time left.
        assert_eq!(pool.take(3, at(1.6)), None);
        pool.refreshed(1, at(1.5), 3);
        assert_eq!(pool.take(3, at(1.6)), Some(1));
    }

    #[test]
    fn what_is_over_or_unknown_is_not_taken_back() {
        let mut pool = Pool::default();
        pool.add(1, 2, at(0.0));
        assert!(!pool.give_back(7, at(0.0)));
        assert!(!pool.give_back(1, at(2.0)));
        assert_eq!(pool.last_refreshed(1), None);
        pool.add(2, 2, at(0.0));
        assert!(pool.give_back(2, at(0.0)));
        pool.forget(2);
        assert_eq!(pool.take(2, at(0.0)), None);
    }

    #[test]
    fn idle_leases_are_kept_alive_for_a_minute() {
        let mut pool = Pool::default();
        pool.add(1, 30, at(0.0));
        assert_eq!(pool.upkeep(at(11.0)), Upkeep::default(), "it is in use");
        assert!(pool.give_back(1, at(5.0)));
        let quiet = pool.upkeep(at(5.0));
        assert_eq!((quiet.keep_alive, quiet.next), (vec![], Some(at(10.0))));
        let due = pool.upkeep(at(10.0));
        assert_eq!((due.keep_alive, due.next), (vec![1], Some(at(10.5))));
        pool.refreshed(1, at(10.0), 30);
        assert_eq!(pool.upkeep(at(10.0)).next, Some(at(20.0)));
        for second in [20, 30, 40, 50, 60] {
            pool.refreshed(1, at(f64::from(second)), 30);
        }
        assert_eq!(pool.upkeep(at(60.0)).next, Some(at(65.0)));
        assert_eq!(pool.upkeep(at(65.0)).revoke, [1]);
        assert_eq!(pool.upkeep(at(65.0)), Upkeep::default());

        pool.add(2, 2, at(65.0));
        assert!(pool.give_back(2, at(65.0)));
        assert_eq!(pool.upkeep(at(67.0)), Upkeep::default(), "etcd has ended it");
    }

    #[test]
    fn the_number_of_leases_is_bounded() {
        let mut pool = Pool::default();
        for id in 0..5_000 {
            // None of them is given back, as if each holder had died.
            pool.add(id, 2, START + Duration::from_millis(100) * u32::try_from(id).unwrap());
        }
        assert!(pool.known.len() <= 128, "{}", pool.known.len());
        let mut pool = Pool::default();
        for id in 0..1_500 {
            pool.add(id, 30, START);
            assert_eq!(pool.give_back(id, START), id < 1_000);
        }
        assert_eq!(pool.idle().len(), 1_000);
    }

    #[test]
    fn a_lease_lives_until_shortly_before_its_end() {
        let mut pool = Pool::default();
        pool.add(1, 30, START);
        assert!(pool.lives(1, at(29.0)) && !pool.lives(1, at(29.99)) && !pool.lives(2, START));
        pool.refreshed(1, at(29.0), 30);
        assert!(pool.lives(1, at(58.0)));
        pool.forget(1);
        assert!(!pool.lives(1, at(58.0)));
    }

    #[test]
    fn a_lease_is_planted_once() {
        let mut pool = Pool::default();
        pool.add(1, 2, START);
        assert!(!pool.is_planted(1));
        pool.plant(1);
        assert!(pool.is_planted(1) && pool.is_planted(9), "the leases of others are planted");
    }

    #[test]
    fn the_smaller_time_counts() {
        assert_eq!(dated(at(9.0), 30, 30), at(9.0));
        assert_eq!(dated(at(9.0), 2, 15), at(9.0), "etcd has a shortest lease of its own");
        let mut pool = Pool::default();
        pool.add(1, 30, dated(at(9.0), 30, 25));
        assert_eq!(pool.last_refreshed(1), Some(at(4.0)));
        pool.refreshed(1, at(20.0), 28);
        assert_eq!(pool.last_refreshed(1), Some(at(18.0)));
        pool.refreshed(1, at(21.0), 90);
        assert_eq!(pool.last_refreshed(1), Some(at(21.0)));
        assert!(pool.give_back(1, at(50.0)) && !pool.give_back(1, at(51.0)));
    }
}
