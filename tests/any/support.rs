//! What the tests of all stores do with two clients.

use lock_any::doctor::{Report, Severity};
use lock_any::lock_sync::{Locks, MutexGuard, TryLockError};
use lock_tests::soon;

/// Two clients of one store.
pub(crate) async fn clients(url: &str) -> [Locks; 2] {
    [lock_any::connect(url).await.unwrap(), lock_any::connect(url).await.unwrap()]
}

/// One client holds the lock, and the other one waits for it. Afterwards the lock is free.
pub(crate) async fn exclude_each_other([one, other]: &[Locks; 2]) {
    let (here, there) = (one.mutex("it", ()).unwrap(), other.mutex("it", ()).unwrap());
    let guard = soon(here.lock()).await.unwrap();
    assert!(matches!(there.try_lock().await, Err(TryLockError::WouldBlock)));
    let waiting = tokio::spawn(async move {
        let guard = there.lock().await.unwrap();
        MutexGuard::release(guard).await.unwrap();
    });
    drop(guard);
    soon(waiting).await.unwrap();
}

/// One client has the only permit, and the other one gets it afterwards.
async fn count_permits([one, other]: &[Locks; 2]) {
    let (here, there) =
        (one.semaphore("permits", 1).unwrap(), other.semaphore("permits", 1).unwrap());
    let permit = soon(here.acquire()).await.unwrap();
    assert!(there.try_acquire().await.is_err());
    drop(permit);
    drop(soon(there.acquire()).await.unwrap());
}

/// The clients serve mutexes, semaphores and reader-writer locks.
pub(crate) async fn serve_all_kinds(clients: &[Locks; 2]) {
    exclude_each_other(clients).await;
    count_permits(clients).await;
    share(clients).await;
}

/// A client reads under a reader-writer lock.
pub(crate) async fn share([locks, _]: &[Locks; 2]) {
    drop(soon(locks.rwlock("shared", ()).unwrap().read()).await.unwrap());
    assert_eq!(locks.inspect("shared").await.unwrap().waiting, 0);
}

/// Each finding's severity and code.
pub(crate) fn codes(report: &Report) -> Vec<(Severity, &'static str)> {
    report.findings.iter().map(|finding| (finding.severity, finding.code)).collect()
}
