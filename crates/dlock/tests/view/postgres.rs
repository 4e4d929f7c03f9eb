use lock_tests::PostgresServer;

use crate::everything::the_commands_work;
use crate::program::dlock;

#[test]
fn a_database_is_set_up_and_examined() {
    let server = PostgresServer::start();
    let url = server.url(&server.database());
    let report = dlock(&url, &["doctor"]).ends_with(13).json_lines().remove(0);
    assert_eq!(report["findings"][0]["code"], "schema-missing", "{report}");
    let ran = dlock(&url, &["list"]).ends_with(2);
    assert!(ran.err().contains("init") && ran.err().lines().count() == 1, "{}", ran.err());
    for try_or_wait in ["--try", "--timeout=30s"] {
        let ran = dlock(&url, &["run", "it", try_or_wait, "--", "true"]).ends_with(2);
        assert!(ran.err().contains("init"), "{}", ran.err());
    }

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
    the_commands_work(&server.locks(), 20).await;
}
