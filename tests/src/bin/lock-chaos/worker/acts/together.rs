//! Several mutexes at once.

use std::sync::Arc;

use lock_tests::chaos::history::Way;

use crate::worker::op::Subject;
use crate::worker::shelf::MUTEXES;
use crate::worker::task::{Patience, Task};

pub(super) async fn act(task: &mut Task) {
    let subjects = MUTEXES.map(|key| Subject { key, way: Way::Write });
    let mut names = MUTEXES;
    // In whatever order: nobody waits for one another in a circle.
    if task.random.percent(50) {
        names.reverse();
    }
    let crew = Arc::clone(&task.crew);
    let locks = &crew.shelf.locks;
    let patience = task.patience();
    let tries = patience.tries();
    let taken = match patience {
        Patience::Usual => task.take(&subjects, tries, locks.lock_all(names)).await,
        Patience::Within(limit) => {
            task.take(&subjects, tries, locks.lock_all_timeout(names, limit)).await
        }
        Patience::None => task.take(&subjects, tries, locks.try_lock_all(names)).await,
    };
    if let Some(mut holding) = taken {
        task.visit(&mut holding).await;
        task.part_anywhere(holding).await;
    }
}
