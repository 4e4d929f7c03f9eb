//! Operations end in time, and fail only with errors that a fault explains.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::Instant;

use super::lateness::{SINCE, is_of_process, lateness};
use super::losses::{forgets_young_lease, lost_for_nothing};
use super::operations::{End, Operation, Operations};
use super::terms::Terms;
use super::unrest::Unrest;
use super::{Property, Violation};
use crate::chaos::history::{Event, Patience, Refusal};

/// The most requests of a try, one after another: for a release that was under way when it came, for each of
/// two slots, or for the lock and then for the value of a leader.
const REQUESTS: u32 = 2;

/// How far two clocks of one machine may differ over a wait.
pub(super) const GRAIN: Duration = Duration::from_millis(1);

pub(super) fn check(operations: &Operations, events: &[Event], terms: &Terms) -> Vec<Violation> {
    let names = operations.client_names().iter();
    let own: Vec<_> = names.map(|client| OfClient::new(terms, client)).collect();
    let stood = stood_still(operations, terms);
    let late: Vec<_> = lateness(events, &terms.stood_still).collect();
    let mut found = Vec::new();
    for operation in &operations.all {
        let own = &own[operation.client];
        let denials = denials(operation, terms);
        let wrong = denials.iter().filter_map(|denial| Some((denial, denial.wrong(own)?)));
        found.extend(wrong.map(|(denial, what)| (operation, denial.end, what)));
        let unrest = &own.unrest;
        let too_long = phases(operations, operation, terms, unrest).into_iter().find(|phase| {
            let &Phase { begin, end, most, .. } = phase;
            let (time, most) = (end.saturating_duration_since(begin), most + terms.slack);
            let excused =
                || still(&stood[operation.client], begin, end) + late_within(&late, begin, end);
            time > most && time.saturating_sub(excused()) > most
        });
        found.extend(too_long.map(|Phase { what, begin, end, most }| {
            let time = end.saturating_duration_since(begin);
            (operation, end, format!("{what} took {time:?} and more, instead of {most:?}"))
        }));
    }
    let tell = |(operation, at, what): (&Operation, Instant, String)| {
        let text = format!("{what}: {}", operations.name(operation));
        Violation::new(Property::Errors, (at, at), operations.key(operation), text)
    };
    // The cause of the missing renewal has existed since then.
    let own: HashMap<_, _> =
        operations.client_names().iter().map(String::as_str).zip(own).collect();
    let troubled = |event: &Event| {
        let own = own.get(event.client.as_str());
        let since = event.at - terms.ttl;
        own.is_some_and(|own| own.faults.touches(since, event.at))
            // A renewal has a good part of the lease to succeed.
            || late_within(&late, since, event.at) >= terms.ttl / 4
    };
    let lost = lost_for_nothing(operations, events, terms, &troubled);
    found.into_iter().map(tell).chain(lost).collect()
}

/// The faults that one client may see.
struct OfClient {
    terms: Terms,
    unrest: Unrest,
    /// Without the lateness of the machine.
    faults: Unrest,
}

impl OfClient {
    fn new(terms: &Terms, client: &str) -> Self {
        let terms = terms.of_client(client);
        let faults = terms.clone().in_time().unrest(Property::Errors);
        Self { unrest: terms.unrest(Property::Errors), faults, terms }
    }
}

/// A call without success.
struct Denial<'a> {
    what: &'static str,
    begin: Instant,
    end: Instant,
    /// How long it may wait for other holders.
    patience: Patience,
    /// Since when there may have been a reason for the loss of a lease.
    since: Instant,
    /// When the lease was requested, and when it was granted at the latest.
    lease: (Instant, Instant),
    why: &'a Refusal,
}

fn denials<'a>(operation: &'a Operation, terms: &Terms) -> Vec<Denial<'a>> {
    let asking = match &operation.end {
        End::Refused(why) => Some(Denial {
            what: "asking",
            begin: operation.asked,
            end: operation.ended,
            patience: operation.patience,
            since: operation.asked,
            lease: (operation.asked, operation.ended),
            why,
        }),
        _ => None,
    };
    let converting = operation.kept.iter().map(|kept| Denial {
        what: "converting",
        begin: kept.asked,
        end: kept.ended,
        patience: kept.patience,
        // The cause of the missing renewal.
        since: kept.asked - terms.ttl,
        lease: operation.lease(),
        why: &kept.why,
    });
    let letting_go = match (&operation.end, operation.leaves) {
        (End::Left { why: Some(why), .. }, Some(begin)) => Some(Denial {
            what: "letting go",
            begin,
            end: operation.ended,
            // It has no limit that it could reach.
            patience: Patience::None,
            since: begin - terms.ttl,
            lease: operation.lease(),
            why,
        }),
        _ => None,
    };
    asking.into_iter().chain(converting).chain(letting_go).collect()
}

impl Denial<'_> {
    /// The error of the call, if there is one. [Tries](super::tries) checks whether a task was in the way of a
    /// try.
    fn wrong(&self, own: &OfClient) -> Option<String> {
        let &Self { what, begin, end, since, lease: (asked, granted), why, .. } = self;
        match why {
            Refusal::Failed(kind) if !own.terms.explained(kind, begin, end) => {
                Some(format!("{kind} is not explained by anything, {what}"))
            }
            Refusal::Lost
                if !own.unrest.touches(since, end)
                    && !forgets_young_lease(&own.terms, asked, granted) =>
            {
                Some(format!("there is no reason for {why}, {what}"))
            }
            Refusal::Closed if !own.unrest.touches(begin, end) => {
                Some(format!("there is no reason for {why}, {what}"))
            }
            Refusal::TimedOut if self.is_early() => {
                let time = end.saturating_duration_since(begin);
                Some(format!("it was over after {time:?}, {what}"))
            }
            _ => None,
        }
    }

    /// Whether it cannot have waited for its whole limit. A try waits for nothing.
    fn is_early(&self) -> bool {
        match self.patience {
            Patience::None => true,
            Patience::Within(limit) => {
                self.end.saturating_duration_since(self.begin) + GRAIN < limit
            }
        }
    }
}

/// What a client does and waits for, with begin and end.
#[derive(Debug)]
struct Phase {
    what: &'static str,
    begin: Instant,
    end: Instant,
    /// Its time limit.
    most: Duration,
}

fn phases(
    operations: &Operations,
    operation: &Operation,
    terms: &Terms,
    unrest: &Unrest,
) -> Vec<Phase> {
    let last = operations.last_of(operation.client);
    let over = if operation.end == End::Gone { last } else { operation.ended };
    // Even without a fault, a quorum may have to wait for the answers of a few nodes.
    let is_whole = |begin, end| terms.deployment.minority() == 0 && !unrest.touches(begin, end);
    let phase = |what, begin, end, patience| {
        let most = match patience {
            Patience::None if is_whole(begin, end) => Duration::ZERO,
            Patience::None => REQUESTS * terms.request,
            Patience::Within(limit) => limit,
        };
        Phase { what, begin, end, most }
    };
    let without = operations.without_until(operation);
    let mut phases = vec![phase("asking", operation.asked, without, operation.patience)];
    for (number, span) in operation.spans.iter().enumerate() {
        let Some((_, patience)) = span.becomes else { continue };
        let next = operation.spans.get(number + 1).map(|span| span.from);
        let end = next.or(operation.leaves).unwrap_or(over);
        phases.push(phase("converting", span.from, end, patience));
    }
    phases.extend(operation.leaves.map(|begin| Phase {
        what: "letting go",
        begin,
        end: over,
        most: terms.wait_limit.max(terms.request),
    }));
    phases
}

/// The times when each client stood still, in order.
fn stood_still(operations: &Operations, terms: &Terms) -> Vec<Vec<(Instant, Instant)>> {
    let times = |client: &String| {
        let of_client =
            terms.stood_still.iter().filter(|(process, ..)| is_of_process(client, process));
        let mut times: Vec<_> = of_client.map(|&(_, begin, end)| (begin, end)).collect();
        times.sort_unstable();
        times
    };
    operations.client_names().iter().map(times).collect()
}

/// How long it stood still in that time. There are few such times.
fn still(times: &[(Instant, Instant)], begin: Instant, end: Instant) -> Duration {
    times.iter().map(|time| time.1.min(end).saturating_duration_since(time.0.max(begin))).sum()
}

/// How late the machine was in that time, by the client that felt it most.
fn late_within(late: &[(&Event, Duration)], begin: Instant, end: Instant) -> Duration {
    let first = late.partition_point(|(event, _)| event.at < begin);
    let told = end + SINCE;
    let mut sums = HashMap::<&str, Duration>::new();
    for (event, late) in late[first..].iter().take_while(|(event, _)| event.at <= told) {
        *sums.entry(&event.client).or_default() += *late;
    }
    sums.into_values().max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::Trouble;
    use super::super::scene::{Scene, at};
    use super::*;
    use crate::chaos::history::{Deed, Way};
    use crate::chaos::{Deployment, Extent, Fault};

    fn terms() -> Terms {
        let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        terms.wait_limit = Duration::from_secs(2);
        terms.request = Duration::from_secs(1);
        terms
    }

    fn revoked(begin: u64, end: u64) -> Terms {
        let mut terms = terms();
        let (begin, end, servers) = (at(begin), at(end), vec![0]);
        let (fault, extent) = (Fault::RevokeRights, Extent::Majority);
        terms.troubles = vec![Trouble { fault, extent, servers, workers: vec![], begin, end }];
        terms
    }

    fn found(scene: &Scene, terms: &Terms) -> usize {
        let (operations, odd) = Operations::of(scene.events());
        assert_eq!(odd, []);
        check(&operations, scene.events(), terms).len()
    }

    fn fails(why: Refusal, when: u64) -> Scene {
        ends(within(10), [when, when + 10], why)
    }

    /// A task that asks and ends without a lock at these times.
    fn ends(patience: Patience, [asks, ends]: [u64; 2], why: Refusal) -> Scene {
        let mut scene = Scene::new();
        let it = scene.waits("a", "m0", Way::Write, patience, asks);
        scene.fails(it, ends, why);
        scene
    }

    fn within(millis: u64) -> Patience {
        Patience::Within(Duration::from_millis(millis))
    }

    #[test]
    fn contention_is_no_error() {
        for why in [Refusal::Busy, Refusal::TimedOut, Refusal::GivenUp] {
            assert_eq!(found(&fails(why, 0), &terms()), 0);
        }
    }

    #[test]
    fn a_limit_is_not_reached_before_it_is_over_and_a_try_has_none() {
        let over = |patience, ended| ends(patience, [0, ended], Refusal::TimedOut);
        assert_eq!(found(&over(within(30), 29), &terms()), 0);
        assert_eq!(found(&over(within(30), 28), &terms()), 1);
        assert_eq!(found(&over(Patience::None, 100), &terms()), 1);
    }

    #[test]
    fn a_try_takes_no_longer_than_its_requests() {
        let tries = |millis: u64| ends(Patience::None, [100, 100 + millis], Refusal::Busy);
        assert_eq!([500, 501].map(|millis| found(&tries(millis), &terms())), [0, 1]);
        let troubled = revoked(150, 200);
        assert_eq!([2_500, 2_501].map(|millis| found(&tries(millis), &troubled)), [0, 1]);
        let mut quorum = terms();
        quorum.deployment = Deployment::Quorum(3);
        assert_eq!([2_500, 2_501].map(|millis| found(&tries(millis), &quorum)), [0, 1]);
    }

    #[test]
    fn errors_have_to_be_explained() {
        let denied = || Refusal::Failed("Denied".to_owned());
        assert_eq!(found(&fails(denied(), 100), &terms()), 1);
        assert_eq!(found(&fails(denied(), 100), &revoked(50, 200)), 0);
        assert_eq!(found(&fails(denied(), 10_000), &revoked(50, 200)), 1);
        let odd = Refusal::Failed("Protocol".to_owned());
        assert_eq!(found(&fails(odd, 100), &revoked(50, 200)), 1);
        assert_eq!(found(&fails(Refusal::Closed, 100), &terms()), 1);
        assert_eq!(found(&fails(Refusal::Lost, 100), &terms()), 1);
    }

    /// A task that starts an upgrade at 100, and knows at 130 that it failed.
    fn stays(patience: Patience, why: Refusal) -> Scene {
        let mut scene = Scene::new();
        let it = scene.had("a", "w0", Way::Upgradable, 1, [0, 1], 900);
        scene.turns_within(it, Way::Write, patience, 100, 900);
        scene.says(it, 130, |op| Deed::Kept { op, why });
        scene.leaves(it, 140, 900);
        scene
    }

    #[test]
    fn what_keeps_a_hold_from_becoming_another_has_to_be_explained_as_well() {
        let stays = |why, terms| found(&stays(within(30), why), &terms);
        for why in [Refusal::Busy, Refusal::TimedOut] {
            assert_eq!(stays(why, terms()), 0);
        }
        let denied = || Refusal::Failed("Denied".to_owned());
        assert_eq!(stays(denied(), terms()), 1);
        assert_eq!(stays(denied(), revoked(120, 200)), 0);
        assert_eq!(stays(denied(), revoked(131, 200)), 1);
        for why in [Refusal::Closed, Refusal::Lost] {
            assert_eq!(stays(why.clone(), terms()), 1);
            assert_eq!(stays(why, revoked(50, 200)), 0);
        }
    }

    #[test]
    fn the_limit_of_an_upgrade_is_not_reached_before_it_is_over_either() {
        let over = |patience| found(&stays(patience, Refusal::TimedOut), &terms());
        assert_eq!([within(31), within(32), Patience::None].map(over), [0, 1, 1]);
    }

    #[test]
    fn what_a_release_says_has_to_be_explained_as_well() {
        let says = |why: Option<Refusal>, terms: &Terms| {
            let mut scene = Scene::new();
            let it = scene.had("a", "m0", Way::Write, 1, [0, 1], 9_000);
            scene.says(it, 5_000, |op| Deed::Leave { op, valid_until: at(9_000) });
            scene.says(it, 5_010, |op| Deed::Left { op, confirmed: false, why });
            found(&scene, terms)
        };
        let denied = || Some(Refusal::Failed("Denied".to_owned()));
        assert_eq!(says(None, &terms()), 0);
        assert_eq!([terms(), revoked(5_011, 5_100)].map(|it| says(denied(), &it)), [1, 1]);
        assert_eq!(says(denied(), &revoked(5_005, 5_100)), 0);
        let lost = || Some(Refusal::Lost);
        assert_eq!([terms(), revoked(5_011, 5_100)].map(|it| says(lost(), &it)), [1, 1]);
        // The call reports a lease that was not renewed earlier.
        assert_eq!(says(lost(), &revoked(4_000, 4_100)), 0);
        assert_eq!(says(Some(Refusal::TimedOut), &terms()), 1);
    }

    #[test]
    fn a_lease_is_lost_for_a_reason() {
        let mut scene = Scene::new();
        let it = scene.had("a", "m0", Way::Write, 1, [0, 1], 100);
        scene.says(it, 60, |op| Deed::Lost { op });
        scene.leaves(it, 70, 100);
        assert_eq!(found(&scene, &terms()), 1);
        assert_eq!(found(&scene, &revoked(50, 200)), 0);
    }

    #[test]
    fn nothing_takes_longer_than_its_limit() {
        assert_eq!(found(&fails(Refusal::TimedOut, 0), &terms()), 0);
        let hangs = ends(within(2_000), [0, 3_000], Refusal::TimedOut);
        assert_eq!(found(&hangs, &terms()), 1);
        assert_eq!(found(&ends(within(2_500), [0, 3_000], Refusal::TimedOut), &terms()), 0);
        let mut for_ever = Scene::new();
        for_ever.waits("a", "m0", Way::Write, within(2_000), 0);
        for_ever.event("a", 2_400, Deed::Late { millis: 0 });
        assert_eq!(found(&for_ever, &terms()), 0);
        for_ever.event("a", 2_600, Deed::Late { millis: 0 });
        assert_eq!(found(&for_ever, &terms()), 1);
        let mut late = Scene::new();
        let it = late.waits("a", "m0", Way::Write, within(2_000), 0);
        late.event("b", 2_000, Deed::Late { millis: 700 });
        late.fails(it, 3_000, Refusal::TimedOut);
        assert_eq!(found(&late, &terms()), 0);
        let mut terms = terms();
        terms.stood_still = vec![("a".to_owned(), at(100), at(1_500))];
        assert_eq!(found(&hangs, &terms), 0);
        terms.stood_still = vec![("b".to_owned(), at(100), at(1_500))];
        assert_eq!(found(&hangs, &terms), 1);
    }

    #[test]
    fn neither_does_letting_go_nor_becoming_another() {
        let mut scene = Scene::new();
        let it = scene.had("a", "w0", Way::Upgradable, 1, [0, 1], 90_000);
        scene.turns(it, Way::Write, [10, 11_000], 2, 90_000);
        scene.says(it, 11_010, |op| Deed::Leave { op, valid_until: at(90_000) });
        assert_eq!(found(&scene, &terms()), 1);
        scene.says(it, 14_000, |op| Deed::Left { op, confirmed: false, why: None });
        let (operations, _) = Operations::of(scene.events());
        let (terms, operation) = (terms(), &operations.all[0]);
        let phases = phases(&operations, operation, &terms, &terms.unrest(Property::Errors));
        let whole = |it: Phase| (it.what, it.end.saturating_duration_since(it.begin).as_millis());
        let seen: Vec<_> = phases.into_iter().map(whole).collect();
        assert_eq!(seen, [("asking", 1), ("converting", 10_990), ("letting go", 2_990)]);
    }
}
