//! Exact keys that cannot be the key of a lock.

use lock_core::{
    Acquire, Backend, Ballot, CellBackend, Error, ErrorKind, FencingToken, InspectBackend, Key,
    Mode, PermitBackend, QuorumNode, Renew, Renewal, Resize,
};
use lock_redis::RedisBackend;
use lock_tests::RedisServer;

use crate::support::{claim_of, granted, long};

/// The answer of every verb about a key.
async fn all_verbs(backend: &RedisBackend, key: &Key) -> Vec<(&'static str, Option<Error>)> {
    let claim = claim_of(key.clone());
    let permit = claim.clone().in_mode(Mode::Permits { take: 1, of: 1 });
    let request = Acquire::new(claim.clone(), long());
    let queued = request.clone().queued();
    let ballot = Ballot::new(request.clone(), FencingToken::new(0));
    let other = Acquire::new(claim_of(Key::new("other").unwrap()), long());
    let renewed = match backend.renew(&Renew::new(claim.clone(), long())).await {
        Renewal::Unknown(error) => Some(error),
        _ => None,
    };
    vec![
        ("try_acquire", backend.try_acquire(&request).await.err()),
        ("try_acquire in line", backend.try_acquire(&queued).await.err()),
        ("renew", renewed),
        ("release", backend.release(&claim).await.err()),
        ("release_and_requeue", backend.release_and_requeue(&claim, &queued).await.err()),
        ("try_acquire_all", backend.try_acquire_all(&[other, request]).await.err()),
        ("watch", backend.watch(key).await.err()),
        ("load", backend.load(key).await.err()),
        ("store", backend.store(&claim, FencingToken::new(1), None).await.err()),
        ("inspect", backend.inspect(key).await.err()),
        ("force_release", backend.force_release(key).await.err()),
        ("permits", backend.permits(key, 1).await.err()),
        ("resize", backend.resize(key, 1, Resize::Add(1)).await.err()),
        ("forget", backend.forget(&permit).await.err()),
        ("close", backend.close(key, 1).await.err()),
        ("vote", backend.vote(&ballot).await.err()),
        ("confirm", backend.confirm(&claim, FencingToken::new(1)).await.err()),
    ]
}

#[tokio::test]
async fn what_belongs_to_another_lock_or_to_the_library_is_refused_before_anything_is_sent() {
    let server = RedisServer::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let before = server.commandstats();
    for key in [
        "lock:{x}:fence",
        "lock:{x}:queue",
        "lock:{jobs}:as-is:jobs:holders",
        "lock:{x}:released@0",
        "lock:node@0",
        "lock:inbox:00000000000000000000000000000000",
    ] {
        for (verb, error) in all_verbs(&backend, &Key::raw(key).unwrap()).await {
            let kind = error.as_ref().map(Error::kind);
            assert_eq!(kind, Some(ErrorKind::InvalidKey), "{verb} {key}: {error:?}");
        }
    }
    assert_eq!(server.commandstats().since(&before).total(), 0);
    assert!(server.keys("*").is_empty());
}

#[tokio::test]
async fn other_keys_are_locks_as_before() {
    let server = RedisServer::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    for key in ["mylock", "orders:42", "orders:{42}:fence", "lock:foo", "lock:{a}", "lock:{x}:mine"]
    {
        let claim = claim_of(Key::raw(key).unwrap());
        granted(&backend, &claim).await;
        assert_eq!(server.cli(&["EXISTS", key]).int(), 1, "{key}");
        backend.release(&claim).await.unwrap();
    }
}
