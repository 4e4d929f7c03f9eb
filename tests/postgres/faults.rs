//! Sessions that end, servers that die, and data that is gone.

use std::path::PathBuf;
use std::time::Duration;

use futures::FutureExt;
use lock_core::{Acquire, AcquireOutcome, Backend, Claim, ErrorKind, Released, Renew, Renewal};
use lock_postgres::PostgresBackend;
use lock_sync::{Locks, MutexGuard};
use lock_tests::process::Standstill;
use lock_tests::{PostgresServer, Proxy, SOON, eventually, eventually_async, soon};
use tokio_postgres::NoTls;

use crate::support::{
    Database, attempt, claim, commits_wait, granted, handed_over, last_session, long, queued,
    refused, sessions, until_ok,
};

/// Ends all sessions of clients of locks in this database.
fn end_sessions(database: &Database) -> usize {
    end(database, &sessions(database))
}

/// Ends the session that listens. Returns how many there were.
fn end_listener(database: &Database) -> usize {
    let listening = database.sql(
        "SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
         WHERE l.locktype = 'advisory' AND l.granted AND d.datname = current_database()",
    );
    let listening: Vec<u32> = listening.lines().map(|pid| pid.parse().unwrap()).collect();
    end(database, &listening)
}

/// Ends these sessions. A client hears of the end before the server has freed what the session held, so this waits.
fn end(database: &Database, pids: &[u32]) -> usize {
    for pid in pids {
        database.sql(&format!("SELECT pg_terminate_backend({pid})"));
    }
    eventually("the sessions have ended", SOON, || {
        sessions(database).iter().all(|pid| !pids.contains(pid))
    });
    pids.len()
}

async fn renewed(store: &PostgresBackend, claim: &Claim) {
    until_ok("the lease is renewed", async || {
        match store.renew(&Renew::new(claim.clone(), long())).await {
            Renewal::Renewed { .. } => Ok(()),
            Renewal::Unknown(error) => Err(error),
            other => panic!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_an_operator_ends_lose_nothing() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    let ours = claim("a");
    let grant = granted(&one, &ours, long()).await;
    let mut watch = one.watch(&ours.key).await.unwrap();
    one.connect().await.unwrap();
    assert!(end_sessions(&database) > 4);

    assert_eq!(soon(watch.next()).await, None, "the watch did not end");
    renewed(&one, &ours).await;
    let again =
        until_ok("the grant is repeated", async || attempt(&one, &ours, long()).await).await;
    let AcquireOutcome::Granted(again) = again else { panic!("{again:?}") };
    assert_eq!(again.tokens, grant.tokens);
    until_ok("it is watched again", async || one.watch(&ours.key).await).await;
    refused(&other, &claim("a")).await.expect("a time to ask again");
    end_sessions(&database);
    let freed = until_ok("it is released", async || one.release(&ours).await).await;
    assert_eq!(freed, Released::Freed { told: 0 });
}

/// Removes all locks, and the watches.
fn empty(database: &Database) {
    database.sql(
        "TRUNCATE lock_v1.key, lock_v1.holder, lock_v1.waiter, lock_v1.watcher, lock_v1.fence",
    );
}

/// Without a watch, the database gives a claim no place, and a grant does not say whether others wait. Either answer ends
/// the watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_the_database_has_forgotten_ends() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    let key = claim("a").key;
    let mut ours = one.watch(&key).await.unwrap();
    let mut theirs = other.watch(&key).await.unwrap();
    // An answer of a database that knows the watch ends none.
    let held = claim("a");
    granted(&one, &held, long()).await;
    let _busy = refused(&other, &claim("a")).await;
    one.release(&held).await.unwrap();
    assert!(soon(theirs.next()).await.is_some());
    assert_ne!(ours.next().now_or_never(), Some(None));
    empty(&database);
    granted(&one, &claim("a"), long()).await;
    // The hint of the release may come late.
    while soon(ours.next()).await.is_some() {}
    let waits = Acquire::new(claim("a"), long()).queued();
    let outcome = other.try_acquire(&waits).await.unwrap();
    assert!(matches!(outcome, AcquireOutcome::Busy { .. }), "{outcome:?}");
    assert_eq!(soon(theirs.next()).await, None);
    let _again = other.watch(&key).await.unwrap();
    let outcome = other.try_acquire(&waits).await.unwrap();
    assert!(matches!(outcome, AcquireOutcome::Queued { .. }), "{outcome:?}");
}

/// A lease lasts far longer than the test waits. So only a message can wake a waiter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_hear_of_releases_again_after_all_tables_were_emptied() {
    let database = Database::new();
    let locks = || Locks::builder(database.open()).ttl(long().duration()).build().unwrap();
    let (here, there) = (locks(), locks());
    let (ours, theirs) = (here.mutex("a", ()).unwrap(), there.mutex("a", ()).unwrap());
    let pass = async || {
        for (mutex, rival) in [(&ours, &theirs), (&theirs, &ours)] {
            let held = soon(mutex.lock()).await.unwrap();
            let waiting = async {
                let waits = async || here.inspect("a").await.unwrap().waiting == 1;
                eventually_async("it waits", SOON, waits).await;
                MutexGuard::release(held).await.unwrap();
            };
            let (served, ()) = tokio::join!(soon(rival.lock()), waiting);
            MutexGuard::release(served.unwrap()).await.unwrap();
        }
    };
    pass().await;
    empty(&database);
    pass().await;
}

/// A transaction of a user holds the rows of all locks until this value is dropped.
async fn blocked(database: &Database) -> tokio_postgres::Client {
    let (blocker, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    blocker.batch_execute("BEGIN; SELECT FROM lock_v1.key FOR UPDATE").await.unwrap();
    blocker
}

/// Waits until no statement of a client of locks runs.
fn until_idle(database: &Database) {
    let left = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                AND application_name = 'lock-postgres' AND state = 'active'";
    eventually("the statement is over", SOON, || database.sql(left) == "0\n");
}

/// A request waits for the row, and the error says that it may succeed later. The server does not go on with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_takes_too_long_is_a_timeout() {
    let database = Database::new();
    let limit = Duration::from_millis(400);
    let store = PostgresBackend::builder(database.url()).command_timeout(limit).build().unwrap();
    let ours = claim("a").in_mode(lock_core::Mode::Shared);
    let _granted = until_ok("it is granted", async || attempt(&store, &ours, long()).await).await;
    let blocker = blocked(&database).await;
    let error =
        attempt(&store, &claim("a").in_mode(lock_core::Mode::Shared), long()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(error.is_retryable());
    until_idle(&database);
    blocker.batch_execute("ROLLBACK").await.unwrap();
    let freed = until_ok("it works again", async || store.release(&ours).await).await;
    assert!(matches!(freed, Released::Freed { .. }), "{freed:?}");
}

/// The server ends the statement by the limit of the role, long before the client gives up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_the_server_ends_is_a_timeout() {
    let database = Database::new();
    let role = format!("role_{}", database.name);
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'pw'; CALL lock_v1.allow('{role}'); \
         ALTER ROLE {role} SET statement_timeout = '500ms'"
    ));
    // Such a client sets no limit for its sessions.
    let url = database.server.url_as(&role, "pw", &database.name);
    let store = PostgresBackend::builder(url).without_direct_connection();
    let store = store.command_timeout(Duration::from_secs(120)).build().unwrap();
    let ours = claim("a");
    let _granted = until_ok("it is granted", async || attempt(&store, &ours, long()).await).await;
    let blocker = blocked(&database).await;
    let error = tokio::time::timeout(SOON * 3, attempt(&store, &claim("a"), long())).await;
    let error = error.expect("the server ends the statement").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(error.is_retryable() && format!("{error:?}").contains("57014"), "{error:?}");
    until_idle(&database);
    blocker.batch_execute("ROLLBACK").await.unwrap();
    let freed = until_ok("it works again", async || store.release(&ours).await).await;
    assert!(matches!(freed, Released::Freed { .. }), "{freed:?}");
}

/// A backend that stands still, as if its disk did not answer: the next request takes another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backend_that_stands_still_does_not_stop_its_client() {
    let database = Database::new();
    let limit = Duration::from_millis(700);
    let one = std::num::NonZeroUsize::MIN;
    let store = PostgresBackend::builder(database.url());
    let store = store.command_timeout(limit).connections(one).build().unwrap();
    let ours = claim("a");
    let _granted = until_ok("it is granted", async || attempt(&store, &ours, long()).await).await;
    let standstill = Standstill::of(&[last_session(&database, 1)]);
    let error = attempt(&store, &claim("b"), long()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    renewed(&store, &ours).await;
    drop(standstill);
    assert_eq!(
        until_ok("it is released", async || store.release(&ours).await).await,
        Released::Freed { told: 0 }
    );
}

/// As after a failover, when an old primary has become a standby.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_write_is_left() {
    let database = Database::new();
    let store = database.open();
    let ours = claim("a");
    granted(&store, &ours, long()).await;
    let read_only = |on: &str| {
        let sql =
            format!("ALTER DATABASE {} SET default_transaction_read_only = {on}", database.name);
        database.server.sql("postgres", &sql);
    };
    read_only("on");
    end_sessions(&database);
    eventually_async("the server says so", SOON, async || {
        let error = attempt(&store, &claim("b"), long()).await.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        error.kind() == ErrorKind::NotReady
    })
    .await;
    read_only("off");
    renewed(&store, &ours).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_keeps_leases_and_the_order_of_tokens() {
    let server = PostgresServer::durable();
    let database = server.database();
    let open = || PostgresBackend::open(server.url(&database)).unwrap();
    let (one, other) = (open(), open());
    one.init().await.unwrap();
    let ours = claim("a");
    let first = granted(&one, &ours, long()).await;
    granted(&other, &claim("b"), long()).await;
    server.kill();
    let down = attempt(&other, &claim("a"), long()).await.unwrap_err();
    assert_eq!(down.kind(), ErrorKind::Unreachable, "{down:?}");
    server.restart();

    renewed(&one, &ours).await;
    let theirs = claim("a");
    let busy = until_ok("it answers", async || attempt(&other, &theirs, long()).await).await;
    assert!(matches!(busy, AcquireOutcome::Busy { .. }), "{busy:?}");
    assert!(matches!(one.release(&ours).await.unwrap(), Released::Freed { .. }));
    let later = granted(&other, &theirs, long()).await;
    assert!(later.tokens.first() > first.tokens.last());
}

/// The server goes on from a copy of its data that is older than the last grants.
async fn tokens_do_not_fall_after(copy_data: fn(&PostgresServer) -> PathBuf) {
    let server = PostgresServer::durable();
    let database = server.database();
    let store = PostgresBackend::open(server.url(&database)).unwrap();
    store.init().await.unwrap();
    granted(&store, &claim("before"), long()).await;
    let copy = copy_data(&server);
    let (mut last, ours) = (None, claim("a"));
    for _ in 0..20 {
        let grant = until_ok("it is granted", async || attempt(&store, &ours, long()).await).await;
        let AcquireOutcome::Granted(grant) = grant else { panic!("{grant:?}") };
        assert!(Some(grant.tokens.first()) > last);
        last = Some(grant.tokens.last());
        store.release(&ours).await.unwrap();
    }
    server.kill();
    server.restore_data(copy);
    server.restart();
    let grant =
        until_ok("it is granted", async || attempt(&store, &claim("a"), long()).await).await;
    let AcquireOutcome::Granted(grant) = grant else { panic!("{grant:?}") };
    assert!(Some(grant.tokens.first()) > last, "{grant:?} after {last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_do_not_fall_after_a_restore_from_an_old_copy() {
    tokens_do_not_fall_after(|server| {
        server.kill();
        let copy = server.copy_data();
        server.restart();
        copy
    })
    .await;
}

/// Made while the server runs, as operators do it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_do_not_fall_after_a_restore_from_a_base_backup() {
    tokens_do_not_fall_after(PostgresServer::back_up).await;
}

/// A standby that never comes makes every commit that waits wait for ever. So it shows which ones wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_waits_for_the_disk_and_a_release_that_hands_nothing_over_does_not() {
    let server = PostgresServer::durable();
    let database = server.database();
    let open = || PostgresBackend::builder(server.url(&database));
    let (one, other) = (open().build().unwrap(), open().build().unwrap());
    let hasty = open().command_timeout(Duration::from_millis(1500)).build().unwrap();
    one.init().await.unwrap();
    let (free, waited_for, waiting) = (claim("a"), claim("b"), claim("b"));
    granted(&one, &free, long()).await;
    granted(&one, &waited_for, long()).await;
    let _watch = other.watch(&waiting.key).await.unwrap();
    let queued = other.try_acquire(&Acquire::new(waiting, long()).queued()).await.unwrap();
    assert!(matches!(queued, AcquireOutcome::Queued { .. }), "{queued:?}");
    commits_wait(&server, &database).await;
    let granting = attempt(&hasty, &claim("probe"), long()).await.unwrap_err();
    assert_eq!(granting.kind(), ErrorKind::Timeout, "a grant did not wait");

    assert_eq!(one.release(&free).await.unwrap(), Released::Freed { told: 0 });
    let handing = hasty.release(&waited_for).await.unwrap_err();
    assert_eq!(handing.kind(), ErrorKind::Timeout, "a hand-over did not wait");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_listening_connection_has_ended_is_skipped_at_once() {
    let database = Database::new();
    let (holder, one, other) = (database.open(), database.open(), database.open());
    let (ours, first, second) = (claim("a"), claim("a"), claim("a"));
    granted(&holder, &ours, long()).await;
    let mut lost = queued(&one, &first).await;
    assert_eq!(end_listener(&database), 1);
    assert_eq!(soon(lost.next()).await, None, "its watch did not end");
    let mut watch = queued(&other, &second).await;

    holder.release(&ours).await.unwrap();
    handed_over(&other, &mut watch, &second).await;
}

/// Bytes that vanish: no party hears that the connection has ended. The client finds out by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listening_connection_that_is_silent_ends_its_watches() {
    let database = Database::new();
    let proxy = Proxy::start(database.server.addr());
    let url = database.server.url_through(proxy.addr(), &database.name);
    let store = PostgresBackend::open(url).unwrap();
    let mut watch = store.watch(&claim("a").key).await.unwrap();
    proxy.silence(lock_tests::Direction::ToServer);
    proxy.silence(lock_tests::Direction::ToClient);
    let ended = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
    assert_eq!(ended, Ok(None));
}
