//! A mutex.

use std::sync::Arc;

use lock_sync::{MutexGuard, Reentry};
use lock_tests::chaos::history::Way;

use super::ask;
use crate::worker::op::{Holding, Subject};
use crate::worker::shelf::MUTEXES;
use crate::worker::task::{Patience, Task};

pub(super) async fn act(task: &mut Task) {
    let which = task.random.below(MUTEXES.len());
    let subject = Subject { key: MUTEXES[which], way: Way::Write };
    let mutex = Arc::clone(&task.crew.shelf.mutexes[which]);
    match task.random.below(20) {
        0 => {
            let taken = task.take_blocking(subject, move || mutex.blocking_lock_owned()).await;
            task.use_up_anywhere(taken).await;
        }
        1..=9 => {
            let taken = ask!(
                task, &[subject],
                mutex.[lock_owned, lock_owned_timeout, try_lock_owned]()
            );
            task.use_up_anywhere(taken).await;
        }
        _ => {
            let taken = ask!(task, &[subject], mutex.[lock, lock_timeout, try_lock]());
            if let Some(mut holding) = taken {
                task.visit(&mut holding).await;
                if task.random.percent(20) {
                    reenter(&mut holding);
                    task.visit(&mut holding).await;
                }
                task.part(holding).await;
            }
        }
    }
}

/// Enters once more, and once more within that.
///
/// # Panics
///
/// If that is not the lock that is held, with its token.
fn reenter(holding: &mut Holding<MutexGuard<'_, ()>>) {
    let Some(guard) = holding.guard() else { return };
    let token = MutexGuard::lease(guard).fencing_token();
    // A lost lease is not entered again.
    if let Ok(mut reentry) = guard.reenter()
        && let Ok(again) = reentry.reenter()
    {
        assert_eq!(
            Reentry::lease(&again).fencing_token(),
            token,
            "another token in {}",
            Reentry::lease(&again).key()
        );
    }
}
