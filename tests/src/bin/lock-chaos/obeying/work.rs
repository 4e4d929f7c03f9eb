//! Takes one lock over and over, and records every turn.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{Clock, FencingToken, Instant};
use lock_sync::{Mutex, MutexGuard, ReleaseError};
use tokio::task::JoinSet;

use super::hold::failed;
use super::mix::Mix;
use crate::voice::say;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Some tasks that take turns until a command stops them.
pub(crate) struct Work {
    over: Arc<AtomicBool>,
}

/// The lock that they take.
pub(crate) enum Job {
    /// Exclusively, for this time at least, and each task writes its turn after the end of the previous one.
    Alone(Arc<Mutex<()>>, Duration),
    /// In several ways, and each task appends to the file.
    Mixed(Mix),
}

impl Work {
    pub(crate) fn begin(job: Job, key: &str, tasks: u32, file: &str) -> Self {
        let over = Arc::<AtomicBool>::default();
        tokio::spawn(run(job, key.to_owned(), tasks, file.to_owned(), Arc::clone(&over)));
        Self { over }
    }

    /// Each task rests after its next turn.
    pub(crate) fn rest(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

async fn run(job: Job, key: String, tasks: u32, path: String, over: Arc<AtomicBool>) {
    let append = matches!(job, Job::Mixed(_));
    let file = match OpenOptions::new().read(true).write(true).append(append).open(path) {
        Ok(file) => Arc::new(file),
        Err(error) => return say(failed(&key, &error)),
    };
    let job = Arc::new(job);
    let mut working = JoinSet::new();
    for task in 0..tasks {
        let (job, file, over) = (Arc::clone(&job), Arc::clone(&file), Arc::clone(&over));
        working.spawn(async move {
            match &*job {
                Job::Alone(mutex, hold) => take_turns(mutex, *hold, task, &file, &over).await,
                Job::Mixed(mix) => mix.take_turns(task, &file, &over).await,
            }
        });
    }
    let mut turns = 0;
    while let Some(ended) = working.join_next().await {
        match ended {
            Ok(Ok(taken)) => turns += taken,
            Ok(Err(error)) => return say(failed(&key, &*error)),
            Err(error) => return say(failed(&key, &error)),
        }
    }
    say(format_args!("worked {key} {turns}"));
}

/// The lock is released even if the store did not answer.
pub(crate) fn given_up(released: Result<(), ReleaseError>) -> Result<(), Failure> {
    match released {
        Ok(()) | Err(ReleaseError::Lost(_) | ReleaseError::Backend(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The number of turns until the task rests.
async fn take_turns(
    mutex: &Mutex<()>,
    hold: Duration,
    task: u32,
    file: &File,
    over: &AtomicBool,
) -> Result<u64, Failure> {
    let clock = Clock::boot();
    let mut turns = 0;
    while !over.load(Ordering::Relaxed) {
        let asked = clock.now();
        let guard = mutex.lock().await?;
        let had = clock.now();
        let record = record(task, MutexGuard::lease(&guard).fencing_token(), asked, had);
        // Blocks for some microseconds, in which this process would only wait. Writes after the last
        // complete record: a task that breaks exclusion may be in the middle of one.
        let end = file.metadata()?.len();
        let end = end - end % record.len() as u64;
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        if !hold.is_zero() {
            tokio::time::sleep(hold).await;
        }
        file.write_all_at(record.as_bytes(), end)?;
        turns += 1;
        given_up(MutexGuard::release(guard).await)?;
    }
    Ok(turns)
}

/// One line. All lines have one length, so the file contains only complete ones.
fn record(task: u32, token: FencingToken, asked: Instant, had: Instant) -> String {
    let (pid, asked, had) = (std::process::id(), asked.as_nanos(), had.as_nanos());
    format!("{pid:>10} {task:>10} {:>20} {asked:>20} {had:>20}\n", token.get())
}
