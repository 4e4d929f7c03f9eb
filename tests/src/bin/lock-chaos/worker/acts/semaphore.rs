//! Counted permits.

use std::sync::Arc;

use lock_sync::Semaphore;
use lock_tests::chaos::history::Way;

use super::{ask, resize};
use crate::worker::op::{Holding, Permits, Subject};
use crate::worker::shelf::{RESIZED, SEMAPHORES};
use crate::worker::task::{Patience, Task};

/// The most permits in one request: never more than there are.
const MOST: u32 = 3;

pub(super) async fn act(task: &mut Task) {
    let Some(counting) = &task.crew.shelf.counting else { return };
    let which = task.random.below(SEMAPHORES.len());
    let semaphore = Arc::clone(&counting.semaphores[which]);
    if which == RESIZED && task.random.percent(4) {
        return resize::act(task, &semaphore).await;
    }
    let count = 1 + task.random.below(MOST as usize) as u32;
    let subject = subject(which, count);
    match task.random.below(20) {
        0 => {
            let blocking = Arc::clone(&semaphore);
            let ask = move || blocking.blocking_acquire_many_owned(count);
            let taken = task.take_blocking(subject, ask).await;
            task.use_up_anywhere(taken).await;
        }
        1..=9 => {
            let taken = ask!(
                task, &[subject],
                semaphore.[
                    acquire_many_owned,
                    acquire_many_owned_timeout,
                    try_acquire_many_owned
                ](count)
            );
            if let Some(holding) = taken {
                let holding = use_in_parts(task, holding, count).await;
                task.part_anywhere(holding).await;
            }
        }
        _ => borrow(task, which, &semaphore, count).await,
    }
}

/// Takes permits that borrow their semaphore.
async fn borrow(task: &mut Task, which: usize, semaphore: &Semaphore, count: u32) {
    let subject = subject(which, count);
    let taken = if count == 1 {
        ask!(task, &[subject], semaphore.[acquire, acquire_timeout, try_acquire]())
    } else {
        ask!(
            task, &[subject],
            semaphore.[acquire_many, acquire_many_timeout, try_acquire_many](count)
        )
    };
    let Some(mut holding) = taken else { return };
    if which == RESIZED && count == 1 && task.random.percent(10) {
        match resize::forget(task, holding).await {
            Some(permit) => holding = permit,
            None => return,
        }
    }
    let mut holding = use_in_parts(task, holding, count).await;
    if task.random.percent(15) {
        more(task, which, semaphore, &mut holding).await;
    }
    task.part(holding).await;
}

fn subject(which: usize, count: u32) -> Subject {
    Subject { key: SEMAPHORES[which].0, way: Way::Permits(count) }
}

/// Enters, and perhaps releases some of the permits and enters again.
async fn use_in_parts<P: Permits>(
    task: &mut Task,
    mut holding: Holding<P>,
    count: u32,
) -> Holding<P> {
    task.visit(&mut holding).await;
    if count > 1 && task.random.percent(20) {
        holding.shuffle();
    }
    if count > 1 && task.random.percent(30) {
        let given = 1 + task.random.below(count as usize - 1) as u32;
        let whim = task.whim();
        holding.give(given, count - given, whim).await;
        task.visit(&mut holding).await;
    }
    holding
}

/// Takes one more permit, if it is free, and holds all as one. A wait here could be a wait for the own
/// permits.
async fn more<'a>(
    task: &mut Task,
    which: usize,
    semaphore: &'a Semaphore,
    holding: &mut Holding<lock_sync::SemaphorePermit<'a>>,
) {
    let another = task.take(&[subject(which, 1)], Patience::None, semaphore.try_acquire()).await;
    if let Some(another) = another {
        holding.merge(another);
        task.visit(holding).await;
    }
}
