//! Tokens of a hold that is converted. [Exclusion](super::exclusion) checks whether another task got in
//! between.

use super::operations::{Operations, Span};
use super::{Property, Violation};
use crate::chaos::history::Way;

/// An upgrade brings a higher token, and a weaker way keeps its token. Permits are not checked: they may have
/// several tokens, and the remaining ones show the lowest.
pub(super) fn check(operations: &Operations) -> Vec<Violation> {
    let mut violations = Vec::new();
    for operation in &operations.all {
        let became =
            operation.spans.windows(3).filter_map(|spans| wrong(&spans[0], &spans[1], &spans[2]));
        for (after, what) in became {
            let times = (after.from, after.from);
            let text = format!("{what}: {}", operations.name(operation));
            let key = operations.key(operation);
            violations.push(Violation::new(Property::Conversions, times, key, text));
        }
    }
    violations
}

fn wrong<'a>(before: &Span, turning: &Span, after: &'a Span) -> Option<(&'a Span, &'static str)> {
    let what = match (before.way, turning.becomes?.0, after.way) {
        (_, to, after) if to != after => return None,
        (Way::Permits(_), ..) => return None,
        (Way::Read | Way::Upgradable, Way::Write, _) => {
            (after.token <= before.token).then_some("an upgrade brought no higher token")
        }
        _ => (after.token != before.token).then_some("a weaker way has another token"),
    };
    what.map(|what| (after, what))
}

#[cfg(test)]
mod tests {
    use super::super::scene::Scene;
    use super::*;
    use crate::chaos::history::{Deed, Refusal};

    fn found(from: Way, to: Way, token: u64) -> usize {
        let mut scene = Scene::new();
        let it = scene.had("a", "it", from, 5, [0, 1], 900);
        scene.turns(it, to, [10, 20], token, 900);
        scene.leaves(it, 30, 900);
        check(&Operations::of(scene.events()).0).len()
    }

    #[test]
    fn an_upgrade_has_a_higher_token() {
        let found = |token| found(Way::Upgradable, Way::Write, token);
        assert_eq!([found(4), found(5), found(6)], [1, 1, 0]);
    }

    #[test]
    fn a_downgrade_keeps_its_token() {
        assert_eq!([4, 5, 6].map(|token| found(Way::Write, Way::Read, token)), [1, 0, 1]);
        assert_eq!(found(Way::Upgradable, Way::Read, 6), 1);
        assert_eq!(found(Way::Permits(3), Way::Permits(1), 6), 0);
    }

    #[test]
    fn one_that_came_to_nothing_is_no_conversion() {
        let mut scene = Scene::new();
        let it = scene.had("a", "it", Way::Upgradable, 5, [0, 1], 900);
        scene.turn(it, Way::Write, 10, 900);
        scene.says(it, 20, |op| Deed::Kept { op, why: Refusal::Busy });
        scene.leaves(it, 30, 900);
        assert_eq!(check(&Operations::of(scene.events()).0), []);
    }
}
