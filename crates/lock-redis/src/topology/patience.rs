//! How often, and for how long, a request is sent again that no server ran; pure.

use std::time::Duration;

use lock_core::{Backoff, Instant};

use crate::wire::Failure;

/// The most redirections that a request follows without a pause.
const REDIRECTIONS: u32 = 5;
const SHORTEST: Duration = Duration::from_millis(5);
const PAUSES: Backoff = Backoff::new(SHORTEST, Duration::from_millis(100));

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The failure is the outcome.
    Fail,
    /// Follow the redirection at once.
    Follow,
    /// Ask again after this time.
    Pause(Duration),
}

/// The failures of one request so far.
#[derive(Debug)]
pub(super) struct Patience {
    ends: Instant,
    redirections: u32,
    pauses: Backoff,
}

impl Patience {
    /// A request that begins now, and is not sent again after its time limit.
    pub(super) fn new(now: Instant, limit: Duration) -> Self {
        Self { ends: now + limit, redirections: 0, pauses: PAUSES }
    }

    /// Only a request that certainly was not run is sent again.
    pub(super) fn after(&mut self, failure: &Failure, now: Instant) -> Next {
        let is_redirected = match failure {
            Failure::Moved(redirect, _) | Failure::Asks(redirect, _) => redirect.address.is_some(),
            Failure::Unsent(error) if !error.is_retryable() => return Next::Fail,
            Failure::Moving(_) | Failure::Later(_) | Failure::Unsent(_) | Failure::Demoted(_) => {
                false
            }
            _ => return Next::Fail,
        };
        if now >= self.ends {
            return Next::Fail;
        }
        if is_redirected && self.redirections < REDIRECTIONS {
            self.redirections += 1;
            return Next::Follow;
        }
        let pause = self.pauses.fail();
        if self.ends.saturating_duration_since(now) <= pause {
            return Next::Fail;
        }
        Next::Pause(pause)
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{Error, ErrorKind};
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Address, Redirect};

    const LIMIT: Duration = Duration::from_secs(2);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1 << 40) + Duration::from_millis(millis)
    }

    fn error() -> Error {
        Error::new(ErrorKind::NotReady, "no")
    }

    fn moved(host: Option<&str>) -> Failure {
        let address = host.map(|host| Address::Tcp { host: host.to_owned(), port: 1 });
        Failure::Moved(Redirect { slot: 7, address }, error())
    }

    #[test]
    fn pauses_grow_up_to_a_tenth_of_a_second() {
        let mut patience = Patience::new(at(0), LIMIT);
        for millis in [5, 10, 20, 40, 80, 100, 100] {
            let next = patience.after(&Failure::Moving(error()), at(0));
            assert_eq!(next, Next::Pause(Duration::from_millis(millis)));
        }
    }

    #[test]
    fn a_few_redirections_are_followed_at_once() {
        let mut patience = Patience::new(at(0), LIMIT);
        for _ in 0..REDIRECTIONS {
            assert_eq!(patience.after(&moved(Some("a")), at(0)), Next::Follow);
        }
        assert_eq!(patience.after(&moved(Some("a")), at(0)), Next::Pause(SHORTEST));
        let mut patience = Patience::new(at(0), LIMIT);
        assert_eq!(patience.after(&moved(None), at(0)), Next::Pause(SHORTEST));
    }

    #[test]
    fn a_request_that_may_have_run_or_is_refused_for_good_is_not_sent_again() {
        let mut patience = Patience::new(at(0), LIMIT);
        let denied = Failure::Unsent(Error::new(ErrorKind::Denied, "no"));
        for failure in [Failure::Error(error()), Failure::Astray(error()), denied] {
            assert_eq!(patience.after(&failure, at(0)), Next::Fail);
        }
    }

    proptest! {
        #[test]
        fn every_request_ends_within_its_limit(redirected in prop::collection::vec(any::<bool>(), 100)) {
            let (mut patience, mut now) = (Patience::new(at(0), LIMIT), at(0));
            let mut ended = false;
            for redirected in redirected {
                let failure = if redirected { moved(Some("a")) } else { Failure::Later(error()) };
                match patience.after(&failure, now) {
                    Next::Fail => ended = true,
                    Next::Follow => {}
                    Next::Pause(pause) => now = now + pause,
                }
                prop_assert!(now < at(2_000));
            }
            prop_assert!(ended);
        }
    }
}
