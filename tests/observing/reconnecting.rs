//! What an observer hears when a connection ends and another one begins, over each store.

use std::net::SocketAddr;

use lock_core::Backend;
use lock_sync::Locks;
use lock_tests::soon;

use crate::diary::Diary;

/// Uses a lock of a server at this address, before and after the server dies. `requests` are those that the diary
/// names, the first of them a request for a lock.
pub(crate) async fn reconnects<B: Backend>(
    (locks, diary): (&Locks<B>, &Diary),
    addr: SocketAddr,
    requests: [&str; 2],
    kill: impl FnOnce(),
    restart: impl FnOnce(),
) {
    let [acquire, _] = requests;
    let guard = soon(locks.lock("it")).await.unwrap();
    soon(guard.release()).await.unwrap();
    let said = diary.of_store();
    assert_eq!(said[0], format!("connected first to {addr}"), "{said:?}");
    for request in requests {
        assert!(said.contains(&format!("{request} at {addr}")), "{said:?}");
    }

    let before = said.len();
    kill();
    diary.until_store(before, &format!("disconnected to {addr}")).await;
    assert!(soon(locks.try_lock("it")).await.is_err());
    diary.until_store(before, &format!("no connection to {addr}")).await;
    diary.until_store(before, &format!("{acquire} at {addr}: Unreachable")).await;

    let before = diary.of_store().len();
    restart();
    // A server may have forgotten the release of the first lock, if it did not wait for its disk.
    drop(soon(locks.lock("another")).await.unwrap());
    diary.until_store(before, &format!("connected again to {addr}")).await;
    diary.until_store(before, &format!("{acquire} at {addr}")).await;
}
