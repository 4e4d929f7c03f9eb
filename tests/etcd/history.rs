//! A server whose data are older than the last grants.

use std::time::Duration;

use lock_core::{Backend, FencingToken};
use lock_sync::MutexGuard;
use lock_tests::{EtcdServer, SOON, eventually_async, soon};

use crate::support::{claim, granted, locks, long, open, until_granted};

/// How the data of a server that does not run become older.
enum Past {
    Copy(std::path::PathBuf),
    Nothing,
}

/// Grants a lease again and again, and returns the last token.
async fn many_tokens(store: &impl Backend) -> FencingToken {
    let mut last = None;
    for _ in 0..20 {
        let ours = claim("a");
        let grant = granted(store, &ours, long()).await;
        assert!(Some(grant.tokens.first()) > last);
        last = Some(grant.tokens.last());
        store.release(&ours).await.unwrap();
    }
    last.unwrap()
}

/// Lets the server go on with older data. Clients that were connected before go on as well as new ones.
async fn tokens_never_fall(from: impl FnOnce(&EtcdServer) -> Past) {
    let server = EtcdServer::durable();
    let store = open(server.url());
    granted(&store, &claim("before"), long()).await;
    server.kill();
    let past = from(&server);
    tokio::task::block_in_place(|| server.restart());
    let ours = claim("a");
    until_granted(&store, &ours, long()).await;
    store.release(&ours).await.unwrap();
    let last = many_tokens(&store).await;
    server.kill();
    match past {
        Past::Copy(copy) => server.restore_data(copy),
        Past::Nothing => server.erase(),
    }
    tokio::task::block_in_place(|| server.restart());

    let again = claim("a");
    let grant = until_granted(&store, &again, long()).await;
    assert!(grant.tokens.first() > last, "{grant:?} after {last:?}");
    store.release(&again).await.unwrap();
    let newer = many_tokens(&open(server.url())).await;
    assert!(newer > grant.tokens.last());

    // The watches of both clients work: revisions are lower than before.
    let (here, there) = (locks(store, LONG), locks(open(server.url()), LONG));
    let (mutex, behind) = (here.mutex("it", ()).unwrap(), there.mutex("it", ()).unwrap());
    for (first, second) in [(&mutex, &behind), (&behind, &mutex)] {
        let guard = soon(first.lock()).await.unwrap();
        let mut waiting = Box::pin(second.lock());
        let waits = eventually_async("one waits", SOON, async || {
            here.inspect("it").await.unwrap().waiting == 1
        });
        tokio::select! {
            _ = &mut waiting => panic!("two holders"),
            _ = waits => {}
        }
        MutexGuard::release(guard).await.unwrap();
        let guard = soon(waiting).await.unwrap();
        MutexGuard::release(guard).await.unwrap();
    }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_never_fall_after_a_restore_from_an_old_copy() {
    tokens_never_fall(|server| Past::Copy(server.copy_data())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_never_fall_after_the_disk_was_lost() {
    tokens_never_fall(|_| Past::Nothing).await;
}
