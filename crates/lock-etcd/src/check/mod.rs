//! The check of a cluster: what is wrong with it for locks, and what to do.
//!
//! [`EtcdBackend::check`] asks each member that the URL names for facts, uses each verb of a lock once, and returns a
//! [`Report`]. Each [`Finding`](lock_core::check::Finding) has a [`Severity`](lock_core::check::Severity), a stable
//! code, the reason why it matters, and the remedy. The check needs no rights beyond those of the app. It never
//! guesses: what the cluster does not show is a finding of the severity unknown.
//!
//! # Findings
//!
//! | code | severity | what was found |
//! | --- | --- | --- |
//! | `unsafe-version` | critical | a member of a cluster lacks the fix of etcd #15247, so a leader whose disk stalls may end renewed leases |
//! | `old-version` | critical | a member is older than etcd 3.4 |
//! | `no-version` | critical | a member names no version of etcd |
//! | `no-leader` | critical | a member knows of no leader |
//! | `space-full` | critical | the cluster has raised the alarm `NOSPACE` |
//! | `data-corrupt` | critical | the cluster has raised the alarm `CORRUPT` |
//! | `clusters-many` | critical | the hosts of the URL belong to several clusters |
//! | `rights-missing` | critical | the user may not do what a lock needs |
//! | `lock-refused` | critical | a lock could not be acquired, renewed and handed over |
//! | `lock-vanished` | critical | a lock was gone a moment after it was granted |
//! | `unsafe-version-refused` | critical | the only member of a cluster has such a version, and this client refuses it |
//! | `unsafe-version-alone` | warning | the only member of a cluster has such a version |
//! | `member-silent` | warning | a member does not answer |
//! | `learner` | warning | a host of the URL is a learner, which serves no lock |
//! | `two-members` | warning | two members vote, so the cluster stops when either of them fails |
//! | `watch-refused` | warning | a lock cannot be watched |
//! | `queue-refused` | warning | a claim got no place in the queue |
//! | `releases-unheard` | warning | no message of a release came |
//! | `holders-unseen` | warning | the holders of a lock cannot be listed |
//! | `members-unseen` | unknown | no member tells how many members there are |
//! | `rehearsal-busy` | unknown | another client holds the lock of the rehearsal |
//! | `one-member` | info | no other member has the data |
//! | `coarse-leases` | info | leases have at least two seconds, in steps of one second |
//!
//! No finding covers a leader whose process was stopped: no version protects leases from such a leader.

mod facts;
mod findings;

use lock_core::Error;
use lock_core::check::Report;

use crate::EtcdBackend;

impl EtcdBackend {
    /// Examines the cluster, and says [what is wrong with it](crate::check#findings) for locks.
    ///
    /// It asks each member that the URL names for its status, and acquires, renews, watches, inspects and hands over a
    /// lock under the name `lock-etcd/check`. It changes no setting and no other lock. It does so as a client of its
    /// own, with the options of this one, that uses members of any version: a version that this client refuses is a
    /// finding. For the start of an app, or for a person with a question: locks do not depend on this check. It takes
    /// some twenty requests. It takes up to one [command timeout](crate::Builder::command_timeout) if a member does not
    /// answer, and another one if no message of a release comes.
    ///
    /// # Errors
    ///
    /// Only if no member can be reached, or the cluster does not accept the user. Everything else is a finding, errors
    /// that hinder locks among them.
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
    /// use lock_etcd::EtcdBackend;
    ///
    /// let report = EtcdBackend::open("etcd://one.example,two.example,three.example")?.check().await?;
    /// println!("{report}");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check(&self) -> Result<Report, Error> {
        let facts = facts::gather(self).await?;
        Ok(findings::report(&facts).promising(&facts.store, self))
    }
}
