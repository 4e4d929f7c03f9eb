//! The check of a deployment: its problems for locks, and their remedies.
//!
//! [`RedisBackend::check`] asks every server that has keys for facts, uses each verb of a lock once, and returns a
//! [`Report`]. Each [`Finding`] has a [`Severity`], a stable code, the reason why it matters, and the remedy.
//! `cargo run --example doctor -- redis://…` prints a report.
//!
//! The check needs no rights beyond those of the app. What the server refuses to tell is a finding of the severity
//! [`Unknown`](Severity::Unknown), which names the missing right. The check never guesses. The server notes such
//! refusals in `ACL LOG`.
//!
//! # Findings
//!
//! | code | severity | finding |
//! | --- | --- | --- |
//! | `not-ready` | critical | the server loads its data, fails over, or is busy with a script |
//! | `scripts-refused` | critical | the server runs no scripts |
//! | `lock-refused` | critical | a lock could not be acquired, renewed and handed over |
//! | `lock-vanished` | critical | a lock was gone a moment after it was granted |
//! | `slots-uncovered` | critical | some slots of the cluster have no server |
//! | `connections-differ` | critical | another connection to the address led to another server |
//! | `replica` | critical | the server is a replica |
//! | `sentinel-process` | critical | the server is a Sentinel |
//! | `old-version` | critical | the server is older than Redis 5 |
//! | `clock-unset` | critical | the clock of the server is before 2020 |
//! | `clock-rate` | critical | the clock of the server runs at a wrong rate, or stands still |
//! | `append-failed` | critical | the append-only file could not be written |
//! | `too-few-replicas` | critical | fewer replicas are in step than `min-replicas-to-write` asks for |
//! | `replicas-miscounted` | critical | not as many replicas are attached as have to confirm a grant |
//! | `notifications-required` | critical | the app requires keyspace notifications, and there are none |
//! | `eviction-policy` | critical, or warning without `maxmemory` | the server evicts keys |
//! | `rights-missing` | critical, warning or info | the user lacks rights that some kinds of locks need |
//! | `keys-evicted` | warning | the server has evicted keys |
//! | `memory-almost-full` | warning | nine tenths of `maxmemory` are in use |
//! | `no-persistence` | warning | a restart forgets every lock, and the server does not [sit out](crate::Builder::data_quarantine) then |
//! | `snapshots-only` | warning | as above, for the locks since the last snapshot |
//! | `appendfsync-no` | warning | a crash of the machine forgets the latest locks |
//! | `appendfsync-everysec` | info | a crash of the machine forgets the locks of a second or two |
//! | `snapshot-failed` | warning | the last snapshot could not be written |
//! | `failover-unconfirmed` | warning | the deployment fails over, and no replica confirms a grant |
//! | `cluster-node` | warning | the server is a node of a cluster, and the client is none of a cluster |
//! | `failover-forgets` | warning | the server has replicas that confirm no grant, and a failover forgets the latest grants |
//! | `no-min-replicas` | warning | a master that is cut off from its replicas goes on granting |
//! | `min-replicas-below-all` | info | a primary that keeps some of its replicas goes on granting |
//! | `no-replica` | warning | a primary of a deployment has no replica |
//! | `replica-clock` | warning | the clocks of a replica and of its primary differ by more than a second |
//! | `replica-lagging` | warning | a replica has not answered for three seconds or more |
//! | `replica-not-online` | warning | a replica is not in step yet |
//! | `sentinel-silent` | warning | a sentinel does not say where the primary is |
//! | `sentinel-unheard` | warning | a sentinel does not let the client listen to `+switch-master` |
//! | `sentinels-disagree` | warning | the sentinels name different primaries |
//! | `sentinels-apart` | warning | not all sentinels know one another |
//! | `sentinels-few` | warning | there are fewer than three sentinels, or their quorum is no majority |
//! | `notifications-missing` | warning, or info if the app can do without | keyspace notifications are off, or incomplete |
//! | `tracking-refused` | warning | the server does not track keys |
//! | `watch-refused` | warning | a lock cannot be watched |
//! | `releases-unheard` | warning | no message of a release came |
//! | `queue-refused` | warning | a claim got no place in the queue |
//! | `grants-uncounted` | warning | messages are heard, and the server counts no receivers |
//! | `holders-unseen` | warning | the holders of a lock cannot be listed |
//! | `scripts-not-loaded` | warning | scripts cannot be loaded, and are sent with a call |
//! | `scripts-sent-whole` | warning | every request sends its whole script |
//! | `slow-scripts` | warning | the scripts of all clients are slow |
//! | `clock-skew` | warning | the clocks of the server and of this machine differ by more than a second |
//! | `script-faults` | warning, or unknown | this version has known faults in scripts |
//! | `unfit-as-node` | info | the server cannot be quarantined in a quorum |
//! | `info-refused` | unknown | the user may not run `INFO` |
//! | `config-refused` | unknown | the user may not run `CONFIG GET` |
//! | `sentinel-unknown` | unknown | the user may not ask for Sentinels |
//! | `replica-clock-unknown` | unknown | a replica did not tell its time |
//! | `clock-unknown` | unknown | the user may not run `TIME` |
//! | `rights-unknown` | unknown | the rights of the user could not be tried |
//! | `rehearsal-busy` | unknown | another client holds the lock of the rehearsal |

mod around;
mod asking;
mod clocks;
mod facts;
mod findings;
mod gather;
mod info;
mod rehearsal;
mod report;
mod rights;

use lock_core::Error;
pub use lock_core::check::{ClockOffset, Finding, Severity};

pub use self::report::{Report, Role, Server, Topology};
use crate::RedisBackend;

impl RedisBackend {
    /// Examines the servers, and reports [their problems](crate::check#findings) for locks.
    ///
    /// In a cluster the check looks at every primary, and behind sentinels at the primary and at each sentinel. The
    /// check asks the replicas of such a deployment for their time. At one primary it acquires, renews, watches,
    /// inspects and hands over a lock under the name `lock-redis/check`. At each primary it tries the commands of all
    /// scripts on a key of no lock, and those of watches on a channel of no lock. It changes no setting and no other
    /// key.
    ///
    /// For the start of an app, or for a person with a question. Locks do not depend on this check. The check takes
    /// some forty requests, and up to one [command timeout](crate::Builder::command_timeout) if no message of a release
    /// comes.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), lock_core::Error> {
    /// use lock_redis::RedisBackend;
    ///
    /// let report = RedisBackend::open("redis://127.0.0.1:6379")?.check().await?;
    /// println!("{report}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Only if the server cannot be reached, does not accept the user, or stops answering. Everything else is a
    /// finding, errors that hinder locks among them.
    ///
    /// # Cancel safety
    ///
    /// The lock of the check may remain for ten seconds, its key of no lock for one.
    ///
    /// # If the lease is lost
    ///
    /// If the lease of the check's own lock is lost, that is a finding. No lock of the app is touched.
    pub async fn check(&self) -> Result<Report, Error> {
        let found = gather::gather(self).await?;
        Ok(findings::report(&found).promising(&found.name, self))
    }
}
