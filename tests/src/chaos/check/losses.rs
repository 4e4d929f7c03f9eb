//! Leases are lost for a reason.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::Instant;

use super::operations::{Operation, Operations};
use super::terms::Terms;
use super::{Property, Violation};
use crate::chaos::history::{Deed, Event};
use crate::chaos::table::loses_votes;

/// Whether a lease that was requested then, and granted by this time, may be lost for the reason that nodes of a quorum
/// forgot it. It has the votes of a bare majority at first, and those of all nodes soon after that.
pub(super) fn forgets_young_lease(terms: &Terms, asked: Instant, granted: Instant) -> bool {
    /// When the other nodes are asked for their votes.
    const YOUNG: Duration = Duration::from_millis(50);

    terms.deployment.minority() > 0
        && terms.troubles.iter().any(|trouble| {
            loses_votes(trouble.fault)
                && asked <= trouble.end
                && trouble.begin <= granted + YOUNG + terms.slack
        })
}

/// Leases that were lost without a cause.
pub(super) fn lost_for_nothing(
    operations: &Operations,
    events: &[Event],
    terms: &Terms,
    troubled: &dyn Fn(&Event) -> bool,
) -> Vec<Violation> {
    let lost = events.iter().filter_map(|event| match event.deed {
        Deed::Lost { op } if !troubled(event) => Some((event, op)),
        _ => None,
    });
    let index: HashMap<_, _> =
        operations.all.iter().map(|it| ((operations.client(it), it.number), it)).collect();
    let lost = lost.map(|(event, op)| (event, op, index.get(&(event.client.as_str(), op))));
    let is_forgotten = |whose: Option<&&Operation>| {
        whose.is_some_and(|operation| {
            let (asked, granted) = operation.lease();
            forgets_young_lease(terms, asked, granted)
        })
    };
    lost.filter(|(.., whose)| !is_forgotten(*whose))
        .map(|(event, op, whose)| {
            let key = whose.map_or("?", |operation| operations.key(operation));
            let at = event.at;
            let text = format!(
                "{} op {op} lost its lease at {} for no reason",
                event.client,
                at.as_nanos()
            );
            Violation::new(Property::Errors, (at, at), key, text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Trouble;
    use super::super::scene::{Scene, at};
    use super::*;
    use crate::chaos::history::Way;
    use crate::chaos::{Deployment, Extent, Fault};

    #[test]
    fn a_young_lease_over_a_quorum_may_be_lost_when_a_minority_forgets_it() {
        let lost = |at: u64, forgets: [u64; 2]| {
            let mut scene = Scene::new();
            let it = scene.had("a", "m0", Way::Write, 1, [0, 1], 20_000);
            scene.says(it, at, |op| Deed::Lost { op });
            scene.leaves(it, at + 10, at + 10);
            let terms = |deployment, fault| {
                let mut terms = Terms::new(deployment, Duration::from_secs(1));
                let [begin, end] = forgets.map(self::at);
                let (extent, servers) = (Extent::Minority, vec![0, 1]);
                terms.troubles =
                    vec![Trouble { fault, extent, servers, workers: vec![], begin, end }];
                terms
            };
            let (operations, odd) = Operations::of(scene.events());
            assert_eq!(odd, []);
            [Fault::Flush, Fault::Evict, Fault::KillKept].map(|fault| {
                let terms = terms(Deployment::Quorum(5), fault);
                lost_for_nothing(&operations, scene.events(), &terms, &|_| false).len()
            })
        };
        assert_eq!(lost(60, [20, 30]), [0, 0, 1]);
        assert_eq!(lost(2_060, [2_020, 2_030]), [1, 1, 1], "the other nodes have voted long ago");
    }
}
