//! Inspection and forced release.

use std::sync::Arc;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{ErrorKind, InspectBackend, Key, Kind, List};
use lock_sync::Locks;

use crate::support::Pair;

#[test]
fn every_future_is_send_and_sync() {
    fn check<F: Send + Sync>(_: F) {}
    let pair = Pair::threaded();
    check(pair.here.inspect("it"));
    check(pair.here.force_release("it"));
    check(pair.here.list("it"));
}

#[tokio::test]
async fn a_list_adds_the_prefix_and_leaves_it_out() {
    let pair = Pair::build(|builder| builder.prefix("app/"));
    let plain = Locks::new(pair.store.client());
    let _ours = pair.here.lock("jobs/1").await.unwrap();
    let _theirs = plain.lock("jobs/2").await.unwrap();
    let _exact = pair.here.lock(Key::raw("jobs/3").unwrap()).await.unwrap();
    let listed = async |locks: &Locks<MemoryBackend>, list: List| {
        let page = locks.list(list).await.unwrap();
        assert_eq!(page.next, None);
        let names = page.locks.iter().map(|lock| lock.key.to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(listed(&pair.there, List::of("jobs/")).await, ["jobs/1"]);
    assert_eq!(listed(&pair.there, List::of_exact_keys("jobs/")).await, ["jobs/3"]);
    assert_eq!(listed(&plain, "jobs/".into()).await, ["jobs/2"]);
    assert_eq!(listed(&plain, "".into()).await, ["app/jobs/1", "jobs/2"]);
    assert_eq!(listed(&plain, "x".into()).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_lock_of_a_page_shows_its_holder() {
    let pair = Pair::threaded();
    let _guard = pair.here.lock("jobs/1").await.unwrap();
    let page = pair.there.list("jobs/").await.unwrap();
    let shown = page.locks[0].to_string();
    assert!(
        shown.starts_with("jobs/1: held by ") && shown.contains("(exclusive, token "),
        "{shown}"
    );
}

#[tokio::test]
async fn every_kind_of_lock_is_seen() {
    let pair = Pair::threaded();
    let rwlock = pair.here.rwlock("shared", ()).unwrap();
    let (_one, _same) = (rwlock.read().await.unwrap(), rwlock.read().await.unwrap());
    let semaphore = pair.here.semaphore("permits", 5).unwrap();
    let _permits = semaphore.acquire_many(3).await.unwrap();
    let _leadership = pair.here.election("election").unwrap().campaign("me").await.unwrap();
    let _all = pair.here.lock_all(["a", "b"]).await.unwrap();
    for (name, kind) in [
        ("shared", Kind::Shared),
        ("permits", Kind::Permits(3)),
        ("election", Kind::Exclusive),
        ("a", Kind::Exclusive),
        ("b", Kind::Exclusive),
    ] {
        let seen = pair.there.inspect(name).await.unwrap();
        let kinds: Vec<_> = seen.holders.iter().map(|holder| holder.kind).collect();
        assert_eq!(kinds, [kind], "{name}: one lease of one process");
    }
}

#[tokio::test]
async fn the_prefix_counts() {
    let pair = Pair::build(|builder| builder.prefix("app/"));
    let (here, _) = pair.mutexes();
    let _guard = here.lock().await.unwrap();
    assert_eq!(pair.there.inspect("it").await.unwrap().holding, 1);
    let plain = Locks::new(pair.store.client());
    assert_eq!(plain.inspect("it").await.unwrap().holding, 0);
    assert_eq!(plain.inspect("app/it").await.unwrap().holding, 1);
    let exact = Key::raw("app/it").unwrap();
    assert_eq!(pair.there.inspect(&exact).await.unwrap().holding, 0, "another name");
    let error = pair.there.inspect("x".repeat(510)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidKey);
}

#[tokio::test]
async fn failures_are_told() {
    let pair = Pair::threaded();
    pair.ours.faults().on(Verb::Inspect).fail(ErrorKind::Denied);
    assert_eq!(pair.here.inspect("it").await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(pair.here.force_release("it").await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(pair.here.list("it").await.unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn the_capability_is_all_that_is_asked_for() {
    let backend: Arc<dyn InspectBackend> = Arc::new(MemoryBackend::new());
    let locks = Locks::new(backend);
    let mutex = locks.mutex("it", ()).unwrap();
    let _guard = mutex.lock().await.unwrap();
    assert_eq!(locks.inspect("it").await.unwrap().holding, 1);
}
