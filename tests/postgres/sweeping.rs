//! What was not used for an hour goes, and nothing else does. What clients leave behind fills nothing.

use std::time::Duration;

use futures::future::join_all;
use lock_core::{Acquire, AcquireOutcome, Backend, Label, Mode, Released, Renew, Renewal};
use lock_postgres::{PostgresBackend, fence};
use lock_tests::{PostgresServer, SOON, eventually};
use tokio_postgres::NoTls;

use crate::support::{Database, claim, granted, long, millis};

/// Lets a sweep begin although there was one a moment ago.
const AGAIN: &str = "UPDATE lock_v1.meta SET swept = '-infinity';";

/// A client whose listening connection is gone.
fn dead(number: u32) -> String {
    format!("{number:032x}")
}

#[test]
fn rows_that_were_not_used_for_an_hour_are_removed() {
    let database = Database::new();
    database.sql(&format!(
        "INSERT INTO lock_v1.key (key, last) VALUES ('nold', 5), ('nnew', lock_v1.floor(clock_timestamp())); \
         INSERT INTO lock_v1.key (key, last, owner, ends) VALUES ('nheld', 5, 'o', 'infinity'); \
         INSERT INTO lock_v1.key (key, last, plain) VALUES ('nread', 5, false), ('nwas', 5, false), ('nheard', 5, false); \
         INSERT INTO lock_v1.holder VALUES ('nread', 'o', 's', 0, 1, 1, 1, 'infinity', ''), \
           ('nwas', 'o', 's', 0, 1, 1, 1, '-infinity', ''); \
         INSERT INTO lock_v1.waiter VALUES ('nwas', 1, 'p', 'x', NULL, 1, 1, false, '-infinity', '', '-infinity'); \
         INSERT INTO lock_v1.watcher VALUES ('nheard', '{}', 1); \
         INSERT INTO lock_v1.semaphore VALUES ('nold', '{{3}}', 3, false, '-infinity'), \
           ('nalone', '{{3}}', 3, false, '-infinity'), ('nresized', '{{3}}', 4, false, '-infinity'), \
           ('nclosed', '{{3}}', 3, true, '-infinity'), ('nused', '{{3}}', 3, false, 'infinity'); \
         INSERT INTO lock_v1.fence VALUES ('nold', 5), ('nheld', 5), ('ngone', 5)",
        dead(1)
    ));
    assert_eq!(database.sql("SELECT lock_v1.tidy(100)"), "5\n");
    let keys = "SELECT string_agg(convert_from(key, 'UTF8'), ' ' ORDER BY key) FROM lock_v1.";
    assert_eq!(database.sql(&format!("{keys}key")), "nheld nnew nread\n");
    assert_eq!(database.sql(&format!("{keys}holder")), "nread\n");
    assert_eq!(database.sql(&format!("{keys}waiter")), "\n");
    assert_eq!(database.sql(&format!("{keys}watcher")), "\n");
    assert_eq!(database.sql(&format!("{keys}semaphore")), "nclosed nresized nused\n");
    assert_eq!(database.sql(&format!("{keys}fence")), "nheld\n");
    assert_eq!(database.sql(&format!("{AGAIN} SELECT lock_v1.tidy(100)")), "0\n");
}

#[test]
fn a_sweep_removes_no_more_rows_than_it_is_told() {
    let database = Database::new();
    database.sql(
        "INSERT INTO lock_v1.key (key) SELECT convert_to('n' || i, 'UTF8') FROM generate_series(1, 7) i",
    );
    let counts = [3, 3, 1, 0].map(|_| database.sql("SELECT lock_v1.tidy(3)"));
    assert_eq!(counts, ["3\n", "3\n", "1\n", "0\n"]);
}

/// If each call looked at every lock, a call could take longer than the server lets a statement run, and no call would ever
/// succeed.
#[test]
fn a_call_looks_at_a_bounded_number_of_locks() {
    let database = Database::new();
    database.sql(
        "INSERT INTO lock_v1.key (key) SELECT convert_to('n' || i, 'UTF8') FROM generate_series(1, 3000) i",
    );
    let looks = || -> u64 {
        let sql = "SELECT idx_scan FROM pg_stat_all_tables \
                   WHERE schemaname = 'lock_v1' AND relname = 'holder'";
        database.sql(sql).trim().parse().unwrap()
    };
    let before = looks();
    assert_eq!(database.sql("SELECT lock_v1.tidy(10)"), "10\n");
    eventually("the server has counted", SOON, || looks() > before);
    let looks = looks() - before;
    assert!(looks < 200, "{looks} looks at holders");
}

/// Otherwise all clients that are due during a long sweep would join it.
#[test]
fn one_client_makes_all_steps_of_a_sweep_unless_it_stops() {
    let database = Database::new();
    database.sql(
        "INSERT INTO lock_v1.key (key) SELECT convert_to('n' || i, 'UTF8') FROM generate_series(1, 5) i",
    );
    let step = |from: &str| {
        let sql = format!(
            "SELECT removed, convert_from(reached, 'UTF8') FROM lock_v1.tidy_on(2, {from})"
        );
        database.sql(&sql).trim().to_owned()
    };
    assert_eq!(step("NULL"), "2|n2");
    assert_eq!(step("NULL"), "0|", "another client has begun to sweep a moment ago");
    assert_eq!(step("'n2'"), "2|n4");
    assert_eq!(step("'n2'"), "0|", "the sweep has gone on");
    database.sql("UPDATE lock_v1.meta SET swept = swept - interval '1 minute'");
    assert_eq!(step("NULL"), "1|", "the sweep goes on where it was");
    assert_eq!(step("NULL"), "0|", "a sweep was done a moment ago");
}

/// Locks in use are more than one statement looks at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_sweeps_behind_many_locks_in_use() {
    let database = Database::new();
    database.sql(
        "INSERT INTO lock_v1.key (key, last) SELECT convert_to('n' || i, 'UTF8'), lock_v1.floor(clock_timestamp()) \
           FROM generate_series(1, 1000) i; \
         INSERT INTO lock_v1.key (key) VALUES ('nold')",
    );
    let store = PostgresBackend::builder(database.url()).sweep_interval(Duration::from_millis(20));
    let store = store.build().unwrap();
    store.connect().await.unwrap();
    let old = "SELECT count(*) FROM lock_v1.key WHERE key = 'nold'";
    eventually("the old row is gone", SOON, || database.sql(old) == "0\n");
    assert_eq!(database.sql("SELECT count(*) FROM lock_v1.key"), "1000\n");
    let done = "SELECT reached IS NULL FROM lock_v1.meta";
    eventually("the sweep is done", SOON, || database.sql(done) == "t\n");
}

/// A sweep waits for no transaction: neither for one that has checked the fence, nor for a verb.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_passes_by_what_is_in_use() {
    let database = Database::new();
    let store = database.open();
    let (ours, busy) = (claim("a"), claim("b"));
    let token = granted(&store, &ours, long()).await.tokens.first();
    granted(&store, &busy, long()).await;
    let connect = async || {
        let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    };
    let (mut app, mut verb) = (connect().await, connect().await);
    let transaction = app.transaction().await.unwrap();
    fence::check(&transaction, [(&ours.key, token)]).await.unwrap();
    for claim in [&ours, &busy] {
        store.release(claim).await.unwrap();
    }
    // As if all of it had happened long ago.
    database.sql("UPDATE lock_v1.key SET last = 5");
    let open = verb.transaction().await.unwrap();
    open.batch_execute("SELECT FROM lock_v1.key WHERE key = 'nb' FOR NO KEY UPDATE").await.unwrap();
    let sweep = format!("SET statement_timeout = '5s'; {AGAIN} SELECT lock_v1.tidy(10)");
    assert_eq!(database.sql(&sweep), "0\n");
    transaction.commit().await.unwrap();
    open.commit().await.unwrap();
    let left = "SELECT count(*) FROM lock_v1.held WHERE ends > clock_timestamp()";
    eventually("the transaction is forgotten", SOON, || database.sql(left) == "0\n");
    assert_eq!(database.sql(&sweep), "2\n");
    assert_eq!(database.sql("SELECT count(*) FROM lock_v1.fence"), "0\n");
}

/// Each lock of the server has a place in a table of fixed size.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_gone_do_not_fill_the_table_of_locks() {
    let server =
        PostgresServer::with(&["fsync=off", "max_connections=20", "max_locks_per_transaction=10"]);
    let database = server.database();
    server.sql(&database, &PostgresBackend::schema());
    let store = PostgresBackend::open(server.url(&database)).unwrap();
    let ours = claim("a");
    granted(&store, &ours, long()).await;
    server.sql(
        &database,
        "INSERT INTO lock_v1.watcher SELECT 'na', md5(i::text), i FROM generate_series(1, 20000) i; \
         UPDATE lock_v1.key SET plain = false",
    );
    assert_eq!(store.release(&ours).await.unwrap(), Released::Freed { told: 0 });
    assert_eq!(server.sql(&database, "SELECT count(*) FROM lock_v1.watcher"), "0\n");
}

/// Each introduction removes labels that are over. Two of them, each of which removes the label of the other, must not
/// wait for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_introduce_themselves_again_do_not_block_one_another() {
    let database = Database::new();
    let stores: Vec<_> = (0..8).map(|_| database.open()).collect();
    let claims: Vec<_> = (0..8).map(|_| claim("a")).collect();
    for _ in 0..20 {
        database.sql("UPDATE lock_v1.label SET ends = '-infinity'");
        let all = stores.iter().zip(&claims).map(|(store, claim)| {
            let mark = claim.owner.client();
            async move {
                store.introduce(mark, &Label::new("l").unwrap(), Duration::from_secs(60)).await
            }
        });
        for done in join_all(all).await {
            done.unwrap();
        }
        let live = "SELECT count(*) FROM lock_v1.label WHERE ends > clock_timestamp()";
        assert_eq!(database.sql(live), "8\n");
    }
}

/// Makes the locks with these names look as if they were not used for a day.
fn age(database: &Database, like: &str) {
    database.sql(&format!(
        "UPDATE lock_v1.key SET last = last - 86400 * 4000000::bigint WHERE encode(key, 'escape') LIKE 'n{like}'"
    ));
}

fn names(database: &Database) -> String {
    let names = database.sql("SELECT substr(encode(key, 'escape'), 2) FROM lock_v1.key ORDER BY 1");
    names.trim().replace('\n', " ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_have_old_rows_removed_and_locks_in_use_stay() {
    let database = Database::new();
    let store = database.open();
    let mut last = None;
    for name in ["old1", "old2", "young"] {
        let ours = claim(name);
        last = Some(granted(&store, &ours, long()).await.tokens.last());
        store.release(&ours).await.unwrap();
    }
    let (held, shared, watched) =
        (claim("old-held"), claim("old-shared").in_mode(Mode::Shared), claim("old-watched"));
    granted(&store, &held, long()).await;
    granted(&store, &shared, long()).await;
    let _watch = store.watch(&watched.key).await.unwrap();
    age(&database, "old%");
    database.sql(
        "INSERT INTO lock_v1.fence VALUES ('nold1', 7), ('nold-held', 7);
         INSERT INTO lock_v1.watcher VALUES ('nold2', repeat('0', 32), 1);
         INSERT INTO lock_v1.waiter SELECT 'nold2', 1, 'o', 'x', NULL, 1, 1, false, t, '', t
           FROM (SELECT clock_timestamp() - interval '2 hours' AS t) x;
         UPDATE lock_v1.key SET plain = false WHERE key = 'nold2'",
    );

    let sweeper =
        PostgresBackend::builder(database.url()).sweep_interval(Duration::from_millis(20));
    let sweeper = sweeper.build().unwrap();
    sweeper.connect().await.unwrap();
    eventually("the old rows are gone", SOON, || !names(&database).contains("old1"));
    assert_eq!(names(&database), "old-held old-shared old-watched young");
    for (table, rest) in [("fence", "nold-held"), ("watcher", "nold-watched"), ("waiter", "")] {
        let rows = database.sql(&format!("SELECT encode(key, 'escape') FROM lock_v1.{table}"));
        assert_eq!(rows.trim(), rest, "{table}");
    }
    for ours in [&held, &shared] {
        let renewal = store.renew(&Renew::new(ours.clone(), long())).await;
        assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
        assert_eq!(store.release(ours).await.unwrap(), Released::Freed { told: 0 });
    }
    // Tokens go on as if the row were there.
    let again = granted(&store, &claim("old1"), long()).await;
    assert!(Some(again.tokens.first()) > last, "{again:?} after {last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_client_in_ten_minutes_sweeps_and_goes_on_until_it_is_done() {
    let database = Database::new();
    let store = database.open();
    for index in 0..5 {
        let ours = claim(format!("old{index}"));
        granted(&store, &ours, long()).await;
        store.release(&ours).await.unwrap();
    }
    age(&database, "old%");
    let sweep = || database.sql("SELECT lock_v1.tidy(2)").trim().to_owned();
    assert_eq!([sweep(), sweep(), sweep()], ["2", "2", "1"]);
    granted(&store, &claim("old5"), millis(10)).await;
    age(&database, "old5");
    assert_eq!(sweep(), "0", "another client has swept a moment ago");
}

/// A client that begins to use a key while it is swept has it afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_swept_at_the_moment_can_be_used() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    for round in 0..30 {
        let (ours, theirs) = (claim("old"), claim("old"));
        granted(&one, &ours, long()).await;
        one.release(&ours).await.unwrap();
        age(&database, "old");
        database.sql(AGAIN);
        let sweeping = async {
            let name = database.name.clone();
            let server = database.server;
            let sweep = move || server.sql(&name, "SELECT lock_v1.tidy(9)");
            tokio::task::spawn_blocking(sweep).await.unwrap()
        };
        let using = async {
            let _watch = other.watch(&theirs.key).await.unwrap();
            let outcome = other.try_acquire(&Acquire::new(theirs.clone(), long()).queued()).await;
            assert!(matches!(outcome, Ok(AcquireOutcome::Granted(_))), "{round}: {outcome:?}");
            // The claim of the other client is refused: the lease is there.
            let busy = one.try_acquire(&Acquire::new(claim("old"), long())).await.unwrap();
            assert!(matches!(busy, AcquireOutcome::Busy { .. }), "{round}: {busy:?}");
            other.release(&theirs).await.unwrap()
        };
        let (_, released) = tokio::join!(sweeping, using);
        assert!(matches!(released, Released::Freed { .. }), "{round}: {released:?}");
    }
}
