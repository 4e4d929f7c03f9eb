//! How long a majority has a lease.

use lock_core::Instant;

use crate::quorum::NodeSet;

/// Until when `needed` of these leases certainly live, and the nodes whose leases live at least that long. `None` if
/// there are fewer leases.
///
/// The deadline of each lease counts from before its request was sent, so it comes before the deadline at the node. At
/// every instant before the result, `needed` nodes have the lease.
pub(crate) fn until(deadlines: &[(usize, Instant)], needed: usize) -> Option<(Instant, NodeSet)> {
    let mut ends: Vec<_> = deadlines.iter().map(|&(_, end)| end).collect();
    ends.sort_unstable();
    let until = ends.len().checked_sub(needed).and_then(|index| ends.get(index).copied())?;
    let last = deadlines.iter().filter(|&&(_, end)| end >= until);
    Some((until, last.map(|&(node, _)| node).collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn before_it_ends_a_quorum_holds(
            nanos in prop::collection::vec(0..100u64, 1..=9),
            needed in 1..=9usize,
        ) {
            let deadlines = nanos.iter().copied().map(Instant::from_nanos);
            let deadlines: Vec<_> = deadlines.enumerate().collect();
            let Some((end, nodes)) = until(&deadlines, needed) else {
                prop_assert!(nanos.len() < needed);
                return Ok(());
            };
            prop_assert!(nodes.len() >= needed);
            prop_assert!(nodes.iter().all(|node| nanos[node] >= end.as_nanos()));
            let holding = |at: u64| nanos.iter().filter(|&&nanos| nanos > at).count();
            prop_assert!(end.as_nanos() == 0 || holding(end.as_nanos() - 1) >= needed);
            prop_assert!(holding(end.as_nanos()) < needed);
        }
    }
}
