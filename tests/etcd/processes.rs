//! Several processes and one lock.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lock_etcd::EtcdBackend;
use lock_sync::{Locks, MutexGuard};
use lock_tests::{OtherProcess, SOON, eventually_async};

use crate::support::{LATE, Part, builder, locks};

const TURNS: u32 = 40;

/// The lease of a process that dies.
const SHORT: Duration = Duration::from_secs(4);

/// Starts the other process. Its part is a word, the URL, the prefix and a file.
fn start(role: &str, part: &Part, file: &Path) -> OtherProcess {
    let part = format!("{role} {} {} {}", part.server.url(), part.prefix, file.display());
    OtherProcess::start("processes::the_other_process", &part)
}

/// Adds one to a number that all share, again and again, in two steps that only the lock keeps together. Most turns
/// wait for another client.
async fn count_up(locks: Locks<EtcdBackend>, file: PathBuf) {
    let mutex = locks.mutex("it", ()).unwrap();
    for _ in 0..TURNS {
        let guard = mutex.lock().await.unwrap();
        let number: u32 = std::fs::read_to_string(&file).unwrap().parse().unwrap();
        tokio::task::yield_now().await;
        std::fs::write(&file, (number + 1).to_string()).unwrap();
        MutexGuard::release(guard).await.unwrap();
    }
    locks.shutdown().await;
}

fn a_file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_lose_no_update() {
    let (part, file) = (Part::new(), a_file("0"));
    let other = start("count", &part, file.path());
    let clients = [(); 2].map(|()| locks(part.open(), Duration::from_secs(30)));
    let [one, two] = clients.map(|it| tokio::spawn(count_up(it, file.path().to_owned())));
    let (one, two) = tokio::join!(one, two);
    one.unwrap();
    two.unwrap();
    let status = tokio::task::spawn_blocking(|| other.end()).await.unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), (3 * TURNS).to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_a_killed_process_passes_on() {
    let (part, file) = (Part::new(), a_file(""));
    let mut other = start("hold", &part, file.path());
    other.until_it_says("holds");
    let here = locks(part.open(), Duration::from_secs(30));
    let mutex = here.mutex("it", ()).unwrap();
    let mut waiting = Box::pin(mutex.lock());
    // It renews its lease, so the lock stays its own for longer than one lease. The store ends a lease a moment late.
    let early = tokio::time::timeout(SHORT + Duration::from_secs(3), &mut waiting).await;
    assert!(early.is_err(), "the lock passed on while its holder lived");
    drop(other);
    let guard = tokio::time::timeout(SHORT + LATE, waiting).await.expect("it passes on").unwrap();
    MutexGuard::release(guard).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_process_was_killed_is_passed_over() {
    let (part, file) = (Part::new(), a_file(""));
    let here = locks(part.open(), Duration::from_secs(30));
    let third = locks(part.open(), Duration::from_secs(30));
    let (mutex, later) = (here.mutex("it", ()).unwrap(), third.mutex("it", ()).unwrap());
    let waiters = async |count: u64| {
        eventually_async(&format!("{count} wait"), SOON, async || {
            here.inspect("it").await.unwrap().waiting == count
        })
        .await;
    };
    let guard = mutex.lock().await.unwrap();
    let other = start("hold", &part, file.path());
    waiters(1).await;
    let mut waiting = Box::pin(later.lock());
    assert!(futures::poll!(&mut waiting).is_pending());
    tokio::select! {
        _ = &mut waiting => panic!("two holders"),
        () = waiters(2) => {}
    }
    drop(other);
    MutexGuard::release(guard).await.unwrap();
    let guard = tokio::time::timeout(SHORT + LATE, waiting).await.expect("it passes on").unwrap();
    MutexGuard::release(guard).await.unwrap();
}

/// Does nothing unless a test above has started it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_process() {
    let Some(role) = OtherProcess::part() else { return };
    let words: Vec<_> = role.split(' ').collect();
    let [role, url, prefix, file] = words[..] else { panic!("{words:?}") };
    let store = builder(url).prefix(prefix).build().unwrap();
    if role == "count" {
        return count_up(locks(store, Duration::from_secs(30)), file.into()).await;
    }
    let locks = locks(store, SHORT);
    let mutex = locks.mutex("it", ()).unwrap();
    let _guard = mutex.lock().await.unwrap();
    println!("holds");
    // Until it is killed.
    std::future::pending::<()>().await;
}
