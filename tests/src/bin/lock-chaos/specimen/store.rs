//! The store of a lock: one server, or a majority of several.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::flaw::Flaw;
use super::historic::Historic;
use super::link::{Failed, Link};
use super::quorum::Quorum;

/// The number of tokens of a lease, one for each task that gets it.
pub(super) const TOKENS: u64 = 16;

/// The number of tokens of a lease that is never released.
const MANY: u64 = 100_000;

/// How long a handed-over lock waits for its new owner.
const CLAIM: Duration = Duration::from_millis(400);

/// How long a place in the queue is kept without a request.
const PLACE: Duration = Duration::from_millis(1_000);

/// The outcome of a request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AcquireOutcome {
    /// Granted to the owner, with these tokens.
    Granted(Range<u64>),
    /// Refused. The owner should ask again after this time.
    Busy(Duration),
}

pub(super) enum Store {
    One(One),
    Old(Historic),
    Many(Arc<Quorum>),
}

/// One server.
pub(super) struct One {
    pub(super) link: Arc<Link>,
    pub(super) ttl: Duration,
    /// Whether waiters have a place in a queue on the server, and the lock is handed from one to the next.
    /// Otherwise all waiters hear of a release.
    pub(super) queues: bool,
    pub(super) flaw: Flaw,
}

impl Store {
    /// Requests a lock. With `wait` the owner has a place in the queue afterwards.
    pub(super) async fn attempt(
        &self,
        key: &str,
        owner: &str,
        waits: bool,
    ) -> Result<AcquireOutcome, Failed> {
        match self {
            Self::One(one) => one.attempt(key, owner, waits).await,
            Self::Old(old) => old.attempt(key, owner).await,
            Self::Many(quorum) => quorum.attempt(key, owner).await,
        }
    }

    /// Renews a lease. Returns whether the owner had it.
    pub(super) async fn renew(&self, key: &str, owner: &str) -> Result<bool, Failed> {
        match self {
            Self::One(one) => renew(&one.link, key, owner, one.ttl, one.flaw).await,
            Self::Old(old) => old.renew(key, owner).await,
            Self::Many(quorum) => quorum.renew(key, owner).await,
        }
    }

    /// Releases a lock that the owner believes to hold.
    pub(super) async fn release(&self, key: &str, owner: &str) -> Result<(), Failed> {
        match self {
            Self::One(one) => one.release(key, owner, one.flaw != Flaw::NoOwnerCheck).await,
            Self::Old(old) => old.release(key, owner).await,
            Self::Many(quorum) => quorum.release(key, owner).await,
        }
    }

    /// Leaves the queue, and releases the lock if it was handed over by then.
    pub(super) async fn withdraw(&self, key: &str, owner: &str) -> Result<(), Failed> {
        match self {
            Self::One(one) => one.release(key, owner, true).await,
            Self::Old(old) => old.withdraw(key, owner).await,
            Self::Many(quorum) => {
                // No task waits for servers that are away.
                quorum.give_back(key, owner);
                Ok(())
            }
        }
    }

    /// The longest sleep of a waiter: its place in the queue must be renewed.
    pub(super) fn nap(&self) -> Duration {
        match self {
            Self::One(one) if one.queues => PLACE / 5,
            _ => Duration::MAX,
        }
    }
}

impl One {
    /// The channel for waiters: one for all of them, or one for each.
    pub(super) fn channel(&self, key: &str, owner: &str) -> String {
        format!("{}{}", channels(key), if self.queues { owner } else { "all" })
    }

    async fn attempt(&self, key: &str, owner: &str, waits: bool) -> Result<AcquireOutcome, Failed> {
        let ttl = if self.flaw == Flaw::NoTtl { 0 } else { self.ttl.as_millis() };
        let tokens = if self.flaw == Flaw::NoBudget { MANY } else { TOKENS };
        // No check whether the new owner is there, so it has the full lease.
        let skips_the_dead = self.flaw != Flaw::DeadGrant;
        let args = [
            owner.to_owned(),
            ttl.to_string(),
            flag(waits && self.queues),
            self.place().as_millis().to_string(),
            self.claim().as_millis().to_string(),
            flag(skips_the_dead),
            tokens.to_string(),
            flag(self.flaw != Flaw::PlainCounter),
            channels(key),
        ];
        let [fence, queue, places] = ["state", "queue", "places"].map(|part| satellite(key, part));
        let keys = [name(key), fence, queue, places];
        let (granted, number): (i64, String) =
            self.link.call(include_str!("scripts/acquire.lua"), &keys, &args).await?;
        let number: i64 = number.parse().map_err(|_| Failed)?;
        if granted == 1 {
            let first = number as u64;
            return Ok(AcquireOutcome::Granted(first..first + tokens));
        }
        if self.flaw == Flaw::LeakConnection {
            self.link.leak().await;
        }
        // Gone by now, or without an end: a moment, or the time of a lease.
        let left = u64::try_from(number).map_or(self.ttl, Duration::from_millis);
        Ok(AcquireOutcome::Busy(left + Duration::from_millis(2)))
    }

    async fn release(&self, key: &str, owner: &str, checks: bool) -> Result<(), Failed> {
        let args = [
            owner.to_owned(),
            flag(checks),
            self.claim().as_millis().to_string(),
            flag(self.flaw != Flaw::DeadGrant),
            channels(key),
        ];
        let [queue, places] = ["queue", "places"].map(|part| satellite(key, part));
        let keys = [name(key), queue, places];
        if self.flaw == Flaw::LeakKey {
            let left = satellite(key, &format!("token-of-{owner}"));
            () = self.link.call("redis.call('SET', KEYS[1], 1)", &[left], &[]).await?;
        }
        self.link.call::<i64>(include_str!("scripts/release.lua"), &keys, &args).await.map(drop)
    }

    /// How long a place in the queue is kept. For ever, if dead waiters are not skipped.
    fn place(&self) -> Duration {
        if self.flaw.relies_on_messages() { Duration::from_secs(3_600) } else { PLACE }
    }

    fn claim(&self) -> Duration {
        if self.flaw == Flaw::DeadGrant { self.ttl } else { CLAIM.min(self.ttl) }
    }
}

/// Renews a lease on one server.
pub(super) async fn renew(
    link: &Link,
    key: &str,
    owner: &str,
    ttl: Duration,
    flaw: Flaw,
) -> Result<bool, Failed> {
    let millis =
        if flaw == Flaw::RenewZero { u128::from(ttl.as_secs()) * 1_000 } else { ttl.as_millis() };
    let args = [owner.to_owned(), millis.to_string(), flag(flaw == Flaw::RenewRecreates)];
    let held: i64 = link.call(include_str!("scripts/renew.lua"), &[name(key)], &args).await?;
    Ok(held == 1)
}

/// The name of a lock on a server.
pub(super) fn name(key: &str) -> String {
    format!("lock:{{{key}}}")
}

/// A key that belongs to a lock on a server.
pub(super) fn satellite(key: &str, part: &str) -> String {
    format!("lock:{{{key}}}:{part}")
}

fn channels(key: &str) -> String {
    satellite(key, "to-")
}

pub(super) fn flag(yes: bool) -> String {
    u8::from(yes).to_string()
}
