use lock_any::lock_sync::LockGuard;
use lock_tests::{PostgresServer, soon};

use crate::program::{client, dlock, labelled};
use crate::terminal::Terminal;

#[test]
fn a_database_is_set_up_and_examined() {
    let server = PostgresServer::start();
    let url = server.url(&server.database());
    let report = dlock(&url, &["doctor"]).ends_with(13).json_lines().remove(0);
    assert_eq!(report["findings"][0]["code"], "schema-missing", "{report}");
    let ran = dlock(&url, &["list"]).ends_with(2);
    assert!(ran.err().contains("init") && ran.err().lines().count() == 1, "{}", ran.err());

    assert!(dlock(&url, &["init"]).ends_with(2).err().contains("--yes"));
    let ran = dlock(&url, &["init", "--yes"]).ends_with(0);
    assert!(ran.out().ends_with(": ready for locks\n"), "{}", ran.out());
    assert!(!ran.out().contains("kit:kit"), "{}", ran.out());
    dlock(&url, &["init", "--yes"]).ends_with(0);
    let report = dlock(&url, &["doctor"]).ends_with(12).json_lines().remove(0);
    assert_eq!(report["findings"][0]["code"], "fsync-off", "{report}");
    assert_eq!(report["store"][0]["name"], "serves", "{report}");
    let text = dlock(&url, &["doctor", "--text"]).ends_with(12).out();
    assert!(text.contains("\nthe store: serves wake-ups, "), "{text}");
    assert!(!text.contains("kit:kit"), "{text}");
}

#[test]
fn init_warns_of_a_schema_of_a_superuser() {
    let server = PostgresServer::start();
    let database = server.database();
    let of_superuser = server.url(&database);
    // A repetition finds the schema complete, and warns as well.
    for _ in 0..2 {
        let warning = dlock(&of_superuser, &["init", "--yes"]).ends_with(0).err();
        assert!(warning.starts_with("dlock: warning: owner-superuser: "), "{warning}");
        assert_eq!(warning.lines().count(), 1, "{warning}");
    }

    let careful = server.database();
    let role = "CREATE ROLE keeper LOGIN PASSWORD 'kept'";
    server.sql(&careful, &format!("{role}; GRANT CREATE ON DATABASE {careful} TO keeper"));
    let ran = dlock(&server.url_as("keeper", "kept", &careful), &["init", "--yes"]).ends_with(0);
    assert_eq!(ran.err(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_work_over_a_database() {
    let server = PostgresServer::start();
    let url = server.locks();
    let (one, other) = (client(&url, "billing").await, client(&url, "refunds").await);
    let guard = soon(one.lock("orders/42")).await.unwrap();
    labelled(&one, "orders/42").await;
    let waiting = tokio::spawn(async move { other.lock("orders/42").await.map(drop) });
    let mut top = Terminal::run(&url, &["top", "--interval", "0.2"]);
    top.shows(&["orders/42", "billing", "1 locks"]);
    top.shows(&["1 waiters on 1 locks", "waits  refunds (exclusive, for "]);
    top.press("q");
    assert_eq!(top.end().0.code(), Some(0));

    let seen = dlock(&url, &["inspect", "orders/42", "--json"]).ends_with(0).json_lines().remove(0);
    assert_eq!((&seen["holding"], &seen["waiting"]), (&1.into(), &1.into()), "{seen}");
    assert!(seen["waiters"][0]["waited_ms"].as_u64().is_some(), "{seen}");
    let lines = dlock(&url, &["list", "orders/", "--json"]).ends_with(0).json_lines();
    assert_eq!((lines.len(), &lines[0]["lock"]), (1, &"orders/42".into()), "{lines:?}");
    dlock(&url, &["destroy", "orders/42", "--yes"]).ends_with(1);
    let ran = dlock(&url, &["release", "orders/42", "--force", "--yes"]).ends_with(0);
    assert!(ran.err().contains("held by billing"), "{}", ran.err());
    soon(LockGuard::lease(&guard).lost()).await;
    soon(waiting).await.unwrap().unwrap();
    drop(guard);
    dlock(&url, &["bench", "load", "--clients", "2", "--requests", "6"]).ends_with(0);
    dlock(&url, &["bench", "--seconds", "1", "--no-svg", "--json"]).ends_with(0);
}
