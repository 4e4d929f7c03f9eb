//! The findings of the resource.

use std::collections::HashMap;

use lock_core::FencingToken;

use super::operations::Operations;
use super::terms::Terms;
use super::{Property, Violation};
use crate::chaos::Deployment;
use crate::chaos::history::{Deed, Event, Way};
use crate::chaos::resource::{Guest, Meeting, Tally};

/// The meetings at the resource, and the writes that it refused although the guard was valid even after the
/// answer.
///
/// Over a quorum the members of one owner may differ in their tokens, so that one of them refuses another.
pub(super) fn check(
    operations: &Operations,
    events: &[Event],
    tally: &Tally,
    terms: &Terms,
) -> Vec<Violation> {
    let mut violations: Vec<Violation> = tally.meetings.iter().map(met).collect();
    let index: HashMap<_, _> =
        operations.all.iter().map(|it| ((operations.client(it), it.number), it)).collect();
    let differ = matches!(terms.deployment, Deployment::Quorum(_));
    // The owner that has written with the highest token.
    let mut highest = HashMap::<&str, (FencingToken, Option<u64>)>::new();
    for event in events {
        let Deed::Wrote { op, token, accepted, valid_until } = event.deed else { continue };
        let whose = index.get(&(event.client.as_str(), op));
        let key = whose.map_or("?", |operation| operations.key(operation));
        let owner = whose.and_then(|operation| match operation.way {
            Way::Owner(owner) => Some(owner),
            _ => None,
        });
        if accepted {
            let highest = highest.entry(key).or_insert((token, owner));
            *highest = if highest.0 <= token { (token, owner) } else { *highest };
            continue;
        }
        let by_itself = owner.is_some() && highest.get(key).is_some_and(|(_, it)| *it == owner);
        if event.at >= valid_until || differ && by_itself {
            continue;
        }
        let (at, until) = (event.at.as_nanos(), valid_until.as_nanos());
        let text = format!(
            "{} op {op} wrote with {}, which was refused at {at} although its guard was valid until {until}",
            event.client,
            token.get()
        );
        violations.push(Violation::new(Property::Resource, (event.at, event.at), key, text));
    }
    violations
}

fn met(meeting: &Meeting) -> Violation {
    let Meeting { at, key, here, comer } = meeting;
    let tell = |guest: &Guest| format!("{} with {}", guest.way, guest.token.get());
    let there: Vec<String> = here.iter().map(tell).collect();
    let text = format!("the resource saw {} meet {}", tell(comer), there.join(" and "));
    let counted = matches!(comer.way, Way::Permits(_));
    let property = if counted { Property::Permits } else { Property::Exclusion };
    Violation::new(property, (*at, *at), key, text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scene::{Scene, at};
    use super::*;

    fn writes(accepted: bool, valid: u64) -> Scene {
        let mut scene = Scene::new();
        let it = scene.had("a", "m0", Way::Write, 7, [0, 1], 100);
        let (token, valid_until) = (FencingToken::new(7), at(valid));
        scene.says(it, 50, |op| Deed::Wrote { op, token, accepted, valid_until });
        scene.leaves(it, 60, valid);
        scene
    }

    fn found(scene: &Scene, tally: &Tally) -> Vec<(Property, String)> {
        let (operations, odd) = Operations::of(scene.events());
        assert_eq!(odd, []);
        let of = |violation: Violation| (violation.property, violation.key);
        let terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        check(&operations, scene.events(), tally, &terms).into_iter().map(of).collect()
    }

    #[test]
    fn over_a_quorum_an_owner_may_refuse_itself_and_no_other_owner() {
        let scene = |first, second| {
            let mut scene = Scene::new();
            for (client, way, number, accepted) in [("a", first, 9, true), ("b", second, 7, false)]
            {
                let it = scene.had(client, "o0", way, number, [0, 1], 100);
                let (token, valid_until) = (FencingToken::new(number), at(100));
                let when = 50 - number;
                let wrote = |op| Deed::Wrote { op, token, accepted, valid_until };
                scene.says(it, if accepted { when } else { 60 }, wrote);
            }
            scene
        };
        let found = |deployment, scene: &Scene| {
            let terms = Terms::new(deployment, Duration::from_secs(1));
            let operations = Operations::of(scene.events()).0;
            check(&operations, scene.events(), &Tally::default(), &terms).len()
        };
        let (quorum, owner) = (Deployment::Quorum(3), Way::Owner);
        assert_eq!(found(quorum, &scene(owner(1), owner(1))), 0);
        assert_eq!(found(quorum, &scene(owner(2), owner(1))), 1);
        assert_eq!(found(quorum, &scene(Way::Write, owner(1))), 1);
        assert_eq!(found(Deployment::Redis, &scene(owner(1), owner(1))), 1);
    }

    #[test]
    fn a_write_is_refused_only_when_the_lease_is_over() {
        let tally = Tally::default();
        assert_eq!(found(&writes(true, 100), &tally), []);
        assert_eq!(found(&writes(false, 40), &tally), []);
        assert_eq!(found(&writes(false, 100), &tally), [(Property::Resource, "m0".to_owned())]);
    }

    #[test]
    fn a_meeting_at_the_resource_counts_without_any_events() {
        let (token, valid_until) = (FencingToken::new(1), at(90));
        let meeting = |key: &str, way, of| {
            let guest = Guest { way, of, token, valid_until };
            Meeting { at: at(5), key: key.to_owned(), here: vec![guest], comer: guest }
        };
        let meetings =
            vec![meeting("m1", Way::Write, None), meeting("s0", Way::Permits(2), Some(3))];
        let tally = Tally { meetings, ..Tally::default() };
        let (met, crowded) = (Property::Exclusion, Property::Permits);
        let seen = found(&Scene::new(), &tally);
        assert_eq!(seen, [(met, "m1".to_owned()), (crowded, "s0".to_owned())]);
    }
}
