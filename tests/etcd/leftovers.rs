//! The documents of locks without a holder.

use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, CellBackend, Stored};
use lock_tests::eventually;

use crate::support::{LATE, Part, attempt, claim, granted, long, seconds};

/// etcd removes the keys of a lease in one step, and does nothing else meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lease_has_the_keys_of_thousands_of_locks() {
    let part = Part::new();
    let stores = [part.open(), part.open()];
    let pass = async |index: usize, name: usize| {
        let ours = claim(format!("lock {name}"));
        granted(&stores[index], &ours, long()).await;
        stores[index].release(&ours).await.unwrap();
    };
    for name in 0..700 {
        pass(0, name).await;
    }
    // Another client takes some of them. Their keys go with its lease from then on.
    for name in 0..20 {
        pass(1, name).await;
    }
    tokio::task::block_in_place(|| {
        assert_eq!(part.server.keys_without_lease(&part.folder()), 0);
        let most = part.server.most_keys_of_a_lease(&part.folder());
        assert!(most <= 1_000, "{most} keys go at once");
    });
}

/// A process that dies leaves the document of its lock without a lease of etcd.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_of_a_dead_holder_goes_though_no_client_asks_for_the_lock() {
    let part = Part::new();
    let documents = format!("{}s/", part.folder());
    let without_lease = || part.server.keys_without_lease(&documents);
    let (dying, waiting, living) = (part.open(), part.open(), part.open());
    granted(&dying, &claim("abandoned"), seconds(2)).await;
    let watch = waiting.watch(&claim("abandoned").key).await.unwrap();
    let request = Acquire::new(claim("abandoned"), long()).queued();
    let queued = waiting.try_acquire(&request).await.unwrap();
    assert!(matches!(queued, AcquireOutcome::Queued { .. }), "{queued:?}");
    granted(&living, &claim("held"), long()).await;
    let ours = claim("valued");
    let grant = granted(&living, &ours, long()).await;
    let stored = living.store(&ours, grant.tokens.first(), Some(b"7")).await.unwrap();
    assert_eq!(stored, Stored::Written);
    living.release(&ours).await.unwrap();
    drop((dying, watch, waiting));
    tokio::task::block_in_place(|| {
        // A client that meets a document of another kind goes on behind it.
        part.server.ctl(&["put", &format!("{documents}naaa"), "none of ours"]);
        assert_eq!(without_lease(), 4);
    });

    let sweepers = [(); 2].map(|()| {
        let interval = Duration::from_secs(1);
        part.builder().sweep_interval(interval).build().unwrap()
    });
    tokio::task::block_in_place(|| {
        eventually("the document goes with a lease", LATE * 3, || without_lease() == 3);
        let keys = part.server.keys(&documents);
        assert_eq!(keys.len(), 4, "it stays for a while: {keys:?}");
    });
    let busy = attempt(&sweepers[0], &claim("held"), long()).await.unwrap();
    assert!(matches!(busy, AcquireOutcome::Busy { .. }), "{busy:?}");
    let value = sweepers[1].load(&ours.key).await.unwrap();
    assert!(value.is_some(), "the value beside a free lock stays");
    granted(&sweepers[0], &claim("abandoned"), long()).await;
}
