//! The fence inside the transactions of apps.

use std::num::NonZeroU32;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, ErrorKind, FencingToken, Hint, Key, Mode, OwnerToken,
    Released, Renew, Renewal,
};
use lock_postgres::fence;
use lock_tests::{SOON, eventually, soon};
use tokio_postgres::NoTls;

use crate::support::{
    Database, attempt, claim, end_leases, granted, long, millis, refused, until_over,
};

async fn app(database: &Database) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn check(
    database: &Database,
    key: &Key,
    token: FencingToken,
) -> Result<(), lock_core::Error> {
    let mut app = app(database).await;
    let transaction = app.transaction().await.unwrap();
    let checked = fence::check(&transaction, [(key, token)]).await;
    // A transaction that is only dropped may keep the lock for a moment. To commit a failed one is to roll it back.
    transaction.commit().await.unwrap();
    checked
}

/// The first version of the prototype granted by a plain UPDATE. Then this takeover went through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_waits_for_a_transaction_that_has_checked() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    let (ours, theirs) = (claim("a"), claim("a"));
    let mut app = app(&database).await;
    let grant = granted(&one, &ours, long()).await;
    let transaction = app.transaction().await.unwrap();
    fence::check(&transaction, [(&ours.key, grant.tokens.first())]).await.unwrap();

    let renewal = one.renew(&Renew::new(ours.clone(), long())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "a renewal waited for the transaction");
    end_leases(&database);
    for _ in 0..3 {
        let again = refused(&other, &theirs).await.expect("a time to ask again");
        assert!(again <= millis(50).duration(), "{again:?}");
    }
    transaction.commit().await.unwrap();
    until_over(&database);
    let later = granted(&other, &theirs, long()).await;
    assert!(later.tokens.first() > grant.tokens.last());
}

/// If a verb read the clock once for the tokens and once more for the end, a slow statement could give tokens of a time
/// at which another lease was there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tokens_and_the_end_of_a_lease_come_from_one_reading_of_the_clock() {
    let database = Database::new();
    let store = database.open();
    let five = NonZeroU32::new(5).unwrap();
    // A lock that has a row takes a shorter way than a new one.
    for (index, mode) in (0..8).flat_map(|index| [(index, Mode::Exclusive), (index, Mode::Shared)])
    {
        let ours = claim(format!("{}", index % 4)).in_mode(mode);
        let request = Acquire::new(ours.clone(), long()).reserving(five);
        let outcome = store.try_acquire(&request).await.unwrap();
        let AcquireOutcome::Granted(grant) = outcome else { panic!("{outcome:?}") };
        let (first, last) = (grant.tokens.first(), grant.tokens.last());
        assert_eq!(grant.tokens.count(), five);
        let row = "SELECT h.first, h.first + h.count - 1, k.last, lock_v1.floor(h.ends - lock_v1.ms(h.ttl)) \
                   FROM lock_v1.held h JOIN lock_v1.key k USING (key)";
        assert_eq!(database.sql(row), format!("{first}|{last}|{last}|{first}\n"), "{ours:?}");
        store.release(&ours).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_during_the_transaction_frees_the_lock_after_it() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    let (ours, theirs) = (claim("a"), claim("a"));
    let grant = granted(&one, &ours, long()).await;
    let mut app = app(&database).await;
    let transaction = app.transaction().await.unwrap();
    fence::check(&transaction, [(&ours.key, grant.tokens.first())]).await.unwrap();

    assert_eq!(one.release(&ours).await.unwrap(), Released::Freed { told: 0 });
    refused(&other, &theirs).await.expect("a time to ask again");
    let reader = theirs.clone().in_mode(Mode::Shared);
    refused(&other, &reader).await.expect("a time to ask again");
    transaction.rollback().await.unwrap();
    until_over(&database);
    granted(&other, &theirs, long()).await;
}

/// A waiter that has a place is served, although no message tells it of the end of the transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_served_after_the_transaction() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    let (ours, theirs) = (claim("a"), claim("a"));
    let grant = granted(&one, &ours, long()).await;
    let _watch = other.watch(&theirs.key).await.unwrap();
    let request = Acquire::new(theirs, long()).queued();
    let first = other.try_acquire(&request).await.unwrap();
    assert!(matches!(first, AcquireOutcome::Queued { .. }), "{first:?}");
    let mut app = app(&database).await;
    let transaction = app.transaction().await.unwrap();
    fence::check(&transaction, [(&ours.key, grant.tokens.first())]).await.unwrap();

    assert!(matches!(one.release(&ours).await.unwrap(), Released::Freed { .. }));
    let soon = other.try_acquire(&request).await.unwrap();
    let AcquireOutcome::Queued { retry_after: Some(after) } = soon else { panic!("{soon:?}") };
    assert!(after <= millis(50).duration(), "{after:?}");
    transaction.commit().await.unwrap();
    until_over(&database);
    let served = other.try_acquire(&request).await.unwrap();
    assert!(matches!(served, AcquireOutcome::Granted(_)), "{served:?}");
}

/// A client that watches without a place hears of the release, and asks again until the transaction has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_hears_of_a_release_during_the_transaction() {
    let modes = [Mode::Exclusive, Mode::Shared];
    for mode in modes {
        let database = Database::new();
        let (one, other) = (database.open(), database.open());
        let (ours, theirs) = (claim("a").in_mode(mode), claim("a"));
        let grant = granted(&one, &ours, long()).await;
        let mut watch = other.watch(&theirs.key).await.unwrap();
        refused(&other, &theirs).await.expect("a time to ask again");
        let mut app = app(&database).await;
        let transaction = app.transaction().await.unwrap();
        let tokens = [(&ours.key, grant.tokens.first())];
        match mode {
            Mode::Exclusive => fence::check(&transaction, tokens).await.unwrap(),
            _ => fence::check_shared(&transaction, tokens).await.unwrap(),
        }
        assert_eq!(one.release(&ours).await.unwrap(), Released::Freed { told: 1 });
        assert_eq!(soon(watch.next()).await, Some(Hint::Released), "{mode:?}");
        let again = refused(&other, &theirs).await.expect("a time to ask again");
        assert!(again <= millis(50).duration(), "{again:?}");
        transaction.commit().await.unwrap();
        until_over(&database);
        granted(&other, &theirs, long()).await;
    }
}

/// The machine of an app may vanish in the middle of a transaction. Operators find the session that is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_find_the_sessions_that_keep_a_lock() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let database = Database::new();
        let store = database.open();
        let ours = claim("a").in_mode(mode);
        let token = granted(&store, &ours, long()).await.tokens.first();
        let pins = || database.sql("SELECT pid FROM lock_v1.pins('a') ORDER BY pid");
        assert_eq!(pins(), "");
        let check = match mode {
            Mode::Exclusive => "check",
            _ => "check_shared",
        };
        let mut sessions = Vec::new();
        // The second one waits for the first if the tokens have an order.
        let many = if mode == Mode::Exclusive { 1 } else { 3 };
        for _ in 0..many {
            let session = app(&database).await;
            let pid = session.query_one("SELECT pg_backend_pid()", &[]).await.unwrap();
            let sql = format!("BEGIN; SAVEPOINT s; SELECT lock_v1.{check}('a', {token})");
            session.batch_execute(&sql).await.unwrap();
            sessions.push((pid.get::<_, i32>(0), session));
            let mut pids: Vec<_> = sessions.iter().map(|(pid, _)| *pid).collect();
            pids.sort_unstable();
            let listed: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
            assert_eq!(pins(), listed, "{mode:?}");
        }
        store.release(&ours).await.unwrap();
        assert_eq!(pins().lines().count(), many);
        database.sql("SELECT pg_terminate_backend(pid) FROM lock_v1.pins('a')");
        eventually("no session keeps the lock", SOON, || pins().is_empty());
        until_over(&database);
        granted(&store, &claim("a"), long()).await;
    }
}

/// A statement that begins before a grant may see the former version of the row. FOR KEY SHARE takes that version if
/// the row was changed FOR NO KEY UPDATE alone. So every grant has to lock FOR UPDATE the very version that it changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_never_takes_the_version_of_a_row_before_a_grant() {
    // How the former lease ends, and how the next owner gets the lock.
    let ends = ["over", "released"];
    let grants = [
        "SELECT lock_v1.acquire('na', 'O', 'x', 60000, 1, false, false, '', 10)",
        "SELECT lock_v1.ask('na', 'O', 'x', 60000, 1, false, false, '', 10, NULL)",
        "SELECT lock_v1.ask('na', 'O', 's', 60000, 1, false, false, '', 10, NULL)",
        "SELECT lock_v1.acquire_all('{na}', '{O}', '{x}', '{60000}', '{1}', '{f}', '')",
        "SELECT lock_v1.vote('na', 'O', 'x', 60000, 1, 1, '', NULL)",
    ];
    for (end, grant) in ends.iter().flat_map(|end| grants.iter().map(move |grant| (end, grant))) {
        let database = Database::new();
        let store = database.open();
        let ours = claim("a");
        let token = granted(&store, &ours, long()).await.tokens.first();
        if *end == "released" {
            store.release(&ours).await.unwrap();
        } else {
            database.sql("UPDATE lock_v1.key SET ends = clock_timestamp()");
        }
        // A grant that is not committed, and a check that begins before its commit.
        let granting = app(&database).await;
        granting.batch_execute("BEGIN").await.unwrap();
        granting.batch_execute(&grant.replace('O', &"7".repeat(32))).await.unwrap();
        let checking = app(&database).await;
        let share = "SELECT owner FROM lock_v1.key WHERE key = 'na' FOR KEY SHARE";
        let checking = tokio::spawn(async move { checking.query_one(share, &[]).await });
        let waits = "SELECT count(*) FROM pg_stat_activity \
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        eventually("the check waits for the grant", SOON, || {
            assert!(!checking.is_finished(), "the check took an old version: {end}, {grant}");
            database.sql(waits) == "1\n"
        });
        granting.batch_execute("COMMIT").await.unwrap();
        let row = checking.await.unwrap().unwrap();
        let owner: Option<String> = row.get(0);
        let expected = (!grant.contains("'s'")).then(|| "7".repeat(32));
        assert_eq!(owner, expected, "{end}, {grant}");
        assert!(check(&database, &ours.key, token).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_refuses_a_writer_whose_lease_is_over() {
    let database = Database::new();
    database.sql("CREATE TABLE stock (apples int); INSERT INTO stock VALUES (3)");
    let (one, other) = (database.open(), database.open());
    let (ours, theirs) = (claim("a"), claim("a"));
    let stale = granted(&one, &ours, millis(200)).await.tokens.first();
    until_over(&database);
    assert_eq!(check(&database, &ours.key, stale).await.unwrap_err().kind(), ErrorKind::NotHeld);

    let fresh = granted(&other, &theirs, long()).await.tokens.first();
    let mut app = app(&database).await;
    let transaction = app.transaction().await.unwrap();
    let refusal = fence::check(&transaction, [(&ours.key, stale)]).await.unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::NotHeld);
    // An app that ignores the refusal writes nothing either.
    assert!(transaction.execute("UPDATE stock SET apples = 0", &[]).await.is_err());
    _ = transaction.commit().await;
    assert_eq!(database.sql("SELECT apples FROM stock"), "3\n");
    check(&database, &ours.key, fresh).await.unwrap();
}

/// A process that passes its lease from task to task gives each the next token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_token_of_one_lease_shuts_out_the_older_one() {
    let database = Database::new();
    let store = database.open();
    let ours = claim("a");
    let request = Acquire::new(ours.clone(), long()).reserving(NonZeroU32::new(3).unwrap());
    let outcome = store.try_acquire(&request).await.unwrap();
    let AcquireOutcome::Granted(grant) = outcome else { panic!("{outcome:?}") };
    let token = |index| grant.tokens.nth(index).unwrap();

    check(&database, &ours.key, token(1)).await.unwrap();
    check(&database, &ours.key, token(1)).await.unwrap();
    let error = check(&database, &ours.key, token(0)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld);
    check(&database, &ours.key, token(2)).await.unwrap();
    let beyond = FencingToken::new(token(2).get() + 1);
    assert_eq!(check(&database, &ours.key, beyond).await.unwrap_err().kind(), ErrorKind::NotHeld);
}

/// Tokens that a renewal has reserved belong to the lease as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_a_renewal_pass() {
    let database = Database::new();
    let store = database.open();
    let ours = claim("a");
    let first = granted(&store, &ours, long()).await.tokens.first();
    let renewal = store.renew(&Renew::new(ours.clone(), long()).reserving(4)).await;
    let Renewal::Renewed { tokens: Some(more), .. } = renewal else { panic!("{renewal:?}") };
    check(&database, &ours.key, first).await.unwrap();
    check(&database, &ours.key, more.last()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_in_a_transaction_keeps_writers_out_and_not_readers() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    let key = Key::new("a").unwrap();
    let new = |mode| Claim::exclusive(key.clone(), OwnerToken::generate().unwrap()).in_mode(mode);
    let (ours, theirs, writer) = (new(Mode::Shared), new(Mode::Shared), new(Mode::Exclusive));
    let mut app = app(&database).await;
    let token = granted(&one, &ours, long()).await.tokens.first();
    let transaction = app.transaction().await.unwrap();
    fence::check_shared(&transaction, [(&key, token)]).await.unwrap();
    end_leases(&database);

    refused(&other, &writer).await.expect("a time to ask again");
    granted(&other, &theirs, long()).await;
    assert!(matches!(one.renew(&Renew::new(ours.clone(), long())).await, Renewal::Lost));
    other.release(&theirs).await.unwrap();
    refused(&other, &writer).await.expect("a time to ask again");
    transaction.commit().await.unwrap();
    granted(&other, &writer, long()).await;
    let stale = app.transaction().await.unwrap();
    let error = fence::check_shared(&stale, [(&key, token)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotHeld);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_driver_can_check() {
    let database = Database::new();
    let store = database.open();
    let ours = claim("stock/äpfel");
    let token = granted(&store, &ours, long()).await.tokens.first();
    let check = |token: u64| {
        let sql = format!("SELECT lock_v1.check('stock/äpfel', {token})");
        database.server.try_sql(&database.name, &sql)
    };
    check(token.get()).unwrap();
    let why = check(token.get() - 1).unwrap_err();
    assert!(why.contains("a newer fencing token was seen"), "{why}");
    store.release(&ours).await.unwrap();
    assert!(check(token.get()).unwrap_err().contains("no lease with the fencing token"));
    assert!(attempt(&store, &claim("stock/äpfel"), long()).await.is_ok());
}
