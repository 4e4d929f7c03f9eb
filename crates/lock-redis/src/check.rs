//! A look at the server, for people.

use std::fmt;

use lock_core::{
    Acquire, Attempt, Backend as _, Claim, Error, ErrorKind, Hint, InspectBackend as _, Key,
    OwnerToken, Renew, Renewal, Ttl, Watch,
};
use tokio::time;

use crate::hub::{notifications, tracking};
use crate::link::Live;
use crate::options::Notifications;
use crate::wire::{Command, Failure, Reply};
use crate::{RedisBackend, scripts};

/// What [`RedisBackend::check`] found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The version of the server, if it says it.
    pub version: Option<String>,
    /// What it does when memory runs out, if it says it. Locks need `noeviction`.
    pub eviction_policy: Option<String>,
    /// Its setting of `notify-keyspace-events`, if it lets us ask.
    pub notifications: Option<String>,
    /// What does not hinder locks, but makes them less safe or slower to wait for. A sentence each.
    pub warnings: Vec<String>,
}

impl RedisBackend {
    /// Looks whether the server is fit for locks: takes, renews and hands over one under the name
    /// `lock-redis/check`, and watches it meanwhile.
    ///
    /// For the start of an app, or for a person with a question. Locks do not depend on it.
    ///
    /// # Errors
    ///
    /// Whatever hinders locks; [`ErrorKind::Unsupported`] if keyspace notifications are
    /// [required](Notifications::Require) and not there.
    ///
    /// # Cancel safety
    ///
    /// The lock may stay for ten seconds.
    pub async fn check(&self) -> Result<Report, Error> {
        let live = self.link().connected().await?;
        let unloaded = unloaded(&live).await?;
        let mut report = Report {
            version: info(&live, "server", &["valkey_version", "redis_version"]).await?,
            eviction_policy: info(&live, "memory", &["maxmemory_policy"]).await?,
            notifications: optional(notifications::flags(&live).await)?,
            warnings: unloaded.into_iter().collect(),
        };
        report.warn_of_eviction();
        self.warn_of_listening(&live, &mut report).await;
        report.warnings.extend(unfit_as_node(&live).await?);
        self.rehearse(&mut report).await?;
        if live.brings_all() {
            report.warnings.push(
                "every request brings its whole script along: the server does not take EVALSHA"
                    .into(),
            );
        }
        Ok(report)
    }

    async fn warn_of_listening(&self, live: &Live, report: &mut Report) {
        if self.listening().notifications != Notifications::Off {
            let missing = report.notifications.as_deref().map(notifications::missing);
            if let Some(missing) = missing.filter(|missing| !missing.is_empty()) {
                report.warnings.push(format!(
                    "releases by other libraries wake nobody: notify-keyspace-events lacks {missing}"
                ));
            }
        }
        if self.listening().tracking
            && let Err(error) = tracking::switch_on(live).await
        {
            report.warnings.push(format!("keys are not tracked: {error}"));
        }
    }

    /// Does once what locks do.
    async fn rehearse(&self, report: &mut Report) -> Result<(), Error> {
        let key = Key::new("lock-redis/check")?;
        let watch = self.hear(&key, report).await?;
        let claim = Claim::exclusive(key.clone(), OwnerToken::generate()?);
        let ttl = Ttl::new(time::Duration::from_secs(10))?;
        if !matches!(
            self.try_acquire(&Acquire::new(claim.clone(), ttl)).await?,
            Attempt::Granted(_)
        ) {
            // Somebody else is checking, so that it works.
            return Ok(());
        }
        if self.is_lost(&claim, ttl).await? {
            return Err(Error::new(
                ErrorKind::Other,
                "a lock was gone a moment after it was granted: something deletes or evicts keys",
            ));
        }
        self.look(&key, report).await?;
        let next = Acquire::new(Claim::exclusive(key, OwnerToken::generate()?), ttl).queued();
        let queued = self.try_acquire(&next).await;
        self.release(&claim).await?;
        let heard = match (watch, &queued) {
            (Some(watch), Ok(Attempt::Queued { .. })) => {
                self.hear_of_grant(watch, &next, report).await
            }
            (Some(watch), Ok(_)) => {
                self.hear_of_release(watch, report).await;
                Ok(())
            }
            _ => Ok(()),
        };
        self.release(&next.claim).await?;
        queued.and(heard)
    }

    /// Begins to watch.
    async fn hear(&self, key: &Key, report: &mut Report) -> Result<Option<Watch>, Error> {
        match self.watch(key).await {
            Ok(watch) => Ok(Some(watch)),
            Err(error) if self.listening().notifications == Notifications::Require => Err(error),
            Err(error) => {
                report.warnings.push(format!("waiters rely on time alone: {error}"));
                Ok(None)
            }
        }
    }

    /// Renews a lease, and says whether it is over.
    async fn is_lost(&self, claim: &Claim, ttl: Ttl) -> Result<bool, Error> {
        match self.renew(&Renew::new(claim.clone(), ttl)).await {
            Renewal::Unknown(error) => Err(error),
            renewal => Ok(matches!(renewal, Renewal::Lost)),
        }
    }

    async fn look(&self, key: &Key, report: &mut Report) -> Result<(), Error> {
        match self.inspect(key).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Denied => report.warnings.push(format!(
                "who holds a lock cannot be seen, and semaphores and groups may fail: {error}"
            )),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Hears of the grant of the claim that came next, which then has the lock.
    ///
    /// A release gives the lock to a claim only if the server counts its client among the receivers of the message.
    async fn hear_of_grant(
        &self,
        watch: Watch,
        next: &Acquire,
        report: &mut Report,
    ) -> Result<(), Error> {
        let owner = next.claim.owner;
        let is_it = |hint| matches!(hint, Hint::Granted { owner: it, .. } if it == owner);
        if self.expect(watch, is_it, report).await && self.is_lost(&next.claim, next.ttl).await? {
            report.warnings.push(
                "a release drops those who wait in line: \
                 the server, or a proxy before it, counts no receivers of messages that they hear"
                    .into(),
            );
        }
        Ok(())
    }

    /// Hears of the release, by which the lock is free for clients that have no place in the queue.
    async fn hear_of_release(&self, watch: Watch, report: &mut Report) {
        if self.queues() {
            report
                .warnings
                .push("waiters do not queue: the channel of their grants cannot be heard".into());
        }
        self.expect(watch, |hint| hint == Hint::Released, report).await;
    }

    /// Whether this hint is heard.
    async fn expect(
        &self,
        mut watch: Watch,
        is_it: impl Fn(Hint) -> bool,
        report: &mut Report,
    ) -> bool {
        let limit = self.link().settings().command_timeout;
        let heard = async {
            loop {
                match watch.next().await {
                    Some(hint) if is_it(hint) => return true,
                    Some(_) => {}
                    None => return false,
                }
            }
        };
        time::timeout(limit, heard).await.unwrap_or_else(|_| {
            report.warnings.push(format!(
                "waiters rely on time alone: nothing was heard of a release within {limit:?}"
            ));
            false
        })
    }
}

impl Report {
    fn warn_of_eviction(&mut self) {
        match self.eviction_policy.as_deref() {
            Some("noeviction") => {}
            Some(policy) => self.warnings.push(format!(
                "the server evicts locks when memory runs out: its policy is {policy}, not noeviction"
            )),
            None => self.warnings.push("it is unknown whether the server evicts locks".into()),
        }
    }
}

/// One line each.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
        writeln!(f, "version: {}", or_unknown(&self.version))?;
        writeln!(f, "eviction policy: {}", or_unknown(&self.eviction_policy))?;
        write!(f, "notify-keyspace-events: {}", or_unknown(&self.notifications))?;
        for warning in &self.warnings {
            write!(f, "\nwarning: {warning}")?;
        }
        Ok(())
    }
}

/// Has the server load every script. Other clients may have loaded them, but a server may forget them at any time.
///
/// Returns a warning if it loads none, and takes them all the same.
async fn unloaded(live: &Live) -> Result<Option<String>, Error> {
    for script in scripts::all() {
        match live.load(script).await {
            Ok(()) => {}
            Err(Failure::NoCommand(error)) => {
                live.brings(error.clone()).await.map_err(Failure::into_error)?;
                let what =
                    "the server loads no scripts, and gets each one whole that it does not know";
                return Ok(Some(format!("{what}: {error}")));
            }
            Err(failure) => return Err(failure.into_error()),
        }
    }
    Ok(None)
}

/// Why the server cannot be kept out of a quorum, if it cannot.
async fn unfit_as_node(live: &Live) -> Result<Option<String>, Error> {
    let why = match info(live, "server", &["redis_mode", "server_mode"]).await? {
        None => "this user may not run INFO",
        Some(mode) if mode == "cluster" => "it is part of a cluster",
        Some(_) => return Ok(None),
    };
    let what = "as a node of a quorum it cannot be kept out after it forgot leases";
    Ok(Some(format!("{what}: {why}")))
}

/// The first of these fields that a section of INFO has.
async fn info(live: &Live, section: &str, fields: &[&str]) -> Result<Option<String>, Error> {
    let answer = live.call(&Command::words(&["INFO", section])).await;
    let reply = optional(answer.map_err(Failure::into_error))?;
    let Some(Reply::Text(text)) = reply else { return Ok(None) };
    Ok(first_of(fields, &text))
}

/// What a text of lines of the form `field:value` says of the first of these fields that it has.
fn first_of(fields: &[&str], text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let value = |field: &&str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
    };
    // It is shown to people, in lines.
    fields.iter().find_map(value).map(|value| value.chars().filter(|it| !it.is_control()).collect())
}

/// What a server need not tell.
fn optional<T>(outcome: Result<T, Error>) -> Result<Option<T>, Error> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const FIELDS: [&str; 2] = ["valkey_version", "redis_version"];

    #[test]
    fn the_first_field_that_is_there_counts() {
        let both = b"# Server\r\nredis_version:7.2.4\r\nvalkey_version:8.0\r\n";
        assert_eq!(first_of(&FIELDS, both).as_deref(), Some("8.0"));
        assert_eq!(first_of(&FIELDS, b"redis_version:7.0.15").as_deref(), Some("7.0.15"));
        assert_eq!(first_of(&FIELDS, b"redis_version_old:7\r\nxredis_version:8\r\n"), None);
    }

    proptest! {
        #[test]
        fn whatever_the_server_tells_of_itself_fits_in_a_line(
            pieces in prop::collection::vec(prop_oneof![
                select(vec!["redis_version", "valkey_version", ":", "\r\n", "\n", "\r", "\u{1b}[2J", "7.0"])
                    .prop_map(|piece| piece.as_bytes().to_vec()),
                prop::collection::vec(any::<u8>(), 0..4),
            ], 0..12),
        ) {
            let text = pieces.concat();
            if let Some(value) = first_of(&FIELDS, &text) {
                prop_assert!(!value.chars().any(char::is_control), "{:?}", value);
                prop_assert!(String::from_utf8_lossy(&text).contains("_version:"));
            }
        }
    }
}
