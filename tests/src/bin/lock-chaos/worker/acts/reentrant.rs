//! A reentrant mutex, entered by owners of one task and by one that all clients know.

use std::sync::Arc;

use lock_core::Error;
use lock_sync::{Owner, ReentrantMutex};
use lock_tests::chaos::history::Way;

use super::ask;
use crate::worker::op::Subject;
use crate::worker::shelf::REENTRANT;
use crate::worker::task::{Patience, Task};

/// The number of the owner that is in several clients.
const SHARED: u64 = 0;

pub(super) async fn act(task: &mut Task) {
    let crew = Arc::clone(&task.crew);
    let (owner, number) = owner(task).unwrap_or_else(|error| panic!("there is no owner: {error}"));
    let subject = Subject { key: REENTRANT, way: Way::Owner(number) };
    if task.random.percent(50) {
        by_name(task, &crew.shelf.reentrant, owner, subject).await;
    } else {
        owner.scope(in_scope(task, &crew.shelf.reentrant, subject)).await;
    }
}

fn owner(task: &mut Task) -> Result<(Owner, u64), Error> {
    let shelf = &task.crew.shelf;
    if task.random.percent(30) && shelf.counting.is_some() {
        return Ok((shelf.locks.owner(&task.crew.shared_owner())?, SHARED));
    }
    Ok((Owner::new()?, task.crew.owner()))
}

/// Locks as an owner, and perhaps once more within that.
async fn by_name(task: &mut Task, mutex: &ReentrantMutex<()>, mut owner: Owner, subject: Subject) {
    let taken = ask!(
        task, &[subject],
        mutex.[lock_as, lock_as_timeout, try_lock_as](&mut owner)
    );
    let Some(mut outer) = taken else { return };
    if task.random.percent(40)
        && let Some(guard) = outer.guard()
    {
        let owner = guard.split().1;
        let entered = task.take(&[subject], Patience::Usual, mutex.lock_as(owner)).await;
        task.use_up(entered).await;
    }
    task.visit(&mut outer).await;
    task.part(outer).await;
}

/// Locks as the owner of this scope, perhaps twice, and releases in either order.
async fn in_scope(task: &mut Task, mutex: &ReentrantMutex<()>, subject: Subject) {
    let taken = ask!(task, &[subject], mutex.[lock, lock_timeout, try_lock]());
    let Some(mut first) = taken else { return };
    task.visit(&mut first).await;
    if task.random.percent(40)
        && let Some(mut second) = task.take(&[subject], Patience::None, mutex.try_lock()).await
    {
        if task.random.percent(50) {
            task.part(first).await;
            task.visit(&mut second).await;
            task.part(second).await;
        } else {
            task.part(second).await;
            task.visit(&mut first).await;
            task.part(first).await;
        }
        return;
    }
    task.part(first).await;
}
