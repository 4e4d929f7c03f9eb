//! Connections that end, operators that interfere, and a server that dies.

use std::time::Duration;

use lock_core::{
    AcquireOutcome, Backend, CellBackend, Clock, Committed, ErrorKind, Released, Renew, Renewal,
    Stored,
};
use lock_etcd::EtcdBackend;
use lock_sync::MutexGuard;
use lock_tests::{Direction, EtcdServer, Proxy, SOON, soon};

use crate::support::{
    LATE, Part, attempt, builder, claim, granted, let_go, locks, long, open, passes_on_over,
    until_granted, until_ok, until_waiting, waits,
};

/// The shortest lease that the store has.
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(60);

async fn renewed(store: &EtcdBackend, claim: &lock_core::Claim) {
    until_ok("the lease is renewed", async || {
        match store.renew(&Renew::new(claim.clone(), long())).await {
            Renewal::Renewed { .. } => Ok(()),
            Renewal::Unknown(error) => Err(error),
            other => panic!("{other:?}"),
        }
    })
    .await;
}

/// A client that goes through a proxy of its own.
fn through(part: &Part) -> (EtcdBackend, Proxy) {
    let proxy = Proxy::start(part.server.addr());
    let url = part.server.url_through(proxy.addr());
    (builder(url).prefix(&part.prefix).build().unwrap(), proxy)
}

/// A server of etcd hangs up on a client that asks whether it is there while no call is under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_client_keeps_its_connection() {
    const IDLE: Duration = Duration::from_secs(12);
    let (store, proxy) = through(&Part::new());
    let held = claim("a");
    granted(&store, &held, long()).await;
    store.release(&held).await.unwrap();
    let before = proxy.connections();
    tokio::time::sleep(IDLE).await;
    granted(&store, &held, long()).await;
    assert_eq!(proxy.connections(), before);
}

/// A way in which a client loses its server.
type Cut = (&'static str, fn(&Proxy));

const CUTS: [Cut; 2] = [
    ("ended", Proxy::cut_off),
    ("silent", |proxy| {
        proxy.silence(Direction::ToServer);
        proxy.silence(Direction::ToClient);
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_cut_off_reports_the_loss_before_a_rival_is_granted_the_lock() {
    for (how, cut) in CUTS {
        let part = Part::new();
        let (store, proxy) = through(&part);
        let (here, there) = (locks(store, SHORT), locks(part.open(), LONG));
        let mutex = here.mutex("it", ()).unwrap();
        let guard = soon(mutex.lock()).await.unwrap();
        let lease = MutexGuard::lease(&guard);
        let waiting = waits(&there);
        until_waiting(&there, 1).await;
        let lost = tokio::spawn(lease.lost());
        assert!(lease.is_valid());
        cut(&proxy);
        tokio::time::timeout(SHORT + LATE, lost).await.expect("it is told").unwrap();
        assert!(!lease.is_valid());
        // The holder knows by its clock, however busy the machine is.
        let lost = lease.valid_until();
        let granted = tokio::time::timeout(SHORT + LATE, waiting).await.expect("it passes on");
        let (granted, token) = granted.unwrap();
        let early = lost.saturating_duration_since(granted);
        assert!(lost < granted, "{how}: the rival was granted the lock {early:?} early");
        assert!(token > lease.fencing_token());
        proxy.pass();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_ends_loses_no_lease_and_no_place() {
    let part = Part::new();
    let (store, holders) = through(&part);
    let (waiter, waiters) = through(&part);
    let (here, there) = (locks(store, LONG), locks(waiter, LONG));
    let (mutex, behind) = (here.mutex("it", ()).unwrap(), there.mutex("it", ()).unwrap());
    for _ in 0..3 {
        let guard = soon(mutex.lock()).await.unwrap();
        let mut waiting = Box::pin(behind.lock());
        tokio::select! {
            _ = &mut waiting => panic!("two holders"),
            () = until_waiting(&here, 1) => {}
        }
        holders.cut();
        waiters.cut();
        assert!(MutexGuard::lease(&guard).is_valid());
        let_go(guard).await;
        drop(soon(waiting).await.unwrap());
    }
}

/// A watch goes on from a revision. If the store has forgotten that revision, the client reads the lock again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_under_a_watch_loses_no_hand_over() {
    let part = Part { server: Box::leak(Box::new(EtcdServer::start())), prefix: "p".to_owned() };
    let (waiter, proxy) = through(&part);
    let (here, there) = (locks(part.open(), LONG), locks(waiter, LONG));
    let mutex = here.mutex("it", ()).unwrap();
    for while_away in [false, true] {
        let guard = soon(mutex.lock()).await.unwrap();
        let behind = there.mutex("it", ()).unwrap();
        let waiting = tokio::spawn(async move { behind.lock().await.map(drop) });
        until_waiting(&here, 1).await;
        if while_away {
            proxy.cut_off();
        }
        // The state of the lock changes, and other keys do.
        let third = part.open();
        for _ in 0..3 {
            let ours = claim("it").in_mode(lock_core::Mode::Shared);
            let busy = attempt(&third, &ours, long()).await.unwrap();
            assert!(matches!(busy, AcquireOutcome::Busy { .. }), "{busy:?}");
            let other = claim("other");
            granted(&third, &other, long()).await;
            third.release(&other).await.unwrap();
        }
        part.server.compact();
        MutexGuard::release(guard).await.unwrap();
        part.server.compact();
        proxy.pass();
        tokio::time::timeout(SOON * 2, waiting).await.expect("it passes on").unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_an_operator_revokes_is_lost_and_passes_on() {
    let part = Part::new();
    let (here, there) = (locks(part.open(), LONG), locks(part.open(), LONG));
    let (mutex, behind) = (here.mutex("it", ()).unwrap(), there.mutex("it", ()).unwrap());
    let guard = soon(mutex.lock()).await.unwrap();
    let lease = MutexGuard::lease(&guard);
    // That of the hold, and that of the session, which begins beside it.
    let mut leases = Vec::new();
    lock_tests::eventually("the client has a session", SOON, || {
        leases = part.server.leases_of(&part.folder());
        leases.len() >= 2
    });
    for id in leases {
        part.server.revoke(&id);
    }
    let next = soon(behind.lock()).await.unwrap();
    assert!(MutexGuard::lease(&next).fencing_token() > lease.fencing_token());
    soon(lease.lost()).await;
    assert!(!lease.is_valid());
    drop(guard);
    // Both clients go on, the first one with new leases.
    drop(next);
    drop(soon(mutex.lock()).await.unwrap());
}

/// By the clock of the holder, the lease lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_lease_was_revoked_releases_no_lease_of_the_next_holder() {
    let part = Part::new();
    let (store, rival) = (part.open(), part.open());
    let (ours, next) = (claim("it"), claim("it"));
    let first = granted(&store, &ours, long()).await;
    for lease in part.server.leases_of(&part.folder()) {
        part.server.revoke(&lease);
    }
    let second = granted(&rival, &next, long()).await;
    assert!(second.tokens.first() > first.tokens.last());
    assert_eq!(store.release(&ours).await.unwrap(), Released::NotHeld);
    for other in [&store, &rival] {
        let busy = attempt(other, &claim("it"), long()).await.unwrap();
        assert!(matches!(busy, AcquireOutcome::Busy { .. }), "two holders: {busy:?}");
    }
    renewed(&rival, &next).await;
    assert!(matches!(rival.release(&next).await.unwrap(), Released::Freed { .. }));
}

/// By the clock of the holder, the lease lives. A write compares the lease of etcd all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_lease_was_revoked_writes_no_value() {
    for commits in [false, true] {
        let part = Part::new();
        let store = part.open();
        let ours = claim("it");
        let grant = granted(&store, &ours, long()).await;
        let token = grant.tokens.first();
        assert_eq!(store.store(&ours, token, Some(b"kept")).await.unwrap(), Stored::Written);
        for lease in part.server.leases_of(&part.folder()) {
            part.server.revoke(&lease);
        }
        assert!(Clock::boot().now() < grant.valid_until, "the lease is over by the clock");
        if commits {
            let committed = store.commit(&ours, token, b"late").await.unwrap();
            assert_eq!(committed, Committed::NotHeld);
        } else {
            let stored = store.store(&ours, token, Some(b"late")).await.unwrap();
            assert_eq!(stored, Stored::NotHeld);
        }
        let kept = store.load(&ours.key).await.unwrap().unwrap();
        assert_eq!((kept.value.as_slice(), kept.held), (b"kept".as_slice(), false));
        granted(&store, &claim("it"), long()).await;
    }
}

/// The client keeps leases for its next holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_was_revoked_before_its_release_serves_no_further_hold() {
    let part = Part::new();
    let (store, rival) = (part.open(), part.open());
    let ours = claim("it");
    granted(&store, &ours, long()).await;
    for lease in part.server.leases_of(&part.folder()) {
        part.server.revoke(&lease);
    }
    // The key was free of other holders all the time.
    assert!(matches!(store.release(&ours).await.unwrap(), Released::Freed { .. }));
    let again = claim("it");
    granted(&store, &again, long()).await;
    let busy = attempt(&rival, &claim("it"), long()).await.unwrap();
    assert!(matches!(busy, AcquireOutcome::Busy { .. }), "two holders: {busy:?}");
    renewed(&store, &again).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_is_a_timeout() {
    let server = EtcdServer::start();
    let limit = Duration::from_millis(700);
    let store = builder(server.url()).command_timeout(limit).build().unwrap();
    let ours = claim("a");
    until_granted(&store, &ours, long()).await;
    server.stop();
    let error = soon(attempt(&store, &claim("b"), long())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(error.is_retryable());
    server.cont();
    renewed(&store, &ours).await;
    let freed = until_ok("it is released", async || store.release(&ours).await).await;
    assert!(matches!(freed, Released::Freed { .. }), "{freed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_keeps_leases_places_and_the_order_of_tokens() {
    let server = EtcdServer::durable();
    passes_on_over(&server.url(), async |other| {
        server.kill();
        let down = soon(attempt(other, &claim("b"), long())).await.unwrap_err();
        assert!(down.is_retryable(), "{down:?}");
        tokio::task::block_in_place(|| server.restart());
    })
    .await;
}

/// A member that restarts gives every lease its whole time again. That costs time, and no safety.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_of_a_client_that_has_gone_ends_after_a_restart_too() {
    let server = EtcdServer::durable();
    let (one, other) = (open(server.url()), open(server.url()));
    let first = granted(&one, &claim("a"), crate::support::seconds(3)).await;
    drop(one);
    server.kill();
    tokio::task::block_in_place(|| server.restart());
    let next = until_granted(&other, &claim("a"), long()).await;
    assert!(next.tokens.first() > first.tokens.last());
}

/// The store gives its revisions out again, for other documents. A client that makes no call meanwhile sees no broken
/// connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_restored_grants_no_lock_by_what_a_client_saw_before() {
    let server = EtcdServer::durable();
    server.kill();
    let copy = server.copy_data();
    tokio::task::block_in_place(|| server.restart());
    let (unaware, rival) = (open(server.url()), open(server.url()));
    let (ours, other) = (claim("it"), claim("other"));
    until_granted(&unaware, &ours, long()).await;
    until_granted(&unaware, &other, long()).await;
    let freed = unaware.release(&ours).await.unwrap();
    assert!(matches!(freed, Released::Freed { .. }), "{freed:?}");
    let free_at = server.revision();

    tokio::task::block_in_place(|| {
        server.kill();
        server.restore_data(copy);
        server.restart();
    });
    let _granted_or_not =
        until_ok("it answers", async || attempt(&unaware, &other, long()).await).await;
    while server.revision() < free_at - 1 {
        server.ctl(&["put", "filler", ""]);
    }
    until_granted(&rival, &claim("it"), long()).await;
    assert_eq!(server.revision(), free_at, "both documents have one revision");
    let busy = attempt(&unaware, &ours, long()).await.unwrap();
    assert!(matches!(busy, AcquireOutcome::Busy { .. }), "two holders: {busy:?}");
}
