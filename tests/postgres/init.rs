//! How the schema comes into a database.

use futures::future::join_all;
use lock_core::{
    Acquire, Backend, CellBackend, ErrorKind, Mode, QuorumNode, Released, Renew, Renewal, Stored,
    Vote,
};
use lock_postgres::PostgresBackend;

use crate::support::{Database, attempt, claim, granted, handed_over, long, queued};
use crate::voting::{ballot, vouched};

/// Every table, index, view, type and function of the schema.
const CONTENT: &str = "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'lock_v1'::regnamespace \
     UNION ALL SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'lock_v1'::regnamespace ORDER BY 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_may_set_up_a_database_at_once() {
    let database = Database::empty();
    let clients: Vec<_> = (0..6).map(|_| database.open()).collect();
    let done = join_all(clients.iter().map(PostgresBackend::init)).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    clients[0].connect().await.unwrap();
    granted(&clients[1], &claim("a"), long()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_init_keeps_locks_and_restores_functions() {
    let database = Database::new();
    let store = database.open();
    let ours = claim("a");
    granted(&store, &ours, long()).await;
    database
        .sql("DROP FUNCTION lock_v1.tidy(int); UPDATE lock_v1.meta SET functions = '0 earlier'");
    store.init().await.unwrap();
    assert_eq!(database.sql("SELECT lock_v1.tidy(10)"), "0\n");
    assert!(matches!(store.release(&ours).await.unwrap(), Released::Freed { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_is_left_alone_and_used() {
    let database = Database::new();
    database.sql("UPDATE lock_v1.meta SET version = 99; DROP FUNCTION lock_v1.tidy(int)");
    let store = database.open();
    store.init().await.unwrap();
    assert_eq!(database.sql("SELECT version FROM lock_v1.meta"), "99\n");
    assert!(database.server.try_sql(&database.name, "SELECT lock_v1.tidy(10)").is_err());
    store.connect().await.unwrap();
    granted(&store, &claim("a"), long()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_without_the_schema_or_with_an_older_one_says_so() {
    let database = Database::empty();
    let store = database.open();
    for error in [
        store.connect().await.unwrap_err(),
        attempt(&store, &claim("a"), long()).await.unwrap_err(),
        store.watch(&claim("a").key).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
        assert!(error.to_string().contains("call `init`"), "{error}");
    }
    store.init().await.unwrap();
    database.sql("UPDATE lock_v1.meta SET version = 0");
    let error = store.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
}

/// The tables of version 1 lack those of a node of a quorum. A lease, a place, a value and the tokens that were seen stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_are_brought_to_the_present_version_and_keep_what_they_have() {
    let database = Database::new();
    let (store, other) = (database.open(), database.open());
    let (ours, theirs) = (claim("it"), claim("it"));
    let token = granted(&store, &ours, long()).await.tokens.first();
    assert_eq!(store.store(&ours, token, Some(b"v")).await.unwrap(), Stored::Written);
    database.sql(&format!("SELECT lock_v1.check('it', {token})"));
    let mut watch = queued(&other, &theirs).await;
    // The second step made two tables, and the functions of a node came with it. The next two made a column each.
    database.sql(
        "DROP TABLE lock_v1.node, lock_v1.standing; \
         ALTER TABLE lock_v1.holder DROP COLUMN upto; ALTER TABLE lock_v1.meta DROP COLUMN reached; \
         DROP FUNCTION lock_v1.place, lock_v1.record, lock_v1.stand, lock_v1.vouch, lock_v1.vote, lock_v1.confirm; \
         UPDATE lock_v1.meta SET version = 1, functions = '0 earlier'",
    );
    let old = database.open().connect().await.unwrap_err();
    assert!(old.to_string().contains("call `init`"), "{old}");
    store.init().await.unwrap();

    assert_eq!(database.sql("SELECT version FROM lock_v1.meta"), "4\n");
    let tables = "SELECT relname, relpersistence FROM pg_class WHERE relnamespace = 'lock_v1'::regnamespace \
                  AND relname IN ('node', 'standing') ORDER BY relname";
    assert_eq!(database.sql(tables), "node|p\nstanding|u\n");
    assert_eq!(database.sql(CONTENT), Database::new().sql(CONTENT));
    let renewal = store.renew(&Renew::new(ours.clone(), long())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    assert_eq!(database.sql("SELECT seen FROM lock_v1.fence"), format!("{token}\n"));
    assert_eq!(store.load(&ours.key).await.unwrap().unwrap().value, b"v");
    store.release(&ours).await.unwrap();
    let grant = handed_over(&other, &mut watch, &theirs).await;
    assert!(grant.tokens.first() > token, "{grant:?} after {token}");

    let vote = store.vote(&ballot(&vouched(&store).await)).await.unwrap();
    assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
}

/// A publication of all tables refuses changes of a table whose rows it cannot name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_whose_tables_are_all_published_can_be_set_up() {
    let database = Database::empty();
    database.sql("CREATE PUBLICATION everything FOR ALL TABLES");
    let (one, other) = (database.open(), database.open());
    one.init().await.unwrap();
    let (ours, theirs) = (claim("a").in_mode(Mode::Shared), claim("a"));
    let token = granted(&one, &ours, long()).await.tokens.first();
    database.sql(&format!("SELECT lock_v1.check_shared('a', {token})"));
    let _watch = other.watch(&theirs.key).await.unwrap();
    let _queued = other.try_acquire(&Acquire::new(theirs.clone(), long()).queued()).await.unwrap();
    one.release(&ours).await.unwrap();
    let token = granted(&other, &theirs, long()).await.tokens.first();
    database.sql(&format!("SELECT lock_v1.check('a', {token})"));
    other.release(&theirs).await.unwrap();
    let semaphore = claim("b").in_mode(Mode::Permits { take: 1, of: 2 });
    granted(&one, &semaphore, long()).await;
    one.init().await.unwrap();
}

/// An app of an earlier release that starts beside newer ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_of_a_later_release_stay() {
    let database = Database::new();
    let store = database.open();
    let body = |number: u32| {
        format!(
            "CREATE OR REPLACE FUNCTION lock_v1.tidy(most int) RETURNS int LANGUAGE sql AS 'SELECT {number}'"
        )
    };
    database.sql(&body(77));
    database.sql("UPDATE lock_v1.meta SET functions = '9999009009 later'");
    store.init().await.unwrap();
    assert_eq!(database.sql("SELECT lock_v1.tidy(10)"), "77\n");

    database.sql("UPDATE lock_v1.meta SET functions = '0 earlier'");
    store.init().await.unwrap();
    assert_eq!(database.sql("SELECT lock_v1.tidy(10)"), "0\n");
}

/// Apps may call `init` at each start, with the rights of an app.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_without_rights_may_call_init_if_nothing_is_to_do() {
    let database = Database::new();
    let role = format!("role_{}", database.name);
    database.sql(&format!("CREATE ROLE {role} LOGIN PASSWORD 'pw'; CALL lock_v1.allow('{role}')"));
    let url = database.server.url_as(&role, "pw", &database.name);
    let app = PostgresBackend::open(url).unwrap();
    app.init().await.unwrap();
    granted(&app, &claim("a"), long()).await;
    database.sql("UPDATE lock_v1.meta SET functions = '0 earlier'");
    let error = app.init().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(error.to_string().contains("owner of the schema"), "{error}");
}

/// A new release may have new functions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_that_were_allowed_may_call_what_an_upgrade_adds() {
    let database = Database::new();
    let (app, operator) = (format!("app_{}", database.name), format!("op_{}", database.name));
    database.sql(&format!(
        "CREATE ROLE {app}; CREATE ROLE {operator}; CALL lock_v1.allow('{app}'); \
         CALL lock_v1.allow_operator('{operator}'); \
         DROP FUNCTION lock_v1.vouch(text, bigint), lock_v1.pins(text); \
         UPDATE lock_v1.meta SET functions = '0 earlier'"
    ));
    database.open().init().await.unwrap();
    let may = |role: &str, function: &str| {
        database.sql(&format!(
            "SELECT has_function_privilege('{role}', 'lock_v1.{function}', 'EXECUTE')"
        ))
    };
    for (role, operates) in [(&app, "f\n"), (&operator, "t\n")] {
        assert_eq!(may(role, "vouch(text, bigint)"), "t\n", "{role}");
        assert_eq!(may(role, "pins(text)"), operates, "{role}");
        assert_eq!(may(role, "drop_lease(bytea, text, text, timestamptz)"), "f\n", "{role}");
    }
}

/// The script is for an empty database, and does not take over what another role has made.
#[test]
fn the_script_makes_what_init_makes_and_fails_if_there_is_a_schema() {
    let (scripted, again) = (Database::new(), Database::empty());
    assert!(scripted.server.try_sql(&scripted.name, &PostgresBackend::schema()).is_err());
    let from_file = Database::empty();
    from_file.sql(include_str!("../../crates/lock-postgres/schema/lock_v1.sql"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(again.open().init()).unwrap();
    for sql in [CONTENT, "SELECT * FROM lock_v1.meta"] {
        let made = again.sql(sql);
        assert_eq!([scripted.sql(sql), from_file.sql(sql)], [made.clone(), made]);
    }
}
