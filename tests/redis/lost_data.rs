//! A server that lost its data, and sits out until the leases that it has forgotten are over.

use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Clock, Convert, ConvertBackend, Error, ErrorKind,
    InspectBackend, Instant, Mode, OwnerToken, Released, Renew, Renewal, Ttl,
};
use lock_redis::{Builder, RedisBackend};
use lock_sync::{Locks, MutexGuard};
use lock_tests::{RedisServer, SOON, eventually, soon};

use crate::support::{claim, millis};

const RECORD: &str = "lock:data@0";

fn longest() -> Ttl {
    millis(1_500)
}

/// Longer than all that a test does meanwhile on a busy machine.
fn patient() -> Ttl {
    millis(20_000)
}

fn builder(server: &RedisServer) -> Builder {
    RedisBackend::builder(server.url()).data_quarantine(longest())
}

fn open(server: &RedisServer) -> RedisBackend {
    builder(server).build().unwrap()
}

fn now() -> Instant {
    Clock::boot().now()
}

async fn ask(backend: &RedisBackend, name: &str) -> Result<AcquireOutcome, Error> {
    backend.try_acquire(&Acquire::new(claim(name), longest())).await
}

/// Asks for a lock that must be granted, and at once. Returns until when it is held.
async fn grants(backend: &RedisBackend) -> Instant {
    let owner = OwnerToken::generate().unwrap();
    match ask(backend, &String::from_utf8_lossy(owner.expose())).await {
        Ok(AcquireOutcome::Granted(grant)) => grant.valid_until,
        other => panic!("{other:?}"),
    }
}

/// Asks once. The server must sit out. Returns for how long.
async fn sits_out(backend: &RedisBackend) -> Duration {
    loop {
        match ask(backend, "sits out").await {
            // The connection led to the run before.
            Err(error) if error.kind() == ErrorKind::Unreachable => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
                assert!(error.to_string().contains("may have forgotten leases"), "{error}");
                return error.retry_after().unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Asks until the lock is granted. Returns when that was.
async fn get(backend: &RedisBackend, name: &str) -> Instant {
    soon(async {
        loop {
            match ask(backend, name).await {
                Ok(AcquireOutcome::Granted(_)) => return now(),
                Err(error) if error.is_retryable() => {
                    let pause = Duration::from_millis(20);
                    tokio::time::sleep(error.retry_after().map_or(pause, |it| it.min(pause))).await;
                }
                other => panic!("{other:?}"),
            }
        }
    })
    .await
}

/// A holder gets the lock `a`, the server forgets it, and another client gets the lock. Returns until when the holder
/// had it, and since when the other client.
async fn two_holders(
    server: &RedisServer,
    ttl: Ttl,
    open: impl Fn() -> RedisBackend,
) -> [Instant; 2] {
    let [here, there] = [(); 2].map(|()| open());
    let held = claim("a");
    let request = Acquire::new(held.clone(), ttl);
    let AcquireOutcome::Granted(grant) = here.try_acquire(&request).await.unwrap() else {
        panic!()
    };
    server.restart();
    [grant.valid_until, get(&there, "a").await]
}

#[tokio::test]
async fn without_the_quarantine_a_server_without_its_data_gives_a_held_lock_away() {
    let server = RedisServer::start();
    let open = || RedisBackend::open(server.url()).unwrap();
    let [until, since] = two_holders(&server, patient(), open).await;
    assert!(since < until, "the test proves nothing");
}

#[tokio::test]
async fn a_server_without_its_data_grants_no_lock_until_the_longest_lease_is_over() {
    let server = RedisServer::start();
    open(&server).init().await.unwrap();
    let [until, since] = two_holders(&server, longest(), || open(&server)).await;
    assert!(since >= until, "two holders at once");
}

#[tokio::test]
async fn a_snapshot_and_a_log_are_no_proof() {
    let snapshot = RedisServer::start();
    let log = RedisServer::builder().append_only().config("appendfsync", "always").start();
    for server in [&snapshot, &log] {
        let (here, there) = (open(server), open(server));
        here.init().await.unwrap();
        if std::ptr::eq(server, &snapshot) {
            assert_eq!(server.cli(&["SAVE"]).text(), "OK");
        }
        let until = grants(&here).await;
        server.restart();
        // The record has come back, and names the run before.
        assert_eq!(server.cli(&["EXISTS", RECORD]).int(), 1);
        sits_out(&there).await;
        assert!(get(&there, "a").await >= until);
    }
}

#[tokio::test]
async fn a_restart_counts_although_no_lock_was_held() {
    let server = RedisServer::start();
    let backend = open(&server);
    backend.init().await.unwrap();
    server.restart();
    let since = now();
    let left = sits_out(&backend).await;
    assert!(left <= longest().quarantine(), "{left:?}");
    assert!(get(&backend, "a").await >= since + longest().duration());
    grants(&open(&server)).await;
}

#[tokio::test]
async fn a_first_run_sits_out_until_an_operator_says_that_no_lock_is_held() {
    let server = RedisServer::start();
    let [first, second] = [(); 2].map(|()| open(&server));
    let since = now();
    for backend in [&first, &second] {
        sits_out(backend).await;
    }
    second.init().await.unwrap();
    grants(&second).await;
    // The other client asks again before the time is over.
    let long = RedisBackend::builder(server.url()).data_quarantine(Ttl::MAX).build().unwrap();
    grants(&long).await;
    get(&first, "a").await;
    assert_eq!(server.cli(&["PTTL", RECORD]).int(), -1);

    let fresh = RedisServer::start();
    assert!(get(&open(&fresh), "a").await >= since + longest().duration());
    let without = RedisBackend::open(fresh.url()).unwrap();
    let error = without.init().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
}

#[tokio::test]
async fn while_a_server_sits_out_everything_else_goes_on() {
    for terms in [false, true] {
        goes_on(terms).await;
    }
}

async fn goes_on(terms: bool) {
    let server = RedisServer::start();
    let old = RedisBackend::builder(server.url()).term_quarantine(terms).build().unwrap();
    let backend = builder(&server).data_quarantine(patient()).term_quarantine(terms);
    let backend = backend.build().unwrap();
    let held = claim("a");
    let request = Acquire::new(held.clone(), patient());
    // A client without the quarantine gets a lock that the others see.
    assert!(matches!(old.try_acquire(&request).await.unwrap(), AcquireOutcome::Granted(_)));
    let watch = backend.watch(&held.key).await.unwrap();
    sits_out(&backend).await;
    for request in
        [Acquire::new(claim("a"), patient()).queued(), Acquire::new(claim("b"), patient())]
    {
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits { take: 1, of: 2 }] {
            let mut request = request.clone();
            request.claim = request.claim.in_mode(mode);
            let error = backend.try_acquire(&request).await.unwrap_err();
            assert!(error.retry_after().is_some(), "{error}");
        }
    }
    let both = ["b", "c"].map(|name| Acquire::new(claim(name), patient()));
    assert!(backend.try_acquire_all(&both).await.unwrap_err().retry_after().is_some());
    let convert = Convert::new(held.clone(), Mode::Shared, patient());
    assert!(backend.convert(&convert).await.unwrap_err().retry_after().is_some());
    assert_eq!(server.keys("lock:{[bc]*"), [""; 0]);
    assert_eq!(server.keys("lock:{a}:queue"), [""; 0]);

    let renewal = backend.renew(&Renew::new(held.clone(), patient())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    let renewal = backend.renew(&Renew::new(claim("b"), patient())).await;
    assert!(matches!(renewal, Renewal::Lost), "{renewal:?}");
    let seen = backend.inspect(&held.key).await.unwrap();
    assert_eq!((seen.holders.len(), seen.waiting), (1, 0));
    assert_eq!(backend.release(&held).await.unwrap(), Released::Freed { told: 0 });
    drop(watch);
}

#[tokio::test]
async fn a_waiter_waits_without_an_error_and_goes_on_by_itself() {
    let server = RedisServer::start();
    let client = || {
        let ttl = longest().duration();
        Locks::builder(open(&server)).ttl(ttl).build().unwrap().mutex("a", ()).unwrap()
    };
    let [here, there] = [(); 2].map(|()| client());
    open(&server).init().await.unwrap();
    let guard = soon(here.lock()).await.unwrap();
    server.restart();
    let since = now();
    let error = loop {
        match there.try_lock().await.unwrap_err() {
            lock_sync::TryLockError::Backend(error) if error.kind() == ErrorKind::Unreachable => {}
            other => break other,
        }
    };
    assert!(
        matches!(&error, lock_sync::TryLockError::Backend(it) if it.retry_after().is_some()),
        "{error:?}"
    );
    let next = soon(there.lock()).await.unwrap();
    assert!(now() >= since + longest().duration());
    assert!(!MutexGuard::lease(&guard).is_valid());
    MutexGuard::release(next).await.unwrap();
}

#[tokio::test]
async fn a_client_with_longer_leases_prolongs_the_quarantine_of_all() {
    let server = RedisServer::start();
    let (short, long) =
        (open(&server), builder(&server).data_quarantine(millis(4_000)).build().unwrap());
    assert!(sits_out(&short).await <= longest().quarantine());
    let since = now();
    assert!(sits_out(&long).await > longest().quarantine());
    assert!(get(&short, "a").await >= since + Duration::from_millis(3_800));
    grants(&long).await;
}

#[tokio::test]
async fn a_lease_for_which_no_server_would_sit_out_long_enough_is_refused() {
    let server = RedisServer::start();
    let backend = open(&server);
    backend.init().await.unwrap();
    let request = Acquire::new(claim("a"), millis(1_501));
    let error = backend.try_acquire(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("1.501s is longer than the 1.5s"), "{error}");
    assert!(backend.try_acquire_all(&[request.clone(), request.clone()]).await.is_err());
    assert!(matches!(
        backend.renew(&Renew::new(request.claim, request.ttl)).await,
        Renewal::Unknown(_)
    ));
    assert_eq!(server.keys("lock:{*"), [""; 0]);
    // The check uses no longer lease either.
    let report = backend.check().await.unwrap();
    let codes: Vec<_> = report.findings.iter().map(|it| it.code).collect();
    assert!(!codes.contains(&"no-persistence") && !codes.contains(&"lock-refused"), "{report}");
}

#[tokio::test]
async fn a_connection_that_breaks_is_no_restart_and_a_grant_asks_nothing() {
    let server = RedisServer::start();
    let backend = open(&server);
    backend.init().await.unwrap();
    for _ in 0..3 {
        server.client_kill_all();
        get(&backend, "warm").await;
        let before = server.commandstats();
        for _ in 0..20 {
            grants(&backend).await;
        }
        let asked = server.commandstats().since(&before);
        // The statistics themselves are one `INFO`.
        assert_eq!((asked.calls("evalsha"), asked.calls("info")), (20, 1));
        server.cli(&["DEL", "lock:{warm}"]);
    }
    grants(&open(&server)).await;
}

#[tokio::test]
async fn a_server_that_was_a_replica_for_a_moment_goes_on() {
    let server = RedisServer::start();
    open(&server).init().await.unwrap();
    for _ in 0..2 {
        for command in [["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]] {
            assert_eq!(server.cli(&command).text(), "OK");
        }
        grants(&open(&server)).await;
    }
}

/// Makes one server follow another, and returns once it has its data.
fn follow(server: &RedisServer, primary: &RedisServer) {
    let port = primary.port().to_string();
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", &port]).text(), "OK");
    replicated(primary);
}

/// Waits until the only replica has everything.
fn replicated(primary: &RedisServer) {
    eventually("the replica has everything", SOON, || {
        primary.cli(&["SET", "marker", "1"]);
        primary.cli(&["WAIT", "1", "1000"]).int() == 1
    });
}

fn promote(server: &RedisServer) {
    assert_eq!(server.cli(&["REPLICAOF", "NO", "ONE"]).text(), "OK");
}

#[tokio::test]
async fn a_promoted_replica_goes_on_and_one_that_restarts_does_not() {
    let open = |server: &RedisServer| builder(server).data_quarantine(patient()).build().unwrap();
    let start = || RedisServer::builder().config("repl-diskless-sync-delay", "0").start();
    let (one, other) = (start(), start());
    open(&one).init().await.unwrap();
    // Forth and back: each time the record is that of the other server.
    for [primary, replica] in [[&one, &other], [&other, &one], [&one, &other]] {
        follow(replica, primary);
        // The history has a new name since the replica was attached, and the record gets that name.
        grants(&open(primary)).await;
        replicated(primary);
        promote(replica);
        grants(&open(replica)).await;
        // The former primary goes on, too.
        grants(&open(primary)).await;
    }
    // The file of a replica names the history of its primary.
    follow(&other, &one);
    grants(&open(&one)).await;
    replicated(&one);
    assert_eq!(other.cli(&["SAVE"]).text(), "OK");
    other.restart();
    sits_out(&open(&other)).await;
    // A quarantine goes on at the replica that is promoted, on its own clock.
    follow(&one, &other);
    sits_out(&open(&other)).await;
    replicated(&other);
    promote(&one);
    sits_out(&open(&one)).await;
}

#[tokio::test]
async fn deleted_data_is_noticed_by_the_next_connection() {
    let server = RedisServer::start();
    let backend = open(&server);
    backend.init().await.unwrap();
    server.flushall();
    // It stays connected.
    grants(&backend).await;
    sits_out(&open(&server)).await;
}

#[tokio::test]
async fn a_restarted_server_with_the_file_of_another_is_told_from_a_replica() {
    let server = RedisServer::start();
    open(&server).init().await.unwrap();
    let copy = server.copy_data();
    for _ in 0..2 {
        server.kill();
        server.restore(&copy);
        server.restart();
        sits_out(&open(&server)).await;
    }
}

#[tokio::test]
async fn what_is_no_record_is_left_alone() {
    let server = RedisServer::start();
    let backend = open(&server);
    server.cli(&["SET", RECORD, "mine"]);
    for error in [ask(&backend, "a").await.unwrap_err(), backend.init().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::ForeignKey, "{error}");
    }
    assert_eq!(server.cli(&["GET", RECORD]).text(), "mine");
    server.cli(&["DEL", RECORD]);
    sits_out(&backend).await;
}

#[tokio::test]
async fn a_node_of_a_cluster_does_not_sit_out_as_a_server_and_says_so() {
    let server = RedisServer::builder().config("cluster-enabled", "yes").start();
    server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    let backend = open(&server);
    let error = soon(async {
        loop {
            match ask(&backend, "a").await.unwrap_err() {
                error if error.is_retryable() => tokio::task::yield_now().await,
                error => return error,
            }
        }
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("cluster"), "{error}");
    // By the other URL each slot sits out.
    let url = format!("redis+cluster://{}", server.addr());
    let cluster = RedisBackend::builder(url).data_quarantine(longest()).build().unwrap();
    sits_out(&cluster).await;
}
