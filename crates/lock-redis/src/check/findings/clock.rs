//! The clock of the server.

use lock_core::check::{ClockOffset, Findings, Severity};

use super::super::facts::{Facts, Look};

/// Differences up to here are not worth a finding. In microseconds.
const SKEW: u64 = 1_000_000;
/// How old a time may be that a server gives: some versions read their clock once in a millisecond.
const GRAIN: i64 = 1_100;
/// Leases allow for clock rates that differ by one part in this many.
const DRIFT: i64 = 100;
/// The start of 2020. A server whose clock is before it grants nothing.
const EPOCH: i64 = 1_577_836_800_000_000;

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
    let Some(looks) = facts.clock.known() else { return };
    if looks[1].told < EPOCH {
        found.add(
            Severity::Critical,
            "clock-unset",
            "the clock of the server is before 2020",
            "fencing tokens follow this clock, so the server grants no lock",
            "set the clock of the server",
        );
    }
    if let Some(offset) = facts.offset()
        && offset.micros.unsigned_abs() > SKEW.saturating_add(offset.uncertainty_micros)
    {
        found.add(
            Severity::Warning,
            "clock-skew",
            format!("the clock of the server is {offset} of the clock of this machine"),
            "leases do not depend on it; but fencing tokens follow the clock of the server, and a replica with \
             another clock that takes over ends leases too early or too late",
            "synchronise the clocks of all machines; the check cannot tell which one is wrong",
        );
    }
    replicas(facts, found);
    if let Some(gain) = wrong_rate(looks) {
        let (elapsed, _) = passed(looks);
        found.add(
            Severity::Critical,
            "clock-rate",
            format!("in {elapsed} µs the clock of the server gained {gain} µs"),
            "leases are safe only while the rates of the clocks differ by less than 1 %; on a clock that stands still \
             no lease ends",
            "if the clock was not set during the check, repair the source of time of the server",
        );
    }
}

/// The clocks of replicas, which count the leases after a takeover.
fn replicas(facts: &Facts, found: &mut Findings<'_>) {
    let Some(own) = facts.offset() else { return };
    for replica in &facts.replicas {
        let Some(look) = replica.clock.known() else { continue };
        let offset = look.offset();
        let ahead = offset.micros.saturating_sub(own.micros);
        let uncertainty = offset.uncertainty_micros.saturating_add(own.uncertainty_micros);
        if ahead.unsigned_abs() <= SKEW.saturating_add(uncertainty) {
            continue;
        }
        let differs = ClockOffset::new(ahead, uncertainty);
        found.add(
            Severity::Warning,
            "replica-clock",
            format!("the clock of the replica {} is {differs} of that of its primary", replica.address),
            "a replica that takes over counts the leases by its own clock: one that is ahead gives away locks that are \
             held, and one that is behind keeps them for longer",
            "synchronise the clocks of all machines",
        );
    }
}

/// By how much the clock of the server is wrong, if that is certain and more than leases allow for.
fn wrong_rate(looks: &[Look; 2]) -> Option<i64> {
    let (elapsed, told) = passed(looks);
    let gain = told - elapsed;
    let uncertainty = looks.iter().map(|look| look.took.max(0) / 2 + 1).sum::<i64>() + GRAIN;
    (elapsed > 0 && gain.saturating_abs() - uncertainty > elapsed / DRIFT).then_some(gain)
}

/// The time between the looks, by the clock of this machine and by that of the server.
fn passed([first, second]: &[Look; 2]) -> (i64, i64) {
    let middle = |look: &Look| look.steady + look.took / 2;
    (middle(second) - middle(first), second.told.saturating_sub(first.told))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(took: i64, elapsed: i64, told: i64) -> [Look; 2] {
        let first = Look { wall: EPOCH, steady: 0, took, told: EPOCH };
        [first, Look { wall: EPOCH + elapsed, steady: elapsed, told: EPOCH + told, ..first }]
    }

    #[test]
    fn a_rate_is_wrong_only_if_that_is_certain() {
        assert_eq!(wrong_rate(&looks(200, 10_000, 10_000)), None);
        assert_eq!(wrong_rate(&looks(200, 10_000, 0)), Some(-10_000));
        assert_eq!(wrong_rate(&looks(200, 1_000_000, 1_020_000)), Some(20_000));
        assert_eq!(wrong_rate(&looks(200, 1_000_000, 1_010_000)), None);
        // The answers may have been given at any time within their round trips.
        assert_eq!(wrong_rate(&looks(9_000, 10_000, 0)), None);
        assert_eq!(wrong_rate(&looks(200, 0, 0)), None);
    }
}
