//! The fence for readers whose lease is, or was, exclusive.

use std::num::NonZeroU32;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Convert, ConvertBackend, ErrorKind, FencingToken, Key,
    Mode, Renew, Renewal,
};
use lock_postgres::{PostgresBackend, fence};
use lock_sync::{Locks, RwLockReadGuard};
use lock_tests::{SOON, eventually, soon};
use tokio::runtime::Handle;
use tokio_postgres::{Client, NoTls};

use crate::support::{Database, claim, granted, long, refused, until_over};

async fn app(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// What a check in a transaction of its own says.
async fn checked(database: &Database, key: &Key, token: FencingToken) -> Result<(), ErrorKind> {
    let mut app = app(database).await;
    let transaction = app.transaction().await.unwrap();
    fence::check_shared(&transaction, [(key, token)]).await.map_err(|error| error.kind())
}

async fn converted(store: &PostgresBackend, held: &Claim, to: Mode) -> Claim {
    let convert = Convert::new(held.clone(), to, long());
    let outcome = store.convert(&convert).await.unwrap();
    assert!(matches!(outcome, AcquireOutcome::Granted(_)), "{outcome:?}");
    convert.request.claim
}

/// A process lets its readers in before the database has converted its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_under_an_exclusive_lease_passes_and_keeps_the_lock() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    let (ours, theirs) = (claim("a"), claim("a"));
    let token = granted(&one, &ours, long()).await.tokens.first();
    let mut app = app(&database).await;
    let transaction = app.transaction().await.unwrap();
    fence::check_shared(&transaction, [(&ours.key, token)]).await.unwrap();
    one.release(&ours).await.unwrap();
    refused(&other, &theirs).await.expect("a time to ask again");
    transaction.commit().await.unwrap();
    until_over(&database);
    granted(&other, &theirs, long()).await;
    assert_eq!(checked(&database, &ours.key, token).await, Err(ErrorKind::NotHeld));
}

/// At once, and after the database has converted the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_passes_after_its_downgrade() {
    let database = Database::new();
    let client = || Locks::builder(database.open()).on_runtime(Handle::current()).build().unwrap();
    let (one, other) = (client(), client());
    let (lock, theirs) = (one.rwlock("a", ()).unwrap(), other.rwlock("a", ()).unwrap());
    let guard = soon(lock.write()).await.unwrap().downgrade();
    let lease = RwLockReadGuard::lease(&guard);
    let check = async || {
        for (key, token) in lease.fencing_tokens() {
            assert_eq!(checked(&database, key, token).await, Ok(()), "{token}");
        }
    };
    check().await;
    let beside = soon(theirs.read()).await.unwrap();
    check().await;
    drop((guard, beside));
}

/// A writer of the same process has had the lock since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_token_of_an_exclusive_lease_shuts_out_an_older_reader() {
    let database = Database::new();
    let store = database.open();
    let ours = claim("a");
    let request = Acquire::new(ours.clone(), long()).reserving(NonZeroU32::new(2).unwrap());
    let outcome = store.try_acquire(&request).await.unwrap();
    let AcquireOutcome::Granted(grant) = outcome else { panic!("{outcome:?}") };
    assert_eq!(checked(&database, &ours.key, grant.tokens.first()).await, Ok(()));
    database.sql(&format!("SELECT lock_v1.check('a', {})", grant.tokens.last()));
    assert_eq!(checked(&database, &ours.key, grant.tokens.first()).await, Err(ErrorKind::NotHeld));
    assert_eq!(checked(&database, &ours.key, grant.tokens.last()).await, Ok(()));
}

/// A lease that has lived for a quarter of an hour has tokens that lie further apart than 32 bits can count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_a_renewal_pass_after_conversions() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    let ours = claim("a");
    granted(&one, &ours, long()).await;
    let renewal = one.renew(&Renew::new(ours.clone(), long()).reserving(4)).await;
    let Renewal::Renewed { tokens: Some(more), .. } = renewal else { panic!("{renewal:?}") };
    database.sql("UPDATE lock_v1.key SET first = first - 3600000000");
    let first = database.sql("SELECT first FROM lock_v1.key");
    let first = FencingToken::new(first.trim().parse().unwrap());

    let upgradable = converted(&one, &ours, Mode::Upgradable).await;
    for token in [first, more.first(), more.last()] {
        assert_eq!(checked(&database, &ours.key, token).await, Ok(()), "{token}");
    }
    let reader = converted(&one, &upgradable, Mode::Shared).await;
    let theirs = claim("a").in_mode(Mode::Shared);
    let beyond = granted(&other, &theirs, long()).await.tokens.first();
    for token in [first, more.first(), more.last(), beyond] {
        assert_eq!(checked(&database, &ours.key, token).await, Ok(()), "{token}");
    }
    // The tokens go with the lease.
    one.release(&reader).await.unwrap();
    for token in [first, more.last()] {
        assert_eq!(checked(&database, &ours.key, token).await, Err(ErrorKind::NotHeld), "{token}");
    }
    assert_eq!(checked(&database, &ours.key, beyond).await, Ok(()));
}

/// The check finds an exclusive lease, waits for the conversion, and finds the lease of a reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_meets_a_conversion_passes() {
    let database = Database::new();
    let owner = "7".repeat(32);
    let grant = format!("lock_v1.acquire('na', '{owner}', 'x', 60000, 1, false, false, '', 10)");
    let token: u64 = database.sql(&format!("SELECT first FROM {grant}")).trim().parse().unwrap();
    let converting = app(&database).await;
    let convert = format!("lock_v1.convert('na', '{owner}', 'x', 's', 60000, 1, false, '', 10)");
    converting.batch_execute(&format!("BEGIN; SELECT {convert}")).await.unwrap();
    let checking = app(&database).await;
    let check = format!("SELECT lock_v1.check_shared('a', {token})");
    let checking = tokio::spawn(async move { checking.batch_execute(&check).await });
    let waits = "SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("the check waits for the conversion, or has ended", SOON, || {
        checking.is_finished() || database.sql(waits) == "1\n"
    });
    converting.batch_execute("COMMIT").await.unwrap();
    checking.await.unwrap().unwrap();
}
