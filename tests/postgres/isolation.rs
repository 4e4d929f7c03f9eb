//! The level of isolation: the verbs decide by what was committed last, so they refuse every other level.

use lock_core::{Acquire, Backend, ErrorKind, Mode};
use lock_postgres::{PostgresBackend, fence};
use lock_tests::{PgBouncer, SOON, eventually};
use tokio_postgres::{Client, NoTls};

use crate::support::{
    Database, attempt, claim, end_leases, granted, long, refused, short, until_over,
};

const OTHERS: [&str; 2] = ["REPEATABLE READ", "SERIALIZABLE"];

/// What a verb raises at another level.
const REFUSAL: &str = "LK006";

async fn app(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn code(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("", |code| code.code())
}

/// At REPEATABLE READ, the second request would decide by what it saw before it had the row: it would miss the member
/// that the first transaction let in, and be granted the lock beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_decides_by_an_old_view_of_the_holders() {
    for level in OTHERS {
        let database = Database::new();
        let group = format!("j:{}", "0".repeat(32));
        let asks = |owner: char, mode: &str, ttl: u32| {
            let owner = owner.to_string().repeat(32);
            format!(
                "SELECT verdict FROM lock_v1.acquire('ng', '{owner}', '{mode}', {ttl}, 1, false, false, '', 10)"
            )
        };
        let joins = asks('1', &group, 700);
        database.sql(&joins);
        let (first, second) = (app(&database).await, app(&database).await);
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        first.batch_execute(&begin).await.unwrap();
        let joined = first.batch_execute(&asks('2', &group, 60_000)).await;
        let taking = asks('3', "x", 60_000);
        let taking = tokio::spawn(async move {
            second.batch_execute(&begin).await?;
            second.batch_execute(&taking).await?;
            second.batch_execute("COMMIT").await
        });
        let waits = "SELECT count(*) > 0 FROM pg_stat_activity \
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("the second request waits or has failed", SOON, || {
            taking.is_finished() || database.sql(waits) == "t\n"
        });
        until_over(&database);
        _ = first.batch_execute("COMMIT").await;
        let taken = taking.await.unwrap();
        for error in [joined, taken].into_iter().filter_map(Result::err) {
            assert_eq!(code(&error), REFUSAL, "{error:?}");
        }
        let live = "SELECT string_agg(DISTINCT left(mode, 1), '') FROM lock_v1.held \
                    WHERE ends > clock_timestamp()";
        let live = database.sql(live);
        assert!(live.trim().len() <= 1, "{level}: held in these modes at once: {live}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_that_decides_refuses_another_level() {
    let database = Database::new();
    let owner = "1".repeat(32);
    database.sql(&format!(
        "SELECT lock_v1.acquire('nheld', '{owner}', 'x', 60000, 1, false, false, '', 10)"
    ));
    let verbs = [
        "acquire('na', 'O', 'x', 1000, 1, false, false, '', 10)",
        "acquire('na', 'O', 's', 1000, 1, false, false, '', 10)",
        "acquire_all('{na}', '{O}', '{x}', '{1000}', '{1}', '{f}', '')",
        "release('na', 'O', 's', '')",
        "requeue('nheld', 'O', 'x', 'P', 'x', 1000, 1, false, '', 10)",
        "convert('nheld', 'O', 'x', 's', 1000, 1, false, '', 10)",
        "watch('na', '', 1)",
        "unwatch('na', '', 1)",
        "permits('na', 3)",
        "resize('na', 3, 'a', 1, '')",
        "forget('na', 'O', 'p:1:3', '')",
        "close('na', 3, '')",
        "undeclare('nheld', 'O')",
        "store('nheld', 'O', 1, 'v', '')",
        "commit('nheld', 'O', 1, 'v', '')",
        "vote('na', 'O', 'x', 1000, 1, 1, '', NULL)",
        "confirm('nheld', 'O', 'x', 1)",
        "stand('s', 'm', 1000, 'c', '')",
        "vouch('s', 1000)",
        "force_release('nheld', '')",
        "tidy(10)",
        "tidy_on(10, NULL)",
    ];
    let app = app(&database).await;
    for (level, verb) in OTHERS.iter().flat_map(|it| verbs.iter().map(move |verb| (it, verb))) {
        app.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).await.unwrap();
        let call = verb.replace('O', &owner).replace('P', &"2".repeat(32));
        let refusal = app.batch_execute(&format!("SELECT lock_v1.{call}")).await;
        let error = refusal.expect_err(verb);
        assert_eq!(code(&error), REFUSAL, "{level} {verb}: {error:?}");
        app.batch_execute("ROLLBACK").await.unwrap();
    }
}

/// Behind a pooler, the level is that of the role or of the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_another_level_is_named_and_a_direct_client_goes_on() {
    for level in ["repeatable read", "serializable"] {
        let database = Database::new();
        let name = &database.name;
        database
            .sql(&format!("ALTER DATABASE {name} SET default_transaction_isolation = '{level}'"));
        let pooler = PgBouncer::before(database.server, name, 2);
        let pooled = PostgresBackend::builder(pooler.url()).without_direct_connection();
        let (pooled, direct) = (pooled.build().unwrap(), database.open());
        let report = pooled.check().await.unwrap();
        assert_eq!(report.with_code("isolation").count(), 1, "{report}");
        let report = direct.check().await.unwrap();
        assert_eq!(report.with_code("isolation").count(), 0, "{report}");
        let ours = claim("a");
        granted(&direct, &ours, long()).await;
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Upgradable] {
            for name in ["a", "b"] {
                let theirs = claim(name).in_mode(mode);
                let error = attempt(&pooled, &theirs, long()).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
                assert!(error.to_string().contains("read committed"), "{error}");
            }
        }
        let _watch = direct.watch(&ours.key).await.unwrap();
        let queued = Acquire::new(claim("a"), long()).queued();
        let _queued = direct.try_acquire(&queued).await.unwrap();
        direct.release(&ours).await.unwrap();
    }
}

/// The transactions of apps may have any level.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fence_holds_at_every_level() {
    for level in OTHERS {
        let database = Database::new();
        let (one, other) = (database.open(), database.open());
        let (ours, theirs) = (claim("a"), claim("a"));
        let token = granted(&one, &ours, long()).await.tokens.first();
        let mut client = app(&database).await;
        client
            .batch_execute(&format!("SET default_transaction_isolation = '{level}'"))
            .await
            .unwrap();
        let transaction = client.transaction().await.unwrap();
        fence::check(&transaction, [(&ours.key, token)]).await.unwrap();
        end_leases(&database);
        refused(&other, &theirs).await.expect("a time to ask again");
        transaction.commit().await.unwrap();
        until_over(&database);

        // A transaction that has seen the former lease, and not the next one.
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute("SELECT 1 FROM lock_v1.key").await.unwrap();
        granted(&other, &theirs, long()).await;
        assert!(fence::check(&transaction, [(&ours.key, token)]).await.is_err(), "{level}");
    }
}

/// A transaction that is older than the grant or the renewal does not see the lease. That is no loss of the lease: a
/// repetition passes. A token that holds nothing is refused at each level.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_does_not_see_the_lease_fails_to_serialize() {
    for level in OTHERS {
        let database = Database::new();
        let store = database.open();
        let renewed = claim("renewed");
        let mut client = app(&database).await;
        let old = granted(&store, &renewed, short()).await.tokens.first();
        client
            .batch_execute(&format!("SET default_transaction_isolation = '{level}'"))
            .await
            .unwrap();
        for name in ["fresh", "renewed"] {
            let transaction = client.transaction().await.unwrap();
            transaction.batch_execute("SELECT 1 FROM lock_v1.key").await.unwrap();
            let (ours, token) = if name == "fresh" {
                let ours = claim("fresh");
                let grant = granted(&store, &ours, long()).await;
                (ours, grant.tokens.first())
            } else {
                let sql = "UPDATE lock_v1.key SET ends = clock_timestamp() + interval '1 minute' WHERE key = 'nrenewed'";
                database.sql(sql);
                (renewed.clone(), old)
            };
            if name == "renewed" {
                let seen = "SELECT count(*) FROM lock_v1.key WHERE key = 'nrenewed' AND ends > clock_timestamp()";
                let over =
                    async || transaction.query_one(seen, &[]).await.unwrap().get::<_, i64>(0) == 0;
                lock_tests::eventually_async("the lease that it sees is over", SOON, over).await;
            }
            let error = fence::check(&transaction, [(&ours.key, token)]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotReady, "{level}, {name}: {error:?}");
            transaction.rollback().await.unwrap();
            let transaction = client.transaction().await.unwrap();
            fence::check(&transaction, [(&ours.key, token)]).await.unwrap();
            transaction.rollback().await.unwrap();
        }
        let transaction = client.transaction().await.unwrap();
        let error = fence::check(&transaction, [(&claim("never").key, old)]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotHeld, "{error:?}");
        transaction.rollback().await.unwrap();
    }
}
