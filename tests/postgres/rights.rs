//! What a role needs, and what it cannot do.

use lock_core::{
    Acquire, Backend, CellBackend, ErrorKind, InspectBackend, List, Mode, PermitBackend, Renew,
    Renewal, Resize, Stored,
};
use lock_postgres::{PostgresBackend, fence};

use crate::support::{Database, attempt, claim, granted, long};

/// A role of its own for a database: roles belong to the whole server.
fn role(database: &Database, allowed: bool) -> (String, PostgresBackend) {
    let role = format!("role_{}", database.name);
    database.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'pw'"));
    if allowed {
        database.sql(&format!("CALL lock_v1.allow('{role}')"));
    }
    let url = database.server.url_as(&role, "pw", &database.name);
    (role, PostgresBackend::open(url).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_call_the_verbs_can_do_all_that_a_client_does() {
    let database = Database::new();
    let (_, store) = role(&database, true);
    store.connect().await.unwrap();
    let ours = claim("a");
    let _watch = store.watch(&ours.key).await.unwrap();
    let token = granted(&store, &ours, long()).await.tokens.first();
    assert!(matches!(
        store.renew(&Renew::new(ours.clone(), long())).await,
        Renewal::Renewed { .. }
    ));
    assert_eq!(store.store(&ours, token, Some(b"v")).await.unwrap(), Stored::Written);
    assert_eq!(store.inspect(&ours.key).await.unwrap().holding, 1);
    assert_eq!(store.list(&List::of("")).await.unwrap().locks.len(), 1);
    let _queued = store.try_acquire(&Acquire::new(claim("a"), long()).queued()).await.unwrap();
    store.release(&ours).await.unwrap();
    let reader = claim("b").in_mode(Mode::Shared);
    granted(&store, &reader, long()).await;
    let semaphore = claim("c").key;
    store.resize(&semaphore, 3, Resize::Add(1)).await.unwrap();
    assert_eq!(store.permits(&semaphore, 3).await.unwrap().limit, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_can_neither_touch_the_tables_nor_call_what_is_inside() {
    let database = Database::new();
    let (role, store) = role(&database, true);
    granted(&store, &claim("a"), long()).await;
    let denied = |sql: &str| {
        let sql = format!("SET ROLE {role}; {sql}");
        let why = database.server.try_sql(&database.name, &sql).expect_err(&sql);
        assert!(why.contains("permission denied"), "{sql}: {why}");
    };
    for table in [
        "key",
        "holder",
        "waiter",
        "watcher",
        "semaphore",
        "cell",
        "fence",
        "label",
        "meta",
        "held",
        "node",
        "standing",
    ] {
        denied(&format!("SELECT * FROM lock_v1.{table}"));
    }
    denied("UPDATE lock_v1.key SET last = 0");
    denied("DELETE FROM lock_v1.fence");
    denied("TRUNCATE lock_v1.key");
    denied("CREATE TABLE lock_v1.mine (a int)");
    denied("SELECT lock_v1.serve('a', '', '', clock_timestamp())");
    denied("SELECT lock_v1.drop_lease('a', 'o', 'x', clock_timestamp())");
    denied("SELECT lock_v1.put('a', 'o', 'x', 1, 1, clock_timestamp(), '', clock_timestamp())");
    denied("SELECT lock_v1.force_release('a', '')");
    denied(&format!("CALL lock_v1.allow('{role}')"));
}

/// The transactions of the app run as that role. A refusal aborts the transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_call_the_verbs_can_check_the_fence_in_its_transactions() {
    let database = Database::new();
    let (role, store) = role(&database, true);
    let (ours, reader) = (claim("a"), claim("b").in_mode(Mode::Shared));
    let tokens = granted(&store, &ours, long()).await.tokens;
    let read = granted(&store, &reader, long()).await.tokens.first();
    database.sql(&format!("CREATE TABLE sold (n int); GRANT INSERT ON sold TO {role}"));
    let url = database.server.url_as(&role, "pw", &database.name);
    let (mut app, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let (key, other) = (&ours.key, &reader.key);

    let sale = app.transaction().await.unwrap();
    fence::check(&sale, [(key, tokens.first())]).await.unwrap();
    fence::check_shared(&sale, [(other, read)]).await.unwrap();
    sale.batch_execute(&format!(
        "SELECT lock_v1.check('a', {}); SELECT lock_v1.check_shared('b', {read}); INSERT INTO sold VALUES (1)",
        tokens.first()
    ))
    .await
    .unwrap();
    sale.commit().await.unwrap();

    store.release(&ours).await.unwrap();
    let newer = granted(&store, &claim("a"), long()).await.tokens.first();
    let sale = app.transaction().await.unwrap();
    let stale = fence::check(&sale, [(key, tokens.last())]).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::NotHeld, "{stale:?}");
    sale.batch_execute("INSERT INTO sold VALUES (2)").await.unwrap_err();
    sale.rollback().await.unwrap();
    let sale = app.transaction().await.unwrap();
    let stale = fence::check_shared(&sale, [(other, newer)]).await.unwrap_err();
    assert_eq!(stale.kind(), ErrorKind::NotHeld, "{stale:?}");
    sale.rollback().await.unwrap();
    let sql = format!("SELECT lock_v1.check('a', {})", tokens.first());
    let stale = app.batch_execute(&sql).await.unwrap_err();
    assert_eq!(stale.code().unwrap().code(), "LK001", "{stale:?}");
    assert_eq!(database.sql("SELECT n FROM sold"), "1\n");
}

/// An operator may end the leases of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_is_allowed_more() {
    let database = Database::new();
    let (role, store) = role(&database, true);
    let ours = claim("a");
    granted(&store, &ours, long()).await;
    let denied = store.force_release(&ours.key).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied);
    database.sql(&format!("CALL lock_v1.allow_operator('{role}')"));
    assert_eq!(store.force_release(&ours.key).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_role_is_denied() {
    let database = Database::new();
    let (_, store) = role(&database, false);
    let error = attempt(&store, &claim("a"), long()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert_eq!(store.connect().await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(store.init().await.unwrap_err().kind(), ErrorKind::Denied);

    let url = database.server.url_as(&format!("role_{}", database.name), "wrong", &database.name);
    let error =
        attempt(&PostgresBackend::open(url).unwrap(), &claim("a"), long()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
}

#[test]
fn public_may_call_nothing() {
    let database = Database::new();
    let functions = "SELECT count(*) FROM pg_proc p WHERE p.pronamespace = 'lock_v1'::regnamespace";
    let all: u32 = database.sql(functions).trim().parse().unwrap();
    assert!(all > 40, "{all}");
    let role = format!("role_{}", database.name);
    database.sql(&format!("CREATE ROLE {role}"));
    let open = format!("{functions} AND has_function_privilege('{role}', p.oid, 'EXECUTE')");
    assert_eq!(database.sql(&open), "0\n");
}

/// Why the schema revokes after each change, and does not rely on default privileges.
#[test]
fn default_privileges_of_a_schema_do_not_keep_public_out() {
    let database = Database::empty();
    let role = format!("role_{}", database.name);
    database.sql(&format!(
        "CREATE ROLE {role}; CREATE SCHEMA s; GRANT USAGE ON SCHEMA s TO PUBLIC; \
         ALTER DEFAULT PRIVILEGES IN SCHEMA s REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; \
         CREATE FUNCTION s.f() RETURNS int LANGUAGE sql AS 'SELECT 1'"
    ));
    let may = format!("SELECT has_function_privilege('{role}', 's.f()', 'EXECUTE')");
    assert_eq!(database.sql(&may), "t\n");
    database.sql("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA s FROM PUBLIC");
    assert_eq!(database.sql(&may), "f\n");
}
