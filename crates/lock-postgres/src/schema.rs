//! The schema of the locks, and how it comes into a database.

use lock_core::Error;
use tokio_postgres::Client;

use crate::failure;

/// The steps from an empty database to the present version, in order.
const STEPS: [&str; 1] = [include_str!("schema/tables.sql")];

const DECIDE: &str = include_str!("schema/decide.sql");
const SERVE: &str = include_str!("schema/serve.sql");
const VERBS: &str = include_str!("schema/verbs.sql");
const PERMITS: &str = include_str!("schema/permits.sql");
const VALUES: &str = include_str!("schema/values.sql");
const LOOK: &str = include_str!("schema/look.sql");
const FENCE: &str = include_str!("schema/fence.sql");
const RIGHTS: &str = include_str!("schema/rights.sql");

/// The functions. They replace those of an earlier version.
const FUNCTIONS: [&str; 8] = [DECIDE, SERVE, PERMITS, VERBS, VALUES, LOOK, FENCE, RIGHTS];

/// The name of the schema. Its number changes when clients of the earlier schema could not go on beside new ones.
///
/// # Examples
///
/// ```
/// assert_eq!(lock_postgres::SCHEMA, "lock_v1");
/// ```
pub const SCHEMA: &str = "lock_v1";

/// Two processes that set up one database take turns. The number is arbitrary.
const TURN: &str = "SELECT pg_advisory_xact_lock(5495592372081329)";

/// The version that this build of the crate makes.
pub(crate) const VERSION: i32 = STEPS.len() as i32;

/// Creates the schema, or brings it to the present version. Leaves a newer one as it is.
pub(crate) async fn init(client: &mut Client) -> Result<(), Error> {
    let change = client.transaction().await.map_err(failure::of)?;
    change.batch_execute(TURN).await.map_err(failure::of)?;
    let exists = "SELECT to_regclass('lock_v1.meta') IS NOT NULL";
    let exists: bool = change.query_typed_one(exists, &[]).await.map_err(failure::of)?.get(0);
    let present: i32 = if exists {
        let version = "SELECT version FROM lock_v1.meta";
        change.query_typed_one(version, &[]).await.map_err(failure::of)?.get(0)
    } else {
        change.batch_execute("CREATE SCHEMA IF NOT EXISTS lock_v1").await.map_err(failure::of)?;
        0
    };
    if present > VERSION {
        return Ok(());
    }
    let done = usize::try_from(present).unwrap_or(0);
    for sql in STEPS[done..].iter().chain(&FUNCTIONS) {
        change.batch_execute(sql).await.map_err(failure::of)?;
    }
    let version = format!("UPDATE lock_v1.meta SET version = {VERSION}");
    change.batch_execute(&version).await.map_err(failure::of)?;
    change.commit().await.map_err(failure::of)
}

/// The whole schema as one script, for people who set up databases themselves.
pub(crate) fn script() -> String {
    let all = STEPS.iter().chain(&FUNCTIONS).copied().collect::<Vec<_>>().join("\n");
    format!(
        "BEGIN;\n{TURN};\nCREATE SCHEMA lock_v1;\n{all}\nUPDATE lock_v1.meta SET version = {VERSION};\nCOMMIT;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volatile clock that is read twice gives two times, and then tokens and ends disagree.
    #[test]
    fn no_function_reads_the_clock_twice() {
        let script = script();
        let bodies = script.split("CREATE OR REPLACE ").skip(1).collect::<Vec<_>>();
        assert!(bodies.len() > 40, "the functions were not found");
        for body in bodies {
            let code = body.lines().filter(|line| !line.trim_start().starts_with("--"));
            let readings = code.filter(|line| line.contains("clock_timestamp()")).count();
            assert!(readings <= 1, "{body}");
        }
    }

    /// `now()` is the time at which the transaction began: before it waited for the row.
    #[test]
    fn no_function_reads_the_time_of_the_transaction() {
        for other in ["now()", "current_timestamp", "statement_timestamp", "transaction_timestamp"]
        {
            assert!(!script().contains(other), "{other}");
        }
    }

    #[test]
    fn every_function_that_a_role_may_call_has_a_search_path() {
        let script = script();
        let definer = script.matches("SECURITY DEFINER").count();
        assert!(definer > 20);
        let safe = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp";
        assert_eq!(script.matches(safe).count(), definer);
    }
}
