//! Two clients that contend.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lock_any::lock_sync::{LockError, Locks, MutexGuard, ReleaseError, TryLockError};
use lock_core::observer::Observer;
use lock_core::{Error, ErrorKind, Key};
use lock_examples::AnyError;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

/// Short, so that renewals are seen soon.
const TTL: Duration = Duration::from_secs(1);
/// How many tasks of each client want the lock that all want.
const TASKS: usize = 4;
/// How long a piece of work takes.
const WORK: Duration = Duration::from_millis(2);

/// The tasks of both clients.
pub(crate) struct Load {
    clients: Vec<Locks>,
    tasks: JoinSet<Result<(), AnyError>>,
}

/// The class of a lock for the metrics. The names of this example are `examples/metrics/RUN/CLASS/NUMBER`.
pub(crate) fn class(key: &Key) -> Cow<'_, str> {
    match key.as_bytes().split(|byte| *byte == b'/').nth(3).map(str::from_utf8) {
        Some(Ok(class)) => Cow::Borrowed(class),
        _ => Cow::Borrowed("unknown"),
    }
}

impl Load {
    pub(crate) async fn begin(
        url: &str,
        prefix: &str,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, AnyError> {
        let (mut clients, mut tasks) = (Vec::new(), JoinSet::new());
        for _ in 0..2 {
            let store = lock_any::open_observed(url, Arc::clone(&observer)).await?;
            let locks = Locks::builder(store)
                .ttl(TTL)
                .prefix(format!("{prefix}/"))
                .observer(Arc::clone(&observer))
                .build()?;
            for _ in 0..TASKS {
                tasks.spawn(work(locks.clone()));
            }
            tasks.spawn(only_try(locks.clone()));
            tasks.spawn(hold_for_long(locks.clone()));
            tasks.spawn(read_and_write(locks.clone()));
            tasks.spawn(hold_for_too_long(locks.clone()));
            clients.push(locks);
        }
        Ok(Self { clients, tasks })
    }

    /// Ends the tasks where they stand, and gives every lock back.
    pub(crate) async fn end(mut self) -> Result<(), AnyError> {
        let failed =
            self.tasks.try_join_next().map(|task| task.map_err(AnyError::from)?).transpose();
        self.tasks.shutdown().await;
        for locks in self.clients {
            locks.shutdown().await;
        }
        failed.map(drop)
    }
}

/// All tasks want one lock. They hold it for a short time, and wait in line.
async fn work(locks: Locks) -> Result<(), AnyError> {
    let hot = locks.mutex("hot/1", ())?;
    loop {
        let guard = hot.lock().await?;
        sleep(WORK).await;
        drop(guard);
        sleep(WORK).await;
    }
}

/// Tries without waiting, and waits for a short time only.
async fn only_try(locks: Locks) -> Result<(), AnyError> {
    let hot = locks.mutex("hot/1", ())?;
    let mut clock = interval(10 * WORK);
    loop {
        clock.tick().await;
        match hot.try_lock().await {
            Ok(guard) => drop(guard),
            Err(TryLockError::WouldBlock) => {}
            Err(error) => return Err(error.into()),
        }
        match hot.lock_timeout(WORK).await {
            Ok(guard) => drop(guard),
            Err(LockError::Timeout { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        // The caller does not want the lock any more.
        let _ = timeout(WORK, hot.lock()).await;
    }
}

/// Holds a lock for longer than its ttl, so that the driver renews the lease.
async fn hold_for_long(locks: Locks) -> Result<(), AnyError> {
    let report = locks.mutex("reports/daily", ())?;
    loop {
        let guard = report.lock().await?;
        sleep(TTL).await;
        match MutexGuard::release(guard).await {
            // A renewal that comes too late is a loss, which the metrics show.
            Ok(()) | Err(ReleaseError::Lost(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Readers beside one another, and now and then a writer.
async fn read_and_write(locks: Locks) -> Result<(), AnyError> {
    let menu = locks.rwlock("menus/today", ())?;
    loop {
        for _ in 0..5 {
            match menu.read().await {
                Ok(guard) => drop(guard),
                Err(LockError::Backend(error)) if is_unsupported(&error) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            sleep(5 * WORK).await;
        }
        drop(menu.write().await?);
    }
}

/// Holds a lock for longer than it may, and so loses it.
async fn hold_for_too_long(locks: Locks) -> Result<(), AnyError> {
    let slow = locks.mutex("slow/1", ())?.with_max_hold(TTL / 4)?;
    loop {
        let guard = slow.lock().await?;
        MutexGuard::lease(&guard).lost().await;
        drop(guard);
    }
}

fn is_unsupported(error: &Error) -> bool {
    error.kind() == ErrorKind::Unsupported
}
