//! Servers that do not answer: what a client leaves with them, and what comes too late.

use std::num::NonZeroUsize;
use std::time::Duration;

use futures::future::{join_all, select_all};
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, ErrorKind, Mode, Released, Renew, Renewal, Ttl,
};
use lock_postgres::PostgresBackend;
use lock_tests::process::Standstill;
use lock_tests::{Direction, PostgresServer, Proxy, SOON, eventually, eventually_async, soon};
use tokio_postgres::NoTls;

use crate::support::{
    Database, attempt, claim, commits_wait, granted, last_session, long, sessions, until_ok,
    without_limit_of_its_own,
};

/// A client with one connection, besides the one for renewals.
fn impatient(url: &str, limit: Duration) -> PostgresBackend {
    let store = PostgresBackend::builder(url).connections(NonZeroUsize::MIN);
    store.command_timeout(limit).build().unwrap()
}

/// Gives an impatient client a lease. A busy machine may be too slow for a few of its requests.
async fn granted_in_the_end(store: &PostgresBackend, claim: &Claim, ttl: Ttl) {
    eventually_async("a grant", SOON * 6, async || attempt(store, claim, ttl).await.is_ok()).await;
}

/// The lease of a client that has to log in first has its whole time from the login on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_login_takes_nothing_from_a_lease() {
    let database = Database::new();
    let proxy = Proxy::start(database.server.addr());
    let url = database.server.url_through(proxy.addr(), &database.name);
    let store = PostgresBackend::open(url).unwrap();
    proxy.silence(Direction::ToClient);
    let ttl = Ttl::new(Duration::from_millis(300)).unwrap();
    let request = Acquire::new(claim("a"), ttl);
    let asked = store.clock().now();
    let answer = tokio::spawn({
        let store = store.clone();
        async move { store.try_acquire(&request).await }
    });
    // As long as the whole lease.
    tokio::time::sleep(ttl.duration()).await;
    proxy.speak(Direction::ToClient);
    match answer.await.unwrap() {
        Ok(AcquireOutcome::Granted(grant)) => {
            assert!(grant.valid_until > asked + ttl.duration(), "{grant:?}, asked at {asked:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// The requests that would change what a release has undone.
fn late_requests(key: &str) -> [(Claim, Acquire); 3] {
    let of = |mode| {
        let claim = claim(key).in_mode(mode);
        (claim.clone(), Acquire::new(claim, long()))
    };
    [of(Mode::Exclusive), of(Mode::Shared), of(Mode::Permits { take: 1, of: 2 })]
}

/// A backend that stands still reads a request after the client has given it up and released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_read_after_its_release_is_refused() {
    for index in 0..3 {
        let database = Database::new();
        let limit = Duration::from_millis(600);
        let store = impatient(&database.url(), limit);
        let other = claim("other");
        granted_in_the_end(&store, &other, long()).await;
        let (ours, request) = late_requests("a").into_iter().nth(index).unwrap();
        let pid = last_session(&database, 1);
        let standstill = Standstill::of(&[pid]);
        let error = store.try_acquire(&request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
        let released = until_ok("it is released", async || store.release(&ours).await).await;
        assert_eq!(released, Released::NotHeld);
        drop(standstill);
        eventually("the backend has read it", SOON, || !sessions(&database).contains(&pid));
        let held = "SELECT count(*) FROM lock_v1.held WHERE key = 'na'";
        assert_eq!(database.sql(held), "0\n", "{:?}", ours.mode);
        // The answer to the first request may come too late.
        let first = store.release(&other).await;
        let is_unknown = first.is_err();
        let freed = match first {
            Ok(freed) => freed,
            Err(_) => until_ok("it is released", async || store.release(&other).await).await,
        };
        let is_freed = matches!(freed, Released::Freed { .. });
        assert!(is_freed || is_unknown && freed == Released::NotHeld, "{freed:?}");
        assert_eq!(database.sql("SELECT count(*) FROM lock_v1.held"), "0\n");
    }
}

/// A cancelled request ends at once. Without it, the time alone has to tell. Each verb that gives a lease or a place
/// looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_for_a_lease_or_a_place_names_the_time_until_which_its_client_waits() {
    let database = Database::new();
    let (owner, other) = ("1".repeat(32), "2".repeat(32));
    let late = "clock_timestamp() - interval '1 millisecond'";
    let early = "clock_timestamp() + interval '1 minute'";
    database.sql(&format!(
        "SELECT lock_v1.acquire('nheld', '{owner}', 'x', 60000, 1, false, false, '', 10, {early})"
    ));
    let before = database.sql("SELECT key, owner, ends FROM lock_v1.held");
    for call in [
        "acquire('na', 'O', 'x', 1000, 1, false, false, '', 10, LATE)",
        "acquire('na', 'O', 's', 1000, 1, false, false, '', 10, LATE)",
        "acquire('nheld', 'O', 'x', 90000, 1, false, false, '', 10, LATE)",
        "acquire_all('{na}', '{O}', '{x}', '{1000}', '{1}', '{f}', '', LATE)",
        "requeue('nheld', 'O', 'x', 'P', 'x', 1000, 1, false, '', 10, LATE)",
        "convert('nheld', 'O', 'x', 's', 1000, 1, false, '', 10, LATE)",
        "vote('na', 'O', 'x', 1000, 1, 1, '', NULL, LATE)",
        "renew('nheld', 'O', 'x', 90000, 0, '', LATE)",
    ] {
        let sql = call.replace('O', &owner).replace('P', &other).replace("LATE", late);
        let sql = format!("SELECT lock_v1.{sql}");
        let why = database.server.try_sql(&database.name, &sql).expect_err(call);
        assert!(why.contains("later than its client waits"), "{call}: {why}");
    }
    assert_eq!(database.sql("SELECT key, owner, ends FROM lock_v1.held"), before);
}

/// A backend that stands still reads a renewal after the client has made a longer one on another connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_is_read_after_a_later_one_does_not_shorten_the_lease() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let database = Database::new();
        let store = impatient(&database.url(), Duration::from_millis(600));
        let ours = claim("a").in_mode(mode);
        let short = Renew::new(ours.clone(), Ttl::new(Duration::from_secs(20)).unwrap());
        granted_in_the_end(&store, &ours, short.ttl).await;
        let renew =
            async |renewal: &Renew| matches!(store.renew(renewal).await, Renewal::Renewed { .. });
        eventually_async("a renewal", SOON, async || renew(&short).await).await;
        // The connection of the renewals is the later one.
        let pid = last_session(&database, 2);
        let standstill = Standstill::of(&[pid]);
        let renewal = store.renew(&short).await;
        assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
        let longer = Renew::new(ours.clone(), long());
        eventually_async("a longer renewal", SOON, async || renew(&longer).await).await;
        let lease = || database.sql("SELECT ttl, ends FROM lock_v1.held");
        let before = lease();
        drop(standstill);
        eventually("the backend has read it", SOON, || !sessions(&database).contains(&pid));
        assert_eq!(lease(), before, "{mode:?}");
    }
}

/// Commits wait for a standby that is away. No request succeeds, and the sessions that wait do not become ever more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_standby_is_away_gathers_no_sessions() {
    let server = PostgresServer::with(&["fsync=off", "max_connections=40"]);
    let database = server.database();
    server.sql(&database, &PostgresBackend::schema());
    let store = impatient(&server.url(&database), Duration::from_millis(500));
    let ours = claim("a");
    granted_in_the_end(&store, &ours, long()).await;
    commits_wait(&server, &database).await;
    let there_are =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lock-postgres'";
    let mut most = 0;
    for round in 0..10 {
        // Another lock each time: the refusal of one that is held does not wait.
        let error = attempt(&store, &claim(format!("c{round}")), long()).await.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        let renewal = store.renew(&Renew::new(ours.clone(), long())).await;
        assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
        most = most.max(server.sql("postgres", there_are).trim().parse::<u32>().unwrap());
    }
    // Two lines, each with a connection and two abandoned ones.
    assert!(most <= 6, "{most} sessions");
    server.sql("postgres", "ALTER SYSTEM RESET synchronous_standby_names");
    server.sql("postgres", "SELECT pg_reload_conf()");
    eventually_async("it works again", SOON * 6, async || {
        attempt(&store, &claim("d"), long()).await.is_ok()
    })
    .await;
}

/// The row of one lock is kept by a transaction of another program. Its requests use the connection of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_stuck_delays_no_renewal_and_others_only_for_a_while() {
    let database = Database::new();
    without_limit_of_its_own(&database);
    let limit = Duration::from_secs(10);
    let store = impatient(&database.url(), limit);
    let (ours, stuck) = (claim("a"), claim("stuck"));
    granted(&store, &ours, long()).await;
    granted(&store, &stuck, long()).await;
    let (mut program, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let transaction = program.transaction().await.unwrap();
    transaction
        .batch_execute("SELECT FROM lock_v1.key WHERE key = 'nstuck' FOR UPDATE")
        .await
        .unwrap();

    let waiting = store.clone();
    let rival = claim("stuck");
    let asking = tokio::spawn(async move { attempt(&waiting, &rival, long()).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    eventually("the request waits for the row", SOON, || database.sql(waits) == "1\n");
    let renewal = store.renew(&Renew::new(ours.clone(), long())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    assert!(!asking.is_finished(), "the renewal has waited for the other request");
    // Half of the limit later, the connection is free for the next request.
    assert!(matches!(soon(store.release(&ours)).await.unwrap(), Released::Freed { .. }));
    let error = asking.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error:?}");
    transaction.rollback().await.unwrap();
    assert!(matches!(store.release(&stuck).await.unwrap(), Released::Freed { .. }));
}

/// Each renewal waits for its commit, so one connection would serve one renewal after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_is_stuck_does_not_delay_all_others() {
    let database = Database::new();
    let store = PostgresBackend::builder(database.url()).command_timeout(2 * SOON).build().unwrap();
    let claims: Vec<_> = (0..8).map(|index| claim(format!("{index}"))).collect();
    for claim in &claims {
        granted(&store, claim, long()).await;
    }
    let (mut program, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let transaction = program.transaction().await.unwrap();
    let keep = "SELECT FROM lock_v1.key WHERE key = 'n0' FOR UPDATE";
    transaction.batch_execute(keep).await.unwrap();
    let mut renewals = claims.into_iter().map(|claim| {
        let store = store.clone();
        tokio::spawn(async move { store.renew(&Renew::new(claim, long())).await })
    });
    let stuck = renewals.next().unwrap();
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    eventually("the renewal waits for the row", SOON, || database.sql(waits) == "1\n");
    let (first, _, others) = soon(select_all(renewals)).await;
    let first = first.unwrap();
    assert!(matches!(first, Renewal::Renewed { .. }), "{first:?}");
    assert!(!stuck.is_finished(), "the others have waited");
    transaction.rollback().await.unwrap();
    for renewal in join_all(others.into_iter().chain([stuck])).await {
        let renewal = renewal.unwrap();
        assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    }
}

/// Requests for several locks take the gates of several connections, one after the other. Behind a server that does not
/// answer, all of them and what comes behind them end in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_queue_behind_one_another_end_together() {
    let database = Database::new();
    let limit = Duration::from_millis(900);
    let store = PostgresBackend::builder(database.url()).command_timeout(limit).build().unwrap();
    eventually_async("connections", SOON, async || store.connect().await.is_ok()).await;
    let standstill = Standstill::of(&sessions(&database));
    let start = std::time::Instant::now();
    let many = (0..8).map(|round| {
        let store = store.clone();
        async move {
            let names = (0..6).map(|index| claim(format!("{round}/{index}")));
            let requests: Vec<_> = names.map(|claim| Acquire::new(claim, long())).collect();
            store.try_acquire_all(&requests).await.map(drop)
        }
    });
    let behind = claim("b");
    let last = attempt(&store, &behind, long());
    let (all, last) = tokio::join!(join_all(many), last);
    let took = start.elapsed();
    drop(standstill);
    for outcome in all {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout);
    }
    assert_eq!(last.unwrap_err().kind(), ErrorKind::Timeout);
    // One after the other, they would need nine times the limit.
    assert!(took < 4 * limit, "{took:?}");
}

/// A client is dropped while an app still looks at a watch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_with_its_client() {
    let database = Database::new();
    let store = database.open();
    let mut watch = store.watch(&claim("a").key).await.unwrap();
    drop(store);
    assert_eq!(soon(watch.next()).await, None);
}

/// The first host takes connections and answers nothing; behind the second one is no server; the third one is right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_hosts_the_one_that_answers_is_found() {
    let database = Database::new();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let (silent_port, right) = (silent.local_addr().unwrap().port(), database.server.addr().port());
    let url = database.url();
    let (before, _) = url.split_once('@').unwrap();
    let hosts = format!("127.0.0.1:{silent_port},127.0.0.1:{closed},127.0.0.1:{right}");
    let url = format!("{before}@{hosts}/{}?sslmode=disable", database.name);
    let store = impatient(&url, Duration::from_millis(500));
    let ours = claim("a");
    eventually_async("the right host is found", Duration::from_secs(60), async || {
        match attempt(&store, &ours, long()).await {
            Ok(outcome) => matches!(outcome, AcquireOutcome::Granted(_)),
            Err(error) => {
                assert!(error.is_retryable(), "{error:?}");
                false
            }
        }
    })
    .await;
    drop(silent);
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let builder = || PostgresBackend::builder("postgres://localhost/shop");
    let day = Duration::from_secs(24 * 60 * 60);
    for refused in [
        builder().command_timeout(Duration::ZERO).build(),
        builder().command_timeout(25 * day).build(),
        builder().connections(NonZeroUsize::new(65).unwrap()).build(),
    ] {
        assert_eq!(refused.map(drop).unwrap_err().kind(), ErrorKind::InvalidConfig);
    }
    builder()
        .command_timeout(24 * day)
        .connections(NonZeroUsize::new(64).unwrap())
        .build()
        .unwrap();
}
