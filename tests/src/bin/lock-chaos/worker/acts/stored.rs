//! A mutex whose value is stored beside it.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use lock_sync::StoredMutexGuard;
use lock_tests::chaos::history::{Refusal, Way};
use tokio::time::{Instant, sleep};

use super::ask;
use crate::worker::op::{Holding, Reading, Subject};
use crate::worker::pages::{Page, Pages};
use crate::worker::polls::Whim;
use crate::worker::refusal::Denial;
use crate::worker::shelf::STORED;
use crate::worker::task::{Patience, Task};

/// How long a stream is followed at most, beside three leases.
const FOLLOWS: Duration = Duration::from_secs(3);

/// How soon a stream is left when nothing new is to be started.
const LOOKS: Duration = Duration::from_millis(20);

pub(super) async fn act(task: &mut Task) {
    let mutex = Arc::clone(&task.crew.shelf.stored);
    let subject = Subject { key: STORED, way: Way::Write };
    let taken = match task.random.below(40) {
        0..=5 => {
            let whim = task.whim();
            return peek(task, whim).await;
        }
        6 => return follow(task).await,
        7 => task.take_blocking(subject, move || mutex.blocking_lock()).await,
        8..=10 => task.take(&[subject], Patience::Usual, mutex.lock_owned()).await,
        _ => ask!(task, &[subject], mutex.[lock, lock_timeout, try_lock]()),
    };
    if let Some(mut holding) = taken {
        holding.finds();
        task.visit(&mut holding).await;
        change(task, holding).await;
    }
}

/// Stores values, or none, and releases.
async fn change(task: &mut Task, mut holding: Holding<StoredMutexGuard<Page, Pages>>) {
    while task.random.percent(15) {
        let whim = task.whim();
        holding.save(task.crew.value(), whim).await;
        task.visit(&mut holding).await;
    }
    if task.random.percent(75) {
        let whim = task.whim();
        holding.commit(task.crew.value(), whim).await;
    } else {
        task.part_anywhere(holding).await;
    }
}

/// Reads the value once, without the lock.
pub(super) async fn peek(task: &Task, whim: Whim) {
    let crew = Arc::clone(&task.crew);
    let reading = Reading::peek(&crew.journal, task.number, STORED);
    match whim.bear(crew.shelf.stored.snapshot()).await {
        Some(Ok(snapshot)) => reading.peeked(&snapshot),
        Some(Err(error)) => reading.not(error.refusal()),
        None => drop(reading),
    }
}

/// Follows the value for a while.
async fn follow(task: &mut Task) {
    let crew = Arc::clone(&task.crew);
    let end = Instant::now() + task.some_time(FOLLOWS + 3 * crew.options.ttl);
    let reading = Reading::follow(&crew.journal, task.number, STORED);
    let mut versions = crew.shelf.stored.subscribe();
    while Instant::now() < end && !crew.is_over() {
        tokio::select! {
            told = versions.next() => match told {
                Some(Ok(snapshot)) => reading.heard(&snapshot),
                Some(Err(error)) => return reading.not(error.refusal()),
                None => return reading.not(Refusal::Closed),
            },
            () = sleep(LOOKS) => {}
        }
    }
    reading.unfollow();
}
