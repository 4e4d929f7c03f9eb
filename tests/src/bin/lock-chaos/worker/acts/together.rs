//! Several mutexes at once.

use std::sync::Arc;

use lock_tests::chaos::history::Way;

use super::ask;
use crate::worker::op::Subject;
use crate::worker::shelf::MUTEXES;
use crate::worker::task::{Patience, Task};

pub(super) async fn act(task: &mut Task) {
    let subjects = MUTEXES.map(|key| Subject { key, way: Way::Write });
    let mut names = MUTEXES;
    // In any order: no circle of waiters can arise.
    if task.random.percent(50) {
        names.reverse();
    }
    let crew = Arc::clone(&task.crew);
    let locks = &crew.shelf.locks;
    let taken = ask!(task, &subjects, locks.[lock_all, lock_all_timeout, try_lock_all](names));
    task.use_up_anywhere(taken).await;
}
