//! Several processes and one lock.

use std::time::Duration;

use lock_sync::MutexGuard;
use lock_tests::{Worker, WorkerBuilder, lock_worker, processes, soon};
use tokio::time::timeout;

use crate::support::{LATE, Part, locks, until_waiting, waits};

/// The lease of a process that is killed.
const SHORT: Duration = Duration::from_secs(4);

/// The lease of clients that live.
const LONG: Duration = Duration::from_secs(30);

fn options() -> WorkerBuilder {
    Worker::builder(lock_worker!())
}

#[test]
fn two_processes_lose_no_update() {
    let part = Part::new();
    let workers = [(); 2].map(|()| options().fair(true).spawn(&part.url()));
    processes::lose_no_update(workers.into());
}

#[test]
fn the_lock_of_a_killed_process_passes_on_after_its_lease() {
    processes::a_killed_holder(&options(), &Part::new().url());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_process_was_killed_is_passed_over() {
    let part = Part::new();
    let (here, there) = (locks(part.open(), LONG), locks(part.open(), LONG));
    let mutex = here.mutex("it", ()).unwrap();
    let guard = soon(mutex.lock()).await.unwrap();
    let victim = options().ttl(SHORT).spawn(&part.url());
    victim.send("lock it");
    until_waiting(&here, 1).await;
    let waiting = waits(&there);
    until_waiting(&here, 2).await;
    victim.kill();
    assert!(!waiting.is_finished(), "two holders");
    let token = MutexGuard::lease(&guard).fencing_token();
    MutexGuard::release(guard).await.unwrap();
    let (_, next) = timeout(SHORT + LATE, waiting).await.expect("it passes on").unwrap();
    assert!(next > token);
}
