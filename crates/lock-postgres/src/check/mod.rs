//! The check of a database: its problems for locks, and their remedies.
//!
//! [`PostgresBackend::check`] asks the database for facts, uses each verb of a lock once, and returns a [`Report`].
//! Each [`Finding`](lock_core::check::Finding) has a [`Severity`](lock_core::check::Severity), a stable code, the
//! reason why it matters, and the remedy. The check needs no rights beyond those of the app. It never guesses: what the
//! database does not show to the role is a finding of the severity unknown.
//!
//! # Findings
//!
//! | code | severity | finding |
//! | --- | --- | --- |
//! | `schema-missing` | critical | the database has no schema for locks |
//! | `schema-old` | critical | the schema is older than this client needs |
//! | `rights-missing` | critical | the role may not call all functions of a client |
//! | `standby` | critical | the server is a standby |
//! | `read-only` | critical | transactions are read-only |
//! | `old-version` | critical | the server is older than PostgreSQL 13 |
//! | `clock-unset` | critical | the clock of the server is before 2020 |
//! | `standbys-missing` | critical | the commits wait for standbys, and none of these is there |
//! | `isolation` | critical | transactions are not read committed by default, and go through a pooler |
//! | `lock-refused` | critical | a lock could not be acquired, renewed and handed over |
//! | `lock-vanished` | critical | a lock was gone a moment after it was granted |
//! | `owner-superuser` | warning | the functions run with the rights of a superuser |
//! | `fsync-off` | warning | the server does not wait for its disk |
//! | `full-pages-off` | warning | a crash of the machine may damage the data |
//! | `commits-unwritten` | warning | grants do not wait for the disk |
//! | `failover-forgets` | warning | the server has standbys, and no grant waits for one |
//! | `autovacuum-off` | warning | dead rows are never removed |
//! | `clock-skew` | warning | the clocks of the server and of this machine differ by more than a second |
//! | `no-wake-ups` | warning | there is no direct connection beside a pooler |
//! | `watch-refused` | warning | a lock cannot be watched |
//! | `queue-refused` | warning | a claim got no place in the queue |
//! | `releases-unheard` | warning | no notification of a release came |
//! | `holders-unseen` | warning | the holders of a lock cannot be listed |
//! | `standbys-unseen` | unknown | the role does not see how the standbys follow |
//! | `rehearsal-busy` | unknown | another client holds the lock of the rehearsal |
//! | `no-standby` | info | no other server has the data |
//! | `schema-new` | info | the schema is newer than this client |
//! | `rights-many` | info | the role owns the schema, or is a superuser |

mod facts;
mod findings;

use lock_core::Error;
use lock_core::check::Report;

use crate::PostgresBackend;

impl PostgresBackend {
    /// Examines the database, and reports [its problems](crate::check#findings) for locks.
    ///
    /// The check reads settings, and acquires, renews, watches, inspects and hands over a lock under the name
    /// `lock-postgres/check`. The check changes no setting and no other lock. For the start of an app, or for a person
    /// with a question: locks do not depend on this check. The check takes some ten requests, and up to one
    /// [command timeout](crate::Builder::command_timeout) if no notification of a release comes.
    ///
    /// # Errors
    ///
    /// Only if the database cannot be reached, does not accept the user, or stops answering. Everything else is a
    /// finding, errors that hinder locks among them.
    ///
    /// # Cancel safety
    ///
    /// The lock of the check may remain for ten seconds.
    ///
    /// # If the lease is lost
    ///
    /// If the lease of the check's own lock is lost, that is a finding. No lock of the app is touched.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), lock_core::Error> {
    /// use lock_postgres::PostgresBackend;
    ///
    /// let report = PostgresBackend::open("postgres://app:secret@db.example/shop")?.check().await?;
    /// println!("{report}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check(&self) -> Result<Report, Error> {
        let facts = facts::gather(self).await?;
        Ok(findings::report(&facts).promising(&facts.server, self))
    }
}
