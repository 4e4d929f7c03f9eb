//! What is left in the store after a lock was destroyed.

use lock_sync::{DestroyError, StoredMutexGuard};

use crate::support::{LOCK, Leftovers, Pair, soon, ttl_of};

const STATE: &str = "lock:{it}:state";

#[tokio::test]
async fn only_the_counter_of_tokens_is_left_and_goes_by_itself() {
    let pair = Pair::new();
    let semaphore = pair.here.semaphore("it", 3).unwrap();
    semaphore.add_permits(2).await.unwrap();
    soon(soon(semaphore.acquire()).await.unwrap().release()).await.unwrap();
    let stored = pair.there.stored_mutex("it", 1).unwrap();
    let guard = soon(stored.lock()).await.unwrap();
    let token = StoredMutexGuard::lease(&guard).fencing_token();
    soon(guard.commit()).await.unwrap();
    let kept = ["lock:{it}:cell", "lock:{it}:limit"];
    assert!(kept.iter().all(|key| ttl_of(&pair.server, key).is_none()), "they stay for ever");
    assert_eq!(pair.server.keys("lock:{it}*").len(), 3);

    soon(pair.here.destroy("it")).await.unwrap();
    assert_eq!(pair.server.keys("lock:{it}*"), [STATE]);
    assert!(ttl_of(&pair.server, STATE).is_some());
    let guard = soon(stored.lock()).await.unwrap();
    assert!(StoredMutexGuard::lease(&guard).fencing_token() > token);
    drop(guard);
    pair.server.assert_all_free();
}

#[tokio::test]
async fn a_lock_of_another_library_is_not_destroyed() {
    let pair = Pair::new();
    pair.server.cli(&["SET", LOCK, "theirs"]);
    let error = soon(pair.here.destroy("it")).await.unwrap_err();
    let DestroyError::InUse(Some(_)) = &error else { panic!("{error:?}") };
    let holder = "a client without a label (exclusive, without an end)";
    assert_eq!(error.to_string(), format!("the lock is in use: held by {holder}"));
    assert_eq!(pair.server.cli(&["GET", LOCK]).text(), "theirs");
}
