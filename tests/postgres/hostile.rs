//! Roles that mean harm, and input that no client sends.

use lock_core::{Backend, ErrorKind, OwnerToken};
use lock_postgres::{PostgresBackend, fence};
use tokio_postgres::NoTls;

use crate::support::{Database, claim, end_leases, granted, long};

/// A role that may log in and create things in the schema `public`.
fn role(database: &Database, name: &str) -> String {
    let role = format!("{name}_{}", database.name);
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'pw'; GRANT CREATE ON SCHEMA public TO {role}"
    ));
    role
}

/// The check runs in sessions of others, which look into schemas of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_check_calls_no_function_of_another_role() {
    let database = Database::new();
    let evil = role(&database, "evil");
    let store = database.open();
    let (stale, theirs) = (claim("stock"), claim("evil"));
    let old = granted(&store, &stale, long()).await.tokens.first();
    store.release(&stale).await.unwrap();
    granted(&store, &claim("stock"), long()).await;
    let other = granted(&store, &theirs, long()).await.tokens.first();
    let shared = claim("evil/shared").in_mode(lock_core::Mode::Shared);
    let reader = granted(&store, &shared, long()).await.tokens.first();
    database.sql(&format!(
        "SET ROLE {evil}; CREATE FUNCTION public.convert_to(text, text) RETURNS bytea LANGUAGE sql AS \
         $$ SELECT CASE WHEN $1 LIKE '%shared' THEN 'nevil/shared' ELSE 'nevil' END::bytea $$"
    ));
    for call in [
        format!("check('stock', {old})"),
        format!("check('stock', {other})"),
        format!("check_shared('stock/shared', {reader})"),
    ] {
        let sql = format!("SET search_path = public; SELECT lock_v1.{call}");
        let why = database.server.try_sql(&database.name, &sql).expect_err(&sql);
        assert!(why.contains("fencing token"), "{sql}: {why}");
    }
}

/// All that a role may call, and all that its owner calls by name.
#[test]
fn every_function_that_is_called_from_outside_has_a_search_path() {
    let database = Database::new();
    let role = role(&database, "app");
    database.sql(&format!("CALL lock_v1.allow_operator('{role}')"));
    let functions = format!(
        "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'lock_v1'::regnamespace \
         AND (has_function_privilege('{role}', p.oid, 'EXECUTE') OR p.prokind = 'p')"
    );
    let all = database.sql(&functions);
    assert!(all.lines().count() > 25, "{all}");
    assert!(all.lines().any(|it| it == "allow") && all.lines().any(|it| it == "check"), "{all}");
    let open = format!(
        "{functions} AND NOT coalesce(p.proconfig @> ARRAY['search_path=pg_catalog, pg_temp'], false)"
    );
    assert_eq!(database.sql(&open), "");
}

/// The owner of the schema can add functions to the schema. The functions of the crate, which run with the rights of
/// the role that called `init`, would call them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_of_another_role_is_not_filled() {
    let database = Database::empty();
    let evil = role(&database, "evil");
    database.sql(&format!(
        "GRANT CREATE ON DATABASE {} TO {evil}; SET ROLE {evil}; CREATE SCHEMA lock_v1",
        database.name
    ));
    let store = database.open();
    let error = store.init().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(error.to_string().contains(&evil), "{error}");
    let content = "SELECT count(*) FROM pg_class WHERE relnamespace = 'lock_v1'::regnamespace";
    assert_eq!(database.sql(content), "0\n");

    // Neither if it looks complete: a superuser runs no functions of others.
    database.sql(&format!(
        "SET ROLE {evil}; CREATE FUNCTION lock_v1.version() RETURNS int LANGUAGE sql AS 'SELECT 99'; \
         CREATE FUNCTION lock_v1.functions() RETURNS text LANGUAGE sql AS $$ SELECT '9999009009 x' $$"
    ));
    assert_eq!(store.init().await.unwrap_err().kind(), ErrorKind::Denied);
}

/// Calls with input that no client sends. `O` and `P` stand for owners.
const BAD: [&str; 49] = [
    // The number of tokens.
    "acquire('na', 'O', 'x', 1000, -2000000000, false, false, '', 10)",
    "acquire('na', 'O', 's', 1000, 0, false, false, '', 10)",
    "acquire('na', 'O', 'x', 1000, NULL, false, false, '', 10)",
    "renew('nheld', 'O', 'x', 1000, -2000000000, '')",
    "acquire_all('{na}', '{O}', '{x}', '{1000}', '{-5}', '{f}', '')",
    "vote('na', 'O', 'x', 1000, -7, 1, '', NULL)",
    "convert('nheld', 'O', 'x', 's', 1000, -1, false, '', 10)",
    "requeue('nheld', 'O', 'x', 'P', 'x', 1000, -1, false, '', 10)",
    // The time of a lease.
    "acquire('na', 'O', 'x', 0, 1, false, false, '', 10)",
    "acquire('na', 'O', 'x', 86400001, 1, false, false, '', 10)",
    "acquire('na', 'O', 's', NULL, 1, false, false, '', 10)",
    "renew('nheld', 'O', 'x', 2000000000, 0, '')",
    "acquire_all('{na}', '{O}', '{x}', '{2000000000}', '{1}', '{f}', '')",
    // The mode.
    "acquire('na', 'O', 'whatever', 1000, 1, false, false, '', 10)",
    "acquire('na', 'O', 'p:-5:3', 1000, 1, false, false, '', 10)",
    "acquire('na', 'O', 'p:5', 1000, 1, false, false, '', 10)",
    "acquire('na', 'O', '', 1000, 1, false, false, '', 10)",
    "acquire('na', 'O', NULL, 1000, 1, false, false, '', 10)",
    "convert('nheld', 'O', 'x', 'j:', 1000, 1, false, '', 10)",
    // The owner. The empty one stands for a transaction that has checked the fence.
    "acquire('na', '', 'x', 1000, 1, false, false, '', 10)",
    "acquire('na', 'short', 'x', 1000, 1, false, false, '', 10)",
    "acquire('na', NULL, 's', 1000, 1, false, false, '', 10)",
    "acquire_all('{na}', '{\"\"}', '{x}', '{1000}', '{1}', '{f}', '')",
    "vote('na', '', 'x', 1000, 1, 1, '', NULL)",
    "renew('nheld', '', 'x', 1000, 1, '')",
    // Several leases on one key, and lists of different lengths.
    "acquire_all('{na,na}', '{O,P}', '{s,s}', '{1000,1000}', '{1,1}', '{f,f}', '')",
    "acquire_all('{na,nb}', '{O}', '{s}', '{1000}', '{1}', '{f}', '')",
    // Permits.
    "permits('na', -1)",
    "resize('na', 3, 'a', -10, '')",
    "resize('na', 3, 'z', 1, '')",
    "close('na', 99999999999, '')",
    // The client.
    "watch('na', 'x; y', 1)",
    "acquire('na', 'O', 's', 1000, 1, true, false, 'nobody', 10)",
    "introduce('0123456789', 'label', -1)",
    // What other clients read into their memory.
    "introduce('0123456789', repeat('x', 129), 1)",
    "introduce('0123456789', '', 1)",
    "store('nheld', 'O', 1, convert_to(repeat('x', 65537), 'UTF8'), '')",
    "commit('nheld', 'O', 1, convert_to(repeat('x', 65537), 'UTF8'), '')",
    "acquire(convert_to(repeat('n', 514), 'UTF8'), 'O', 'x', 1000, 1, false, false, '', 10)",
    // Numbers that would end a lock or a node for ever.
    "confirm('nheld', 'O', 'x', 9223372036854775807)",
    "confirm('nheld', 'O', 'x', -1)",
    "confirm('nheld', 'O', 'x', NULL)",
    "stand('O', '-', 9000000000000000000, 'c', '')",
    "stand('O', '-', 0, 'c', '')",
    "stand('O', 'm', 1000, 'c', '')",
    "stand('seed', '-', 1000, 'c', '')",
    "stand('O', '-', 1000, 'z', '')",
    "stand('O', '-', 1000, 'c', NULL)",
    "vouch('O', 9000000000000000000)",
];

/// A role that may call the verbs cannot break the rules that clients keep.
#[test]
fn input_that_no_client_sends_is_refused() {
    let database = Database::new();
    let (owner, other) = ("1".repeat(32), "2".repeat(32));
    database.sql(&format!(
        "SELECT lock_v1.acquire('nheld', '{owner}', 'x', 60000, 1, false, false, '', 10)"
    ));
    let last = "SELECT last FROM lock_v1.key WHERE key = 'nheld'";
    let before = database.sql(last);
    for bad in BAD {
        let call = bad.replace('O', &owner).replace('P', &other);
        let why = database.server.try_sql(&database.name, &format!("SELECT lock_v1.{call}"));
        let why = why.expect_err(bad);
        assert!(why.contains("no client sends"), "{bad}: {why}");
    }
    assert_eq!(database.sql(last), before);
    assert_eq!(database.sql("SELECT count(*) FROM lock_v1.held"), "1\n");
}

/// A value with such a token would refuse the values of all later holders.
#[test]
fn no_value_has_a_token_that_its_writer_was_not_granted() {
    let database = Database::new();
    let (owner, other) = ("1".repeat(32), "2".repeat(32));
    let acquire = |owner: &str| {
        database.sql(&format!(
            "SELECT first FROM lock_v1.acquire('na', '{owner}', 'x', 60000, 1, false, false, '', 10)"
        ))
    };
    let store = |owner: &str, token: &str| {
        database.sql(&format!("SELECT lock_v1.store('na', '{owner}', {token}, 'v', '')"))
    };
    acquire(&owner);
    assert_eq!(store(&owner, "9223372036854775807"), "f\n");
    let commit = "SELECT lock_v1.commit('na', 'O', 9223372036854775807, 'v', '')";
    assert_eq!(database.sql(&commit.replace('O', &owner)), "-1\n");
    database.sql(&format!("SELECT lock_v1.release('na', '{owner}', 'x', '')"));
    let token = acquire(&other);
    assert_eq!(store(&other, token.trim()), "t\n");
}

/// The row of a lease that a transaction has checked has the empty owner once the lease is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_owner_gets_past_the_fence() {
    let database = Database::new();
    let store = database.open();
    let ours = claim("a");
    let (mut app, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let token = granted(&store, &ours, long()).await.tokens.first();
    let transaction = app.transaction().await.unwrap();
    fence::check(&transaction, [(&ours.key, token)]).await.unwrap();
    end_leases(&database);
    let ask = |owner: &str| {
        let sql = format!(
            "SELECT verdict FROM lock_v1.acquire('na', '{owner}', 'x', 60000, 1, false, false, '', 10)"
        );
        database.server.try_sql(&database.name, &sql)
    };
    let fresh = OwnerToken::generate().unwrap();
    assert_eq!(ask(std::str::from_utf8(fresh.expose()).unwrap()).unwrap(), "B\n");
    ask("").unwrap_err();
    transaction.commit().await.unwrap();
}

/// Values of a client are parameters, and its names are bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_is_never_read_as_sql() {
    let database = Database::new();
    let store = PostgresBackend::open(database.url()).unwrap();
    for name in ["'; DROP SCHEMA lock_v1 CASCADE; --", "\" || pg_sleep(9) || \"", "$1", "\\"] {
        let ours = claim(name);
        let _watch = store.watch(&ours.key).await.unwrap();
        granted(&store, &ours, long()).await;
        store.release(&ours).await.unwrap();
    }
}
