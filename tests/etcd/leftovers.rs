//! The documents of locks that nobody holds.

use lock_core::Backend;

use crate::support::{Part, claim, granted, long};

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
