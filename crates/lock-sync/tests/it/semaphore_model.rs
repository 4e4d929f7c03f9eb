//! Any order of acquiring, splitting, merging and releasing, compared with a model that counts.

use std::sync::Arc;

use lock_sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
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

/// Two handles of one semaphore, and what their holders have.
struct Model {
    here: Arc<Semaphore>,
    there: Arc<Semaphore>,
    held: Vec<Paper>,
    limit: usize,
}

async fn follow(steps: Vec<Step>) {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(PERMITS);
    let (here, there) = (Arc::new(here), Arc::new(there));
    let mut model = Model { here, there, held: Vec::new(), limit: PERMITS };
    for step in steps {
        model.take(step).await;
        for paper in &model.held {
            assert_eq!(paper.permit.num_permits(), paper.count);
            assert!(paper.permit.lease().is_valid());
        }
        // The releases of dropped and forgotten permits may still be under way.
        becomes_available(&model.there, model.free()).await;
    }
    model.held.clear();
    becomes_available(&model.here, model.limit).await;
    pair.all_released().await;
}

impl Model {
    async fn take(&mut self, step: Step) {
        match step {
            Step::Acquire { here, count } => self.acquire(here, count).await,
            Step::Split { which, count } => self.split(which, count),
            Step::Merge { which, other } => self.merge(which, other),
            Step::Release { which } => {
                if let Some(paper) = take(&mut self.held, which) {
                    paper.permit.release().await.unwrap();
                }
            }
            Step::Drop { which } => drop(take(&mut self.held, which)),
            Step::Forget { which } => {
                if let Some(paper) = take(&mut self.held, which) {
                    self.limit -= paper.count;
                    paper.permit.forget();
                }
            }
            Step::Add { count } => {
                self.there.add_permits(count).await.unwrap();
                self.limit += count;
            }
            Step::Remove { count } => {
                becomes_available(&self.here, self.free()).await;
                self.limit -= self.here.forget_permits(count).await.unwrap();
            }
        }
    }

    fn free(&self) -> usize {
        self.limit - sum(&self.held)
    }

    async fn acquire(&mut self, here: bool, count: u32) {
        let free = self.free();
        let semaphore = Arc::clone(if here { &self.here } else { &self.there });
        match semaphore.try_acquire_many_owned(count).await {
            Ok(permit) => {
                assert!(count as usize <= free, "{count} of {free}");
                assert_eq!(permit.num_permits(), count as usize);
                self.held.push(Paper { permit, count: count as usize });
            }
            Err(TryAcquireError::NoPermits) => {
                assert!(count as usize > free, "{count} of {free}");
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    fn split(&mut self, which: usize, count: usize) {
        let Some(paper) = pick(&mut self.held, which) else { return };
        match paper.permit.split(count) {
            Some(permit) => {
                paper.count -= count;
                self.held.push(Paper { permit, count });
            }
            None => assert!(count > paper.count),
        }
    }

    /// Permits of one handle become one. Those of two handles stay apart.
    fn merge(&mut self, which: usize, other: usize) {
        if self.held.len() < 2 {
            return;
        }
        let taken = self.held.swap_remove(other % self.held.len());
        let Some(paper) = pick(&mut self.held, which) else { return };
        if Arc::ptr_eq(paper.permit.semaphore(), taken.permit.semaphore()) {
            paper.permit.merge(taken.permit);
            paper.count += taken.count;
        } else {
            self.held.push(taken);
        }
    }
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
