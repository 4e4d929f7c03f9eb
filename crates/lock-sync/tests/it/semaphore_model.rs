//! Any order of acquiring, splitting, merging and releasing, compared with a model that counts.

use std::sync::Arc;

use lock_sync::{OwnedSemaphorePermit, TryAcquireError};
use proptest::prelude::*;

use crate::semaphore::becomes_available;
use crate::support::Pair;

const PERMITS: usize = 7;

/// One step. The numbers choose among the present permits.
#[derive(Clone, Debug)]
enum Step {
    Acquire { here: bool, count: u32 },
    Split { which: usize, count: usize },
    Merge { which: usize, other: usize },
    Release { which: usize },
    Drop { which: usize },
    Forget { which: usize },
    Add { count: usize },
    Remove { count: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (any::<bool>(), 0..5_u32).prop_map(|(here, count)| Step::Acquire { here, count }),
        4 => (0..8_usize, 0..5_usize).prop_map(|(which, count)| Step::Split { which, count }),
        3 => (0..8_usize, 0..8_usize).prop_map(|(which, other)| Step::Merge { which, other }),
        2 => (0..8_usize).prop_map(|which| Step::Release { which }),
        2 => (0..8_usize).prop_map(|which| Step::Drop { which }),
        1 => (0..8_usize).prop_map(|which| Step::Forget { which }),
        1 => (1..4_usize).prop_map(|count| Step::Add { count }),
        1 => (1..4_usize).prop_map(|count| Step::Remove { count }),
    ]
}

/// A permit, and its count in the model.
struct Paper {
    permit: OwnedSemaphorePermit,
    count: usize,
}

async fn follow(steps: Vec<Step>) {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(PERMITS);
    let (here, there) = (Arc::new(here), Arc::new(there));
    let mut held: Vec<Paper> = Vec::new();
    let mut limit = PERMITS;
    for step in steps {
        match step {
            Step::Acquire { here: side, count } => {
                let free = limit - sum(&held);
                let semaphore = Arc::clone(if side { &here } else { &there });
                match semaphore.try_acquire_many_owned(count).await {
                    Ok(permit) => {
                        assert!(count as usize <= free, "{count} of {free}");
                        assert_eq!(permit.num_permits(), count as usize);
                        held.push(Paper { permit, count: count as usize });
                    }
                    Err(TryAcquireError::NoPermits) => {
                        assert!(count as usize > free, "{count} of {free}");
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
            Step::Split { which, count } => {
                let Some(paper) = pick(&mut held, which) else { continue };
                match paper.permit.split(count) {
                    Some(permit) => {
                        paper.count -= count;
                        held.push(Paper { permit, count });
                    }
                    None => assert!(count > paper.count),
                }
            }
            Step::Merge { which, other } => {
                if held.len() < 2 {
                    continue;
                }
                let taken = held.swap_remove(other % held.len());
                let Some(paper) = pick(&mut held, which) else { continue };
                if Arc::ptr_eq(paper.permit.semaphore(), taken.permit.semaphore()) {
                    paper.permit.merge(taken.permit);
                    paper.count += taken.count;
                } else {
                    held.push(taken);
                }
            }
            Step::Release { which } => {
                if let Some(paper) = take(&mut held, which) {
                    paper.permit.release().await.unwrap();
                }
            }
            Step::Drop { which } => drop(take(&mut held, which)),
            Step::Forget { which } => {
                if let Some(paper) = take(&mut held, which) {
                    limit -= paper.count;
                    paper.permit.forget();
                }
            }
            Step::Add { count } => {
                there.add_permits(count).await.unwrap();
                limit += count;
            }
            Step::Remove { count } => {
                becomes_available(&here, limit - sum(&held)).await;
                limit -= here.forget_permits(count).await.unwrap();
            }
        }
        for paper in &held {
            assert_eq!(paper.permit.num_permits(), paper.count);
            assert!(paper.permit.is_valid());
        }
        // The releases of dropped and forgotten permits may still be under way.
        becomes_available(&there, limit - sum(&held)).await;
    }
    let expected = limit;
    drop(held);
    becomes_available(&here, expected).await;
    pair.all_released().await;
}

fn sum(held: &[Paper]) -> usize {
    held.iter().map(|paper| paper.count).sum()
}

fn pick(held: &mut [Paper], which: usize) -> Option<&mut Paper> {
    let len = held.len();
    held.get_mut(which.checked_rem(len)?)
}

fn take(held: &mut Vec<Paper>, which: usize) -> Option<Paper> {
    let len = held.len();
    Some(held.swap_remove(which.checked_rem(len)?))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_counts_as_on_paper(steps in proptest::collection::vec(step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(follow(steps));
    }
}
