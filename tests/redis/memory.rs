//! A server without memory.

use lock_core::{
    Acquire, Backend, CellBackend, ErrorKind, InspectBackend, Mode, PermitBackend, Released, Renew,
    Renewal, Resize,
};
use lock_redis::RedisBackend;

use crate::support::{Server, attempt, claim, granted, long};

#[tokio::test]
async fn without_memory_nothing_is_half_granted_and_holders_keep_their_rights() {
    let server = Server::with(&["--maxmemory-policy", "noeviction"]);
    let backend = RedisBackend::open(server.url()).unwrap();
    let held = claim("held");
    granted(&backend, &held).await;
    let mut raw = server.client();
    raw.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]);

    let error = attempt(&backend, &claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.is_retryable());
    assert_eq!(raw.command::<Vec<String>>(&["KEYS", "lock:{a}*"]), Vec::<String>::new());

    assert!(matches!(
        backend.renew(&Renew::new(held.clone(), long())).await,
        Renewal::Renewed { .. }
    ));
    assert!(matches!(backend.release(&held).await.unwrap(), Released::Freed { .. }));
    raw.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    granted(&backend, &claim("a")).await;
}

#[tokio::test]
async fn without_memory_permits_and_values_stay_as_they_are_and_what_takes_none_works() {
    let server = Server::with(&["--maxmemory-policy", "noeviction"]);
    let backend = RedisBackend::open(server.url()).unwrap();
    let permits = |take| claim("held").in_mode(Mode::Permits { take, of: 5 });
    let (kept, lost, last) = (permits(2), permits(1), permits(1));
    for claim in [&kept, &lost] {
        granted(&backend, claim).await;
    }
    let writer = claim("cell");
    let token = granted(&backend, &writer).await.tokens.first();
    let mut raw = server.client();
    raw.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]);

    let group = Mode::Joint { group: claim("a").owner };
    let together = ["a", "b"].map(|name| Acquire::new(claim(name), long()));
    let key = kept.key.clone();
    for error in [
        attempt(&backend, &last).await.unwrap_err(),
        attempt(&backend, &claim("a").in_mode(group)).await.unwrap_err(),
        attempt(&backend, &claim("a").in_mode(last.mode)).await.unwrap_err(),
        backend.try_acquire_all(&together).await.unwrap_err(),
        backend.store(&writer, token, Some(b"v")).await.unwrap_err(),
        backend.resize(&key, 5, Resize::Add(1)).await.unwrap_err(),
        backend.close(&key, 5).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    }
    assert_eq!(raw.command::<Vec<String>>(&["KEYS", "lock:{[ab]}*"]), Vec::<String>::new());
    assert_eq!(backend.load(&writer.key).await.unwrap(), None);

    let renewal = backend.renew(&Renew::new(kept.clone(), long())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    assert!(matches!(PermitBackend::forget(&backend, &lost).await, Ok(Released::Freed { .. })));
    let state = backend.permits(&key, 5).await.unwrap();
    assert_eq!((state.limit, state.held, state.closed), (4, 2, false));
    assert_eq!(backend.inspect(&key).await.unwrap().holding, 1);
    assert_eq!(backend.force_release(&key).await.unwrap(), 1);
    raw.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    granted(&backend, &permits(4)).await;
}
