//! How long a quorum holds.

use lock_core::Instant;

/// Until when so many of these leases are certainly there, if there are as many.
///
/// Every node's deadline is dated from before its request was sent and comes before the node's own. At any
/// instant before the result, `needed` nodes hold.
pub(crate) fn until(
    deadlines: impl IntoIterator<Item = Instant>,
    needed: usize,
) -> Option<Instant> {
    let mut deadlines: Vec<_> = deadlines.into_iter().collect();
    deadlines.sort_unstable();
    deadlines.len().checked_sub(needed).and_then(|index| deadlines.get(index).copied())
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
            let Some(end) = until(deadlines.clone(), needed) else {
                prop_assert!(nanos.len() < needed);
                return Ok(());
            };
            let holding = |at: u64| nanos.iter().filter(|&&nanos| nanos > at).count();
            prop_assert!(end.as_nanos() == 0 || holding(end.as_nanos() - 1) >= needed);
            prop_assert!(holding(end.as_nanos()) < needed);
        }
    }
}
