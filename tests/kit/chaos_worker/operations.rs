//! The operations of the workers, as the history tells them.

use std::collections::{BTreeMap, BTreeSet};

use lock_tests::chaos::history::{Deed, Event, Op};

pub(super) fn verb(event: &Event) -> String {
    event.deed.to_string().split(' ').next().unwrap_or_default().to_owned()
}

/// One operation of one client, in its order.
pub(super) type Operations = BTreeMap<(String, Op), Vec<Event>>;

/// The events of each operation. Each operation begins once and ends once, unless the client's tasks were ended while
/// it was open. Each hold is in between.
#[track_caller]
pub(super) fn operations(events: &[Event]) -> Operations {
    let mut operations = Operations::new();
    let mut collapsed = BTreeSet::new();
    for event in events {
        if event.deed == Deed::Collapse {
            let open = operations.iter().filter(|((client, _), events)| {
                *client == event.client && !events.last().is_some_and(|last| ends(&last.deed))
            });
            collapsed.extend(open.map(|(key, _)| key.clone()));
        }
        if let Some(op) = op(&event.deed) {
            let key = (event.client.clone(), op);
            assert!(!collapsed.contains(&key), "{event:?} after the end of its task");
            operations.entry(key).or_default().push(event.clone());
        }
    }
    for (key, events) in &operations {
        let deeds: Vec<String> = events.iter().map(|event| event.deed.to_string()).collect();
        // Whether a value was stored may be known only after the hold.
        let is_told = |deed: &Deed| matches!(deed, Deed::Stored { .. } | Deed::Unstored { .. });
        let last = events.iter().rfind(|event| !is_told(&event.deed));
        let (first, last) = (&events[0].deed, &last.unwrap_or(&events[0]).deed);
        assert!(begins(first), "{key:?}: {deeds:?}");
        let ended = events.iter().filter(|event| ends(&event.deed)).count();
        if !collapsed.contains(key) {
            assert!(ended == 1 && ends(last), "{key:?}: {deeds:?}");
        }
        let count = |wanted: &str| events.iter().filter(|event| verb(event) == wanted).count();
        assert!(count("got") <= 1, "{key:?}: {deeds:?}");
        let left = count("left") == 1;
        assert!(!left || count("leave") == 1 && count("got") == 1, "{key:?}: {deeds:?}");
        assert!(count("turned") + count("kept") <= count("turn"), "{key:?}: {deeds:?}");
        assert!(events.is_sorted_by_key(|event| event.at), "{key:?}: {deeds:?}");
    }
    operations
}

fn begins(deed: &Deed) -> bool {
    use Deed::{Arrive, Ask, Follow, Look, Peek};

    let begins_a_hold = matches!(deed, Ask { .. });
    begins_a_hold || matches!(deed, Arrive { .. } | Look { .. } | Peek { .. } | Follow { .. })
}

fn ends(deed: &Deed) -> bool {
    use Deed::{Forgot, Left, Not, Pass, Peeked, Saw, Unfollow};

    let ends_a_hold = matches!(deed, Not { .. } | Left { .. } | Forgot { .. });
    ends_a_hold || matches!(deed, Pass { .. } | Saw { .. } | Peeked { .. } | Unfollow { .. })
}

fn op(deed: &Deed) -> Option<Op> {
    match deed {
        Deed::Ask { op, .. }
        | Deed::Got { op, .. }
        | Deed::Not { op, .. }
        | Deed::Turn { op, .. }
        | Deed::Turned { op, .. }
        | Deed::Kept { op, .. }
        | Deed::Still { op, .. }
        | Deed::Lost { op }
        | Deed::Leave { op, .. }
        | Deed::Left { op, .. }
        | Deed::Forgot { op }
        | Deed::Wrote { op, .. }
        | Deed::Arrive { op, .. }
        | Deed::Pass { op, .. }
        | Deed::Look { op, .. }
        | Deed::Make { op }
        | Deed::Made { op, .. }
        | Deed::Saw { op, .. }
        | Deed::Found { op, .. }
        | Deed::Store { op, .. }
        | Deed::Stored { op, .. }
        | Deed::Unstored { op, .. }
        | Deed::Peek { op, .. }
        | Deed::Peeked { op, .. }
        | Deed::Follow { op, .. }
        | Deed::Heard { op, .. }
        | Deed::Unfollow { op } => Some(*op),
        _ => None,
    }
}
