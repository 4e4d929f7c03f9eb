//! What waits for the disk and for standbys.

use crate::support::Database;

/// A role or a database may ask for more than the disk: `remote_apply`, say.
#[test]
fn what_must_last_waits_as_the_role_says() {
    let database = Database::new();
    let owner = "1".repeat(32);
    let acquire = |key: &str, mode: &str| {
        format!("acquire('{key}', '{owner}', '{mode}', 60000, 1, false, false, '', 10)")
    };
    let waits = |calls: &[&str]| {
        let calls: String =
            calls.iter().map(|call| format!("SELECT FROM lock_v1.{call}; ")).collect();
        database.sql(&format!(
            "SET synchronous_commit = 'remote_apply'; BEGIN; {calls} SHOW synchronous_commit; COMMIT"
        ))
    };
    let last = |text: String| text.lines().last().map(str::to_owned).unwrap();
    let token = {
        database.sql(&format!("SELECT lock_v1.{}", acquire("na", "x")));
        database.sql("SELECT last FROM lock_v1.key").trim().to_owned()
    };
    for (calls, expected) in [
        (vec![acquire("nb", "x")], "remote_apply"),
        (vec![format!("store('na', '{owner}', {token}, 'v', '')")], "remote_apply"),
        (vec![format!("commit('na', '{owner}', {token}, 'v', '')")], "remote_apply"),
        (
            vec![acquire("nc", "p:1:3"), format!("forget('nc', '{owner}', 'p:1:3', '')")],
            "remote_apply",
        ),
        // If a crash forgets a release that hands nothing over, the lease ends by itself.
        (vec![format!("release('nb', '{owner}', 'x', '')")], "off"),
    ] {
        let calls: Vec<_> = calls.iter().map(String::as_str).collect();
        assert_eq!(last(waits(&calls)), expected, "{calls:?}");
    }
}
