//! What the resource has seen.

use std::collections::HashMap;

use super::operations::Operations;
use super::{Property, Violation};
use crate::chaos::history::{Deed, Event, Way};
use crate::chaos::resource::{Guest, Meeting, Tally};

/// Who met at the resource, and which writes it refused although the guard was valid even after the answer.
pub(super) fn check(operations: &Operations, events: &[Event], tally: &Tally) -> Vec<Violation> {
    let mut violations: Vec<Violation> = tally.meetings.iter().map(met).collect();
    let refused = events.iter().filter_map(|event| match event.deed {
        Deed::Wrote { op, token, accepted: false, valid_until } if event.at < valid_until => {
            Some((event, op, token, valid_until))
        }
        _ => None,
    });
    let index: HashMap<_, _> =
        operations.all.iter().map(|it| ((operations.client(it), it.number), it)).collect();
    for (event, op, token, valid_until) in refused {
        let whose = index.get(&(event.client.as_str(), op));
        let key = whose.map_or("?", |operation| operations.key(operation));
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
    use lock_core::FencingToken;

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
        check(&operations, scene.events(), tally).into_iter().map(of).collect()
    }

    #[test]
    fn a_write_is_refused_only_when_the_lease_is_over() {
        let tally = Tally::default();
        assert_eq!(found(&writes(true, 100), &tally), []);
        assert_eq!(found(&writes(false, 40), &tally), []);
        assert_eq!(found(&writes(false, 100), &tally), [(Property::Resource, "m0".to_owned())]);
    }

    #[test]
    fn whom_the_resource_saw_together_counts_without_any_events() {
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
