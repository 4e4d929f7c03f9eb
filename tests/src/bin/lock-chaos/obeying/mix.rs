//! Holds one lock in several ways, and records each hold.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{Clock, Fixed, Instant};
use lock_sync::{
    Lease, LockError, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
    Semaphore, UpgradeError,
};

use super::work::{Failure, given_up};

/// The lock to hold, and the alternating ways.
pub(crate) enum Mix {
    /// The second lock is the first one, if its readers can become writers.
    Steps(RwLock<(), Fixed>, Option<RwLock<()>>, Vec<Step>),
    /// One permit, two, and so on, up to this many.
    Permits(Semaphore, u32),
}

#[derive(Clone, Copy)]
pub(crate) enum Step {
    Read,
    Write,
    /// Writes, then reads.
    Descend,
    /// Reads, then writes.
    Climb,
    /// Reads as an upgradable reader, then as a plain one.
    Look,
}

impl Step {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "read" => Self::Read,
            "write" => Self::Write,
            "descend" => Self::Descend,
            "climb" => Self::Climb,
            "look" => Self::Look,
            _ => return None,
        })
    }

    pub(crate) fn is_upgradable(self) -> bool {
        matches!(self, Self::Climb | Self::Look)
    }
}

impl Mix {
    /// Returns the number of turns with a record when it is over.
    pub(crate) async fn take_turns(
        &self,
        task: u32,
        file: &File,
        over: &AtomicBool,
    ) -> Result<u64, Failure> {
        let (mut turns, mut recorded) = (0, 0);
        while !over.load(Ordering::Relaxed) {
            let turn = Turn { file, task, number: turns, asked: now() };
            let way = u64::from(task) + turns;
            let mut is_recorded = true;
            match self {
                Self::Steps(lock, upgradable, steps) => {
                    let step = steps[(way % steps.len() as u64) as usize];
                    match upgradable {
                        Some(lock) if step.is_upgradable() => {
                            is_recorded = turn.climb(lock, step).await?;
                        }
                        _ => turn.step(lock, step).await?,
                    }
                }
                Self::Permits(semaphore, most) => {
                    turn.permits(semaphore, 1 + (way % u64::from(*most)) as u32).await?;
                }
            }
            turns += 1;
            recorded += u64::from(is_recorded);
        }
        Ok(recorded)
    }
}

/// One turn of one task. It records times in which the task certainly held the lock: until just before
/// the release, or until the end of the lease.
struct Turn<'a> {
    file: &'a File,
    task: u32,
    number: u64,
    asked: Instant,
}

impl Turn<'_> {
    async fn step(&self, lock: &RwLock<(), Fixed>, step: Step) -> Result<(), Failure> {
        match step {
            Step::Read => {
                let guard = lock.read().await?;
                let had = now();
                self.work().await;
                self.record("r", 1, &RwLockReadGuard::lease(&guard), had)?;
                given_up(RwLockReadGuard::release(guard).await)
            }
            Step::Write => {
                let guard = lock.write().await?;
                let had = now();
                self.work().await;
                self.record("w", 1, &RwLockWriteGuard::lease(&guard), had)?;
                given_up(RwLockWriteGuard::release(guard).await)
            }
            _ => {
                let guard = lock.write().await?;
                let had = now();
                self.work().await;
                self.record("w", 1, &RwLockWriteGuard::lease(&guard), had)?;
                let guard = guard.downgrade();
                self.work().await;
                // As a reader from the first instant, for no writer may write in between.
                self.record("r", 1, &RwLockReadGuard::lease(&guard), had)?;
                given_up(RwLockReadGuard::release(guard).await)
            }
        }
    }

    /// Returns whether there is a record.
    async fn climb(&self, lock: &RwLock<()>, step: Step) -> Result<bool, Failure> {
        let released = match step {
            Step::Climb => {
                let guard = lock.upgradable_read().await?;
                let had = now();
                self.work().await;
                let guard = match guard.upgrade().await.map_err(UpgradeError::into_error) {
                    // This process stood still, or the server forgot the lease.
                    Err(LockError::Lost(_)) => return Ok(false),
                    upgraded => upgraded?,
                };
                let wrote = now();
                self.work().await;
                self.record("w", 1, &RwLockWriteGuard::lease(&guard), wrote)?;
                self.record("u", 1, &RwLockWriteGuard::lease(&guard), had)?;
                RwLockWriteGuard::release(guard).await
            }
            _ => {
                let guard = lock.upgradable_read().await?;
                let had = now();
                self.work().await;
                self.record("u", 1, &RwLockUpgradableReadGuard::lease(&guard), had)?;
                let guard = guard.downgrade();
                self.work().await;
                self.record("r", 1, &RwLockReadGuard::lease(&guard), had)?;
                RwLockReadGuard::release(guard).await
            }
        };
        given_up(released).map(|()| true)
    }

    async fn permits(&self, semaphore: &Semaphore, count: u32) -> Result<(), Failure> {
        let mut permit = semaphore.acquire_many(count).await?;
        let had = now();
        self.work().await;
        // About half of the permits is released before the rest.
        let half = count / 2;
        if let Some(part) = (half > 0).then(|| permit.split(half as usize)).flatten() {
            self.record("p", half, &part.lease(), had)?;
            given_up(part.release().await)?;
            self.work().await;
        }
        self.record("p", count - half, &permit.lease(), had)?;
        given_up(permit.release().await)
    }

    /// So that other tasks hold the lock at the same time, on one thread and across processes.
    async fn work(&self) {
        if self.number.is_multiple_of(2) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        } else {
            tokio::task::yield_now().await;
        }
    }

    fn record(&self, how: &str, count: u32, lease: &Lease, had: Instant) -> std::io::Result<()> {
        let until = now().min(lease.valid_until()).as_nanos();
        let (pid, task, turn) = (std::process::id(), self.task, self.number);
        let (token, asked, had) =
            (lease.fencing_token().get(), self.asked.as_nanos(), had.as_nanos());
        let line = format!("{pid} {task} {turn} {how} {count} {token} {asked} {had} {until}\n");
        // One write to the end of the file, which several processes share.
        let mut file = self.file;
        file.write_all(line.as_bytes())
    }
}

fn now() -> Instant {
    Clock::boot().now()
}
