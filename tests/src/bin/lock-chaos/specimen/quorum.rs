//! A lock on a majority of several servers: Redlock, with tokens that increase, and servers that abstain when
//! they may have forgotten something.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use lock_tests::Random;

use super::flaw::Flaw;
use super::link::{Failed, Link};
use super::store::{AcquireOutcome, TOKENS, flag, name, renew, satellite};

/// The key in which a server keeps the run of it that votes.
const MARKER: &str = "lock:specimen:cell";

/// The pause between the vote and its confirmation, so that an event can fall in between.
const DALLY: Duration = Duration::from_millis(40);

/// How often a client looks at a server that does not vote.
const LOOK: Duration = Duration::from_millis(100);

pub(super) struct Quorum {
    pub(super) links: Vec<Arc<Link>>,
    pub(super) ttl: Duration,
    /// The longest lease of any client.
    pub(super) max_ttl: Duration,
    pub(super) flaw: Flaw,
    pub(super) random: Mutex<Random>,
    /// How often each owner has given its votes up.
    pub(super) given_up: Mutex<HashMap<String, u32>>,
}

impl Quorum {
    fn majority(&self) -> usize {
        let half = self.links.len() / 2;
        if self.flaw == Flaw::HalfMajority { half } else { half + 1 }
    }

    pub(super) async fn attempt(
        self: &Arc<Self>,
        key: &str,
        owner: &str,
    ) -> Result<AcquireOutcome, Failed> {
        let ballot = self.ballot(owner);
        let args = [
            ballot.clone(),
            self.ttl.as_millis().to_string(),
            TOKENS.to_string(),
            floor().to_string(),
            flag(self.flaw != Flaw::MarkerAlone),
        ];
        let keys = [name(key), satellite(key, "state"), MARKER.to_owned()];
        let (votes, others) = self.ask(include_str!("scripts/vote.lua"), &keys, &args).await;
        let Some(last) = votes.iter().max().copied().filter(|_| self.is_majority(votes.len()))
        else {
            self.give_back(key, owner);
            return if others.contains(&Some(0)) {
                Ok(AcquireOutcome::Busy(self.pause()))
            } else {
                Err(Failed)
            };
        };
        tokio::time::sleep(DALLY).await;
        if self.flaw != Flaw::NoWriteBack {
            let args = [ballot, last.to_string(), flag(self.flaw == Flaw::BlindWriteBack)];
            let (acks, _) = self.ask(include_str!("scripts/confirm.lua"), &keys[..2], &args).await;
            if !self.is_majority(acks.len()) {
                self.give_back(key, owner);
                return Ok(AcquireOutcome::Busy(self.pause()));
            }
        }
        Ok(AcquireOutcome::Granted(last + 1 - TOKENS..last + 1))
    }

    fn is_majority(&self, count: usize) -> bool {
        count >= self.majority()
    }

    /// Asks all servers at once, until a majority has granted the vote or cannot any more. Returns the numbers
    /// of the grants, and the other answers, `None` for a failed request.
    async fn ask(
        &self,
        script: &str,
        keys: &[String],
        args: &[String],
    ) -> (Vec<u64>, Vec<Option<i64>>) {
        let calls = self.links.iter().map(|link| link.call::<(i64, String)>(script, keys, args));
        let mut calls: FuturesUnordered<_> = calls.collect();
        let (mut yes, mut others) = (Vec::new(), Vec::new());
        while let Some(answer) = calls.next().await {
            match answer {
                Ok((1, number)) => yes.push(number.parse().unwrap_or(0)),
                Ok((other, _)) => others.push(Some(other)),
                Err(Failed) => others.push(None),
            }
            if yes.len() >= self.majority() || others.len() > self.links.len() - self.majority() {
                break;
            }
        }
        (yes, others)
    }

    /// On every server, whatever its answer was: it may have granted the vote since.
    pub(super) fn give_back(self: &Arc<Self>, key: &str, owner: &str) {
        let (quorum, key, ballot) = (Arc::clone(self), key.to_owned(), self.ballot(owner));
        *self.given_up().entry(owner.to_owned()).or_default() += 1;
        tokio::spawn(async move { quorum.delete(&key, &ballot).await });
    }

    pub(super) async fn release(&self, key: &str, owner: &str) -> Result<(), Failed> {
        let ballot = self.ballot(owner);
        self.given_up().remove(owner);
        self.delete(key, &ballot).await
    }

    /// The name of the present votes of an owner.
    fn ballot(&self, owner: &str) -> String {
        let count = self.given_up().get(owner).copied().unwrap_or(0);
        if self.flaw == Flaw::ReusedBallot { owner.to_owned() } else { format!("{owner}.{count}") }
    }

    fn given_up(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn delete(&self, key: &str, ballot: &str) -> Result<(), Failed> {
        let script = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
                      return redis.call('DEL', KEYS[1])";
        let (keys, args) = ([name(key)], [ballot.to_owned()]);
        let mut calls: FuturesUnordered<_> =
            self.links.iter().map(|link| link.call::<i64>(script, &keys, &args)).collect();
        let mut released = 0;
        while let Some(answer) = calls.next().await {
            released += usize::from(answer.is_ok());
        }
        if self.is_majority(released) { Ok(()) } else { Err(Failed) }
    }

    pub(super) async fn renew(&self, key: &str, owner: &str) -> Result<bool, Failed> {
        let ballot = self.ballot(owner);
        let calls = self.links.iter().map(|link| renew(link, key, &ballot, self.ttl, self.flaw));
        let mut calls: FuturesUnordered<_> = calls.collect();
        let (mut held, mut lost) = (0, 0);
        while let Some(answer) = calls.next().await {
            held += usize::from(answer == Ok(true));
            lost += usize::from(answer == Ok(false));
            if self.is_majority(held) {
                return Ok(true);
            }
            if lost > self.links.len() - self.majority() {
                return Ok(false);
            }
        }
        Err(Failed)
    }

    /// Votes may have been split: the random pause lets one client come first the next time.
    fn pause(&self) -> Duration {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        random.between(Duration::from_millis(3), Duration::from_millis(30))
    }

    /// Watches one server, and lets it vote again once every lease that it may have forgotten has ended.
    pub(super) async fn watch(self: Arc<Self>, number: usize) {
        let script = include_str!("scripts/vouch.lua");
        let link = &self.links[number];
        let mut since = None;
        loop {
            if let Ok((run, votes)) = self.look(link, script, "").await {
                match &since {
                    _ if votes == 1 => since = None,
                    Some((seen, from)) if *seen == run => {
                        let from: &tokio::time::Instant = from;
                        if from.elapsed() > self.max_ttl + self.max_ttl / 20 {
                            _ = self.look(link, script, &run).await;
                        }
                    }
                    _ => since = Some((run, tokio::time::Instant::now())),
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn look(&self, link: &Link, script: &str, run: &str) -> Result<(String, i64), Failed> {
        link.call(script, &[MARKER.to_owned()], &[run.to_owned()]).await
    }
}

/// The lowest token at present: seconds, with room for a million tokens in each. So tokens increase although a
/// server has forgotten its counter. It is equal for all clients, and rarely higher than a counter.
fn floor() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() << 20
}
