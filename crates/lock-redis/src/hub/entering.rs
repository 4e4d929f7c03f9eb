//! How long a pushed grant lasts.
//!
//! A grant that a client asks for is dated from before the request. The client did not ask at that
//! moment for a grant that is handed over. It does not know how long the message took, or how long this
//! process slept in the meantime. It knows how the clocks stood when the claim took its place in the
//! queue: the request was sent at `sent` on the client's clock, and afterwards the server read `seen`
//! on its own clock. The message says that the server granted at `at` on that clock, for `lease`.
//!
//! When the lease ends, the server's clock has moved by `at + lease - seen` since that reading, and the
//! reading was after `sent`. If the server's clock does not run faster than the client's by more than
//! the drift, the client's clock is then at `sent + (at + lease - seen)`, less the drift over that
//! time, or later. A holder that lets go before that instant is in time, however long the message took:
//! the sum begins at `sent`, so it includes the time of the message.
//!
//! This holds while the server's clock runs evenly, as every lease on the server supposes. The client
//! detects that the clock was set in the meantime if the message claims the impossible: a grant before
//! the place in the queue, or after the message has come. Then nothing is proved, and the client asks.
//! The client does not detect a step forward that is no longer than the time of the message. It then
//! believes that the lease lasts longer than it does, by that step.

use std::time::Duration;

use lock_core::Instant;

/// How the clocks stood when a claim took its place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// When the request was about to be sent, on the client's clock.
    pub(crate) sent: Instant,
    /// The server's clock when it answered, in microseconds.
    pub(crate) seen: u64,
}

/// What the server says about a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// The server's clock at the grant, in microseconds.
    pub(crate) at: u64,
    /// How long the lease lives from that instant.
    pub(crate) lease: Duration,
}

/// Until when a pushed grant is valid, for a claim that expected a lease of `claim` and a message that
/// came at `received`. `None` if too little is left of the lease, or if nothing is proved.
pub(super) fn valid_until(
    sample: Sample,
    pushed: Pushed,
    claim: Duration,
    received: Instant,
) -> Option<Instant> {
    let waited = received.saturating_duration_since(sample.sent);
    let until_grant = Duration::from_micros(pushed.at.checked_sub(sample.seen)?);
    if until_grant > waited + drift(waited) {
        return None;
    }
    // The client does not believe in a lease that is longer than expected.
    let lease = pushed.lease.min(claim);
    let by_server = sample.sent + (until_grant + lease).saturating_sub(drift(waited + lease));
    let at_most = received + lease.saturating_sub(drift(lease));
    let until = by_server.min(at_most);
    (until.saturating_duration_since(received) >= lease / 2).then_some(until)
}

/// How far clocks may disagree over such a time: a hundredth, and 2 ms for the rounding of the store.
/// This equals [`Ttl::drift`](lock_core::Ttl::drift).
fn drift(time: Duration) -> Duration {
    time / 100 + Duration::from_millis(2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLAIM: Duration = Duration::from_secs(1);
    const NOON: u64 = 1_795_000_000_000_000;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1 << 40) + Duration::from_millis(millis)
    }

    fn sample() -> Sample {
        Sample { sent: at(0), seen: NOON }
    }

    /// A grant this many milliseconds after the sample was taken.
    fn granted(after: u64) -> Pushed {
        Pushed { at: NOON + after * 1_000, lease: CLAIM }
    }

    #[test]
    fn a_grant_that_comes_at_once_is_good_for_almost_all_of_its_lease() {
        let until = valid_until(sample(), granted(0), CLAIM, at(0)).unwrap();
        assert_eq!(until, at(988));
        let until = valid_until(sample(), granted(2_000), CLAIM, at(2_000)).unwrap();
        assert_eq!(until, at(3_000) - Duration::from_millis(32));
    }

    #[test]
    fn a_late_message_gains_nothing() {
        let prompt = valid_until(sample(), granted(100), CLAIM, at(100)).unwrap();
        let late = valid_until(sample(), granted(100), CLAIM, at(400)).unwrap();
        assert!(late <= prompt);
        // So late that too little is left.
        assert_eq!(valid_until(sample(), granted(100), CLAIM, at(700)), None);
        assert_eq!(valid_until(sample(), granted(100), CLAIM, at(3_600_000)), None);
    }

    #[test]
    fn a_clock_that_was_set_back_is_found_out() {
        let before = Pushed { at: NOON - 1, lease: CLAIM };
        assert_eq!(valid_until(sample(), before, CLAIM, at(5)), None);
    }

    #[test]
    fn a_clock_that_was_set_forward_is_found_out() {
        assert_eq!(valid_until(sample(), granted(60_000), CLAIM, at(100)), None);
        assert_eq!(valid_until(sample(), granted(104), CLAIM, at(100)), None);
        assert!(valid_until(sample(), granted(102), CLAIM, at(100)).is_some());
    }

    #[test]
    fn a_lease_of_impossible_length_is_not_believed() {
        let long = Pushed { at: NOON, lease: Duration::MAX };
        let until = valid_until(sample(), long, CLAIM, at(0)).unwrap();
        assert!(until < at(0) + CLAIM);
        let far = Pushed { at: u64::MAX, lease: Duration::MAX };
        assert_eq!(valid_until(sample(), far, CLAIM, at(0)), None);
        let none = Pushed { at: NOON, lease: Duration::ZERO };
        assert!(valid_until(sample(), none, CLAIM, at(0)).is_none_or(|until| until <= at(0)));
    }

    proptest! {
        /// Clocks whose rates differ by up to 1 %, and messages that take any time.
        #[test]
        fn the_holder_lets_go_before_the_server(
            asking in 0u64..2_000_000,
            waiting in 0u64..60_000_000,
            coming in 0u64..2_000_000,
            claim in 10_000u64..1_000_000,
            rate in -10_000i64..10_000,
        ) {
            // In microseconds of the client's clock: the server read its clock `asking` after the
            // request was sent, granted `waiting` after that, and the message came `coming` later.
            let theirs = |ours: u64| (ours as i128 * (1_000_000 + i128::from(rate)) / 1_000_000) as u64;
            let pushed = Pushed { at: NOON + theirs(waiting), lease: Duration::from_micros(claim) };
            let received = at(0) + Duration::from_micros(asking + waiting + coming);
            let claimed = Duration::from_micros(claim);
            if let Some(until) = valid_until(sample(), pushed, claimed, received) {
                // The instant on the client's clock at which the server's clock has moved by the lease
                // since the grant.
                let ends = (claim as i128 * 1_000_000 / (1_000_000 + i128::from(rate))) as u64;
                let end = at(0) + Duration::from_micros(asking + waiting + ends);
                prop_assert!(until <= end, "{until:?} is after {end:?}");
                prop_assert!(until > received);
            }
        }

        #[test]
        fn no_pushed_grant_lasts_longer_than_expected(
            seen in any::<u64>(),
            granted in any::<u64>(),
            lease in any::<u64>(),
            waited in any::<u64>(),
        ) {
            let sample = Sample { sent: at(0), seen };
            let pushed = Pushed { at: granted, lease: Duration::from_micros(lease) };
            let received = at(0) + Duration::from_nanos(waited >> 1);
            if let Some(until) = valid_until(sample, pushed, CLAIM, received) {
                prop_assert!(until < received + CLAIM);
            }
        }
    }
}
