//! The schema of the locks, and how it comes into a database.

use lock_core::{Error, ErrorKind};
use tokio_postgres::{Client, Transaction};

use crate::answer::column;
use crate::failure;

/// The steps from an empty database to the present version, in order.
const STEPS: [&str; 4] = [
    include_str!("schema/tables.sql"),
    include_str!("schema/standing.sql"),
    include_str!("schema/range.sql"),
    include_str!("schema/reached.sql"),
];

const DECIDE: &str = include_str!("schema/decide.sql");
const SERVE: &str = include_str!("schema/serve.sql");
const VERBS: &str = include_str!("schema/verbs.sql");
const PERMITS: &str = include_str!("schema/permits.sql");
const VALUES: &str = include_str!("schema/values.sql");
const LOOK: &str = include_str!("schema/look.sql");
const VOTE: &str = include_str!("schema/vote.sql");
const FENCE: &str = include_str!("schema/fence.sql");
const PLANS: &str = include_str!("schema/plans.sql");
const RIGHTS: &str = include_str!("schema/rights.sql");

/// The functions. They replace those of an earlier version.
const FUNCTIONS: [&str; 10] =
    [DECIDE, SERVE, PERMITS, VERBS, VALUES, LOOK, VOTE, FENCE, PLANS, RIGHTS];

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

/// The first server with everything that the functions need, as it numbers itself.
pub(crate) const OLDEST: i32 = 130_000;

/// No name in the schema means anything that another role has made.
const PATH: &str = "SET LOCAL search_path = pg_catalog, pg_temp";

/// The version of the tables that this build of the crate makes.
pub(crate) const VERSION: i32 = STEPS.len() as i32;

/// Creates the schema, or brings it to the present version. Leaves a newer one as it is.
pub(crate) async fn init(client: &mut Client) -> Result<(), Error> {
    let change = client.transaction().await.map_err(failure::of)?;
    for sql in [TURN, PATH] {
        change.batch_execute(sql).await.map_err(failure::of)?;
    }
    let found = found(&change).await?;
    let plan = plan(&found)?;
    if found.is_superuser && plan != Plan::Nothing {
        tracing::warn!(
            "a superuser calls `init`, so the functions of the locks run with all its rights"
        );
    }
    let done = match plan {
        Plan::Nothing => return Ok(()),
        Plan::Create { schema } => {
            if schema {
                change.batch_execute("CREATE SCHEMA lock_v1").await.map_err(failure::of)?;
            }
            0
        }
        Plan::Upgrade { from } => from,
    };
    for sql in STEPS[done..].iter().chain(&FUNCTIONS) {
        change.batch_execute(sql).await.map_err(failure::of)?;
    }
    change.batch_execute(&note()).await.map_err(failure::of)?;
    change.commit().await.map_err(failure::of)
}

/// What there is before `init`.
#[derive(Clone, Debug)]
struct Found {
    /// The version of the server, as it numbers itself.
    server: i32,
    is_superuser: bool,
    /// The owner of the schema, if there is a schema, and whether that is the present role.
    owner: Option<(String, bool)>,
    /// The version of the tables, and which functions there are.
    content: Option<(i32, String)>,
}

async fn found(change: &Transaction<'_>) -> Result<Found, Error> {
    let sql = "SELECT current_setting('server_version_num')::int, u.rolsuper, n.nspowner::regrole::text, \
               n.nspowner = u.oid, EXISTS (SELECT FROM pg_proc WHERE pronamespace = n.oid AND proname = 'functions') \
               FROM pg_roles u LEFT JOIN pg_namespace n ON n.nspname = 'lock_v1' WHERE u.rolname = current_user";
    let row = change.query_typed_one(sql, &[]).await.map_err(failure::of)?;
    let owner: Option<String> = column(&row, 2)?;
    let is_ours: Option<bool> = column(&row, 3)?;
    let mut found = Found {
        server: column(&row, 0)?,
        is_superuser: column(&row, 1)?,
        owner: owner.zip(is_ours),
        content: None,
    };
    // A superuser calls no function of another role.
    let may_ask = found.owner.as_ref().is_some_and(|(_, ours)| *ours || !found.is_superuser);
    if may_ask && column(&row, 4)? {
        let sql = "SELECT lock_v1.version(), lock_v1.functions()";
        let row = change.query_typed_one(sql, &[]).await.map_err(failure::of)?;
        found.content = Some((column(&row, 0)?, column(&row, 1)?));
    }
    Ok(found)
}

#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Create {
        schema: bool,
    },
    /// So many steps were done before.
    Upgrade {
        from: usize,
    },
}

/// What `init` has to do. Pure.
fn plan(found: &Found) -> Result<Plan, Error> {
    if found.server < OLDEST {
        let message = "the functions of the locks need PostgreSQL 13 or newer";
        return Err(Error::new(ErrorKind::InvalidConfig, message));
    }
    let Some((owner, is_ours)) = &found.owner else {
        return Ok(Plan::Create { schema: true });
    };
    if let Some((version, functions)) = &found.content {
        let is_later = *version > VERSION || release_in(functions) > release();
        if is_later || (*version == VERSION && *functions == marking()) {
            return Ok(Plan::Nothing);
        }
    }
    // The owner of a schema can add functions, which would run with the rights of the present role.
    if !is_ours {
        let message = format!(
            "only the owner of the schema lock_v1 may change it, which is the role {owner}: call `init` as that role"
        );
        return Err(Error::new(ErrorKind::Denied, message));
    }
    Ok(match &found.content {
        None => Plan::Create { schema: false },
        Some((version, _)) => Plan::Upgrade { from: usize::try_from(*version).unwrap_or(0) },
    })
}

/// The number of a release: later ones have higher numbers.
fn release() -> u64 {
    let parts = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ];
    parts.iter().fold(0, |number, part| number * 1000 + part.parse::<u64>().unwrap_or(0))
}

/// The release in a marking; zero if it has none.
fn release_in(marking: &str) -> u64 {
    marking.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Tells these functions from all others: the number of their release, and a digest (FNV-1a), because builds between
/// two releases differ as well.
fn marking() -> String {
    let bytes = FUNCTIONS.iter().flat_map(|sql| sql.bytes());
    let digest = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{} {digest:016x}", release())
}

/// Notes what was done.
fn note() -> String {
    format!("UPDATE lock_v1.meta SET version = {VERSION}, functions = '{}'", marking())
}

/// The first line of the script.
const TITLE: &str =
    "-- Generated from the folder `src/schema` of the crate lock-postgres. Do not edit this.";

/// The whole schema as one script, for people who set up databases themselves.
pub(crate) fn script() -> String {
    let all = STEPS.iter().chain(&FUNCTIONS).copied().collect::<Vec<_>>().join("\n");
    let begin = format!("{TITLE}\nBEGIN;\n{TURN};\n{PATH};\nCREATE SCHEMA lock_v1;");
    format!("{begin}\n{all}\n{};\nCOMMIT;\n", note())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// A volatile clock that is read twice gives two times, and then tokens and ends disagree.
    #[test]
    fn no_function_reads_the_clock_twice() {
        let script = script();
        let bodies = script.split("CREATE OR REPLACE ").skip(1).collect::<Vec<_>>();
        assert!(bodies.len() > 40, "the functions were not found");
        for body in bodies {
            assert!(readings(body) <= 1, "{body}");
        }
    }

    /// How often a function reads the clock.
    fn readings(body: &str) -> usize {
        let code = body.lines().map(|line| line.split("--").next().unwrap_or_default());
        code.map(|line| line.to_lowercase().matches("clock_timestamp").count()).sum()
    }

    #[test]
    fn two_readings_on_one_line_are_two() {
        assert_eq!(readings("a := clock_timestamp(); -- clock_timestamp()"), 1);
        assert_eq!(readings("a := clock_timestamp(); b := Clock_Timestamp ();"), 2);
        assert_eq!(readings("a := clock_timestamp();\n b := clock_timestamp();"), 2);
    }

    /// If it is `write`, the test below writes the file instead of comparing it.
    const VARIABLE: &str = "LOCK_SCHEMA";

    /// Some users apply SQL files: by `psql -f`, or by a migration tool.
    #[test]
    fn the_file_with_the_schema_is_the_script() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/lock_v1.sql");
        if std::env::var(VARIABLE).is_ok_and(|value| value == "write") {
            std::fs::write(path, script()).unwrap();
        }
        let file = std::fs::read_to_string(path).unwrap();
        assert!(file == script(), "write {path} again, with {VARIABLE}=write");
    }

    /// `now()` is the time at which the transaction began: before it waited for the row.
    #[test]
    fn no_function_reads_the_time_of_the_transaction() {
        for other in ["now()", "current_timestamp", "statement_timestamp", "transaction_timestamp"]
        {
            assert!(!script().contains(other), "{other}");
        }
    }

    /// All others are called by these. `tests/postgres/hostile` looks at the functions in a database.
    #[test]
    fn every_function_that_is_called_from_outside_has_a_search_path() {
        let script = script();
        let safe = "SET search_path = pg_catalog, pg_temp";
        let bodies = script.split("CREATE OR REPLACE ").skip(1);
        let outside = |body: &&str| {
            [
                "SECURITY DEFINER",
                "PROCEDURE",
                "FUNCTION lock_v1.check(",
                "FUNCTION lock_v1.check_shared(",
            ]
            .iter()
            .any(|mark| body.contains(mark))
        };
        let outside = bodies.filter(outside).collect::<Vec<_>>();
        assert!(outside.len() > 25);
        for body in outside {
            assert!(body.contains(safe), "{body}");
        }
    }

    fn found() -> Found {
        Found {
            server: 150_000,
            is_superuser: false,
            owner: Some(("locks".to_owned(), true)),
            content: Some((VERSION, marking())),
        }
    }

    fn foreign() -> Found {
        Found { owner: Some(("locks".to_owned(), false)), ..found() }
    }

    #[test]
    fn an_empty_database_gets_the_schema_and_a_complete_one_nothing() {
        let empty = Found { owner: None, content: None, ..found() };
        assert_eq!(plan(&empty).ok(), Some(Plan::Create { schema: true }));
        let bare = Found { content: None, ..found() };
        assert_eq!(plan(&bare).ok(), Some(Plan::Create { schema: false }));
        assert_eq!(plan(&found()).ok(), Some(Plan::Nothing));
        assert_eq!(plan(&foreign()).ok(), Some(Plan::Nothing));
    }

    #[test]
    fn functions_of_a_later_release_stay_and_all_others_are_replaced() {
        let with = |version, functions: &str| Found {
            content: Some((version, functions.to_owned())),
            ..found()
        };
        let later = format!("{} 0", release() + 1);
        assert_eq!(plan(&with(VERSION, &later)).ok(), Some(Plan::Nothing));
        assert_eq!(plan(&with(VERSION + 1, &marking())).ok(), Some(Plan::Nothing));
        let now = usize::try_from(VERSION).unwrap();
        for functions in ["", "0 0", &format!("{} 0", release())] {
            let plan = plan(&with(VERSION, functions)).ok();
            assert_eq!(plan, Some(Plan::Upgrade { from: now }), "{functions}");
        }
        assert_eq!(plan(&with(1, &marking())).ok(), Some(Plan::Upgrade { from: 1 }));
    }

    #[test]
    fn a_schema_of_another_role_is_not_changed() {
        let bare = Found { content: None, ..foreign() };
        let older = Found { content: Some((VERSION, "0 0".to_owned())), ..foreign() };
        for found in [bare, older] {
            let error = plan(&found).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied);
            assert!(error.to_string().contains("locks"), "{error}");
        }
    }

    #[test]
    fn an_earlier_server_is_refused() {
        let error = plan(&Found { server: OLDEST - 1, ..found() }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    }
}
