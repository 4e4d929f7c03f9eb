//! Asks the database for the facts, before any judgement.

use std::time::Duration;

use lock_core::check::{Look, Rehearsal};
use lock_core::{Clock, Error, ErrorKind, Key, Ttl};
use tokio_postgres::Row;

use crate::PostgresBackend;
use crate::answer::column;
use crate::link::Statement;

/// The name of the lock of the rehearsal.
const NAME: &str = "lock-postgres/check";

/// What the database told.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Hosts, ports and database, without secrets.
    pub(super) server: String,
    /// Whether the verbs go through a pooler.
    pub(super) is_pooled: bool,
    /// Whether there is a direct connection.
    pub(super) is_direct: bool,
    pub(super) settings: Settings,
    pub(super) standbys: Standbys,
    pub(super) schema: Schema,
    pub(super) clock: Look,
    /// `None` if it could not have succeeded.
    pub(super) rehearsal: Option<Rehearsal>,
}

/// The settings that matter, as the role has them.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// For example 150004.
    pub(super) version: i32,
    pub(super) shown_version: String,
    pub(super) fsync: bool,
    pub(super) full_pages: bool,
    pub(super) synchronous_commit: String,
    pub(super) standby_names: String,
    pub(super) isolation: String,
    pub(super) is_read_only: bool,
    pub(super) autovacuum: bool,
    pub(super) is_standby: bool,
}

const SETTINGS: &str = "SELECT current_setting('server_version_num')::int, current_setting('server_version'), \
    current_setting('fsync')::bool, current_setting('full_page_writes')::bool, \
    current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), \
    current_setting('default_transaction_isolation'), current_setting('transaction_read_only')::bool, \
    current_setting('autovacuum')::bool, pg_is_in_recovery(), \
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The servers that follow this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standbys {
    pub(super) attached: i64,
    /// How many of them a commit may wait for; `None` if the role does not see this.
    pub(super) in_step: Option<i64>,
}

/// Only some roles see more than that there is a standby.
const STANDBYS: &str = "SELECT count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')), \
    coalesce(bool_and(state IS NOT NULL), true) FROM pg_stat_replication WHERE state IS DISTINCT FROM 'backup'";

/// The schema of the locks, and what the role may do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schema {
    Missing,
    /// The role may not call these functions.
    Closed(Vec<String>),
    Open {
        version: i32,
        /// Whether the role may change the schema.
        is_own: bool,
        /// Whether the functions run with the rights of a superuser.
        is_of_superuser: bool,
    },
}

const SCHEMA: &str = "SELECT n.oid IS NOT NULL, coalesce(pg_has_role(n.nspowner, 'USAGE'), false), \
    CASE WHEN NOT has_schema_privilege(n.oid, 'USAGE') THEN ARRAY['the schema'] ELSE ARRAY( \
      SELECT DISTINCT p.proname::text FROM pg_proc p WHERE p.pronamespace = n.oid \
        AND (p.prosecdef OR p.proname IN ('check', 'check_shared')) AND p.proname NOT IN ('force_release', 'pins') \
        AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1) END, \
    EXISTS (SELECT FROM pg_roles r WHERE r.oid = n.nspowner AND r.rolsuper) \
    FROM (SELECT 1) x LEFT JOIN pg_namespace n ON n.nspname = 'lock_v1'";

pub(super) async fn gather(backend: &PostgresBackend) -> Result<Facts, Error> {
    let (settings, clock) = settings(backend).await?;
    let standbys = standbys(&ask(backend, STANDBYS).await?)?;
    let schema = schema(backend).await?;
    let can_lock = matches!(schema, Schema::Open { .. }) && !settings.is_read_only;
    let rehearsal = if can_lock { Some(rehearse(backend).await?) } else { None };
    let shared = &backend.shared;
    Ok(Facts {
        server: shared.dial.name(),
        is_pooled: shared.dial.is_pooled(),
        is_direct: shared.inbox.is_possible(),
        settings,
        standbys,
        schema,
        clock,
        rehearsal,
    })
}

async fn ask(backend: &PostgresBackend, sql: &'static str) -> Result<Row, Error> {
    backend.shared.ask_one(NAME.as_bytes(), Statement::new(sql)).await
}

async fn settings(backend: &PostgresBackend) -> Result<(Settings, Look), Error> {
    // The first request opens the connection, which takes time.
    ask(backend, "SELECT 1").await?;
    let (wall, sent) = (Look::wall(), Clock::boot().now());
    let row = ask(backend, SETTINGS).await?;
    let took = Clock::boot().now().saturating_duration_since(sent).as_micros();
    let took = i64::try_from(took).unwrap_or(i64::MAX);
    let settings = Settings {
        version: column(&row, 0)?,
        shown_version: column(&row, 1)?,
        fsync: column(&row, 2)?,
        full_pages: column(&row, 3)?,
        synchronous_commit: column(&row, 4)?,
        standby_names: column(&row, 5)?,
        isolation: column(&row, 6)?,
        is_read_only: column(&row, 7)?,
        autovacuum: column(&row, 8)?,
        is_standby: column(&row, 9)?,
    };
    Ok((settings, Look { wall, took, told: column(&row, 10)? }))
}

fn standbys(row: &Row) -> Result<Standbys, Error> {
    let (is_seen, in_step): (bool, i64) = (column(row, 2)?, column(row, 1)?);
    Ok(Standbys { attached: column(row, 0)?, in_step: is_seen.then_some(in_step) })
}

async fn schema(backend: &PostgresBackend) -> Result<Schema, Error> {
    let row = ask(backend, SCHEMA).await?;
    if !column::<bool>(&row, 0)? {
        return Ok(Schema::Missing);
    }
    let closed: Vec<String> = column(&row, 2)?;
    if !closed.is_empty() {
        return Ok(Schema::Closed(closed));
    }
    match ask(backend, "SELECT lock_v1.version()").await {
        Ok(version) => Ok(Schema::Open {
            version: column(&version, 0)?,
            is_own: column(&row, 1)?,
            is_of_superuser: column(&row, 3)?,
        }),
        // A schema of this name, without the functions.
        Err(error) if error.kind() == ErrorKind::InvalidConfig => Ok(Schema::Missing),
        Err(error) => Err(error),
    }
}

/// Acquires, renews, watches, inspects and hands over a lock.
async fn rehearse(backend: &PostgresBackend) -> Result<Rehearsal, Error> {
    let (key, ttl) = (Key::new(NAME)?, Ttl::new(Duration::from_secs(10))?);
    let limit = backend.shared.dial.limit();
    // The timer belongs to the runtime of the connections: the one of the caller may have none.
    let timer = backend.shared.thread.timer(limit);
    Ok(Rehearsal::of(backend, &key, ttl, timer).await)
}
