//! A lock of a historic design, on one server. Its clients poll.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Cmd, FromRedisValue, cmd};
use tokio::time::sleep;

use super::design::Design;
use super::link::{Failed, Link};
use super::store::{AcquireOutcome, TOKENS, name, satellite};

/// The pause between two tries.
const POLL: Duration = Duration::from_millis(20);

/// The pause between two commands that are not one step: a busy client.
const BETWEEN: Duration = Duration::from_millis(10);

/// As above, where only a process that is stopped at that moment does harm.
const BEFORE_DELETE: Duration = Duration::from_millis(250);

/// As above, where only a process that is killed at that moment does harm.
const BEFORE_EXPIRE: Duration = Duration::from_millis(250);

/// The designs had no tokens. The history needs them.
const DRAW_TOKENS: &str = "local last = redis.call('INCRBY', KEYS[1], ARGV[1]) \
                           redis.call('PEXPIRE', KEYS[1], 3600000) return last";

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

const COMPARE_AND_SET: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
                               redis.call('SET', KEYS[1], ARGV[2]) return 1";

const COMPARE_AND_EXPIRE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
                                  return redis.call('PEXPIRE', KEYS[1], ARGV[2])";

pub(super) struct Historic {
    link: Arc<Link>,
    ttl: Duration,
    design: Design,
    /// By how much the clock of this client is ahead.
    ahead: Duration,
    /// The value that each owner has stored.
    values: Mutex<HashMap<String, String>>,
}

impl Historic {
    /// The clock of one client is ahead by more than a lease.
    pub(super) fn new(link: Arc<Link>, ttl: Duration, design: Design, client: &str) -> Self {
        let is_ahead = design == Design::SetnxGetset && client.ends_with('0');
        let ahead = if is_ahead { ttl * 3 } else { Duration::ZERO };
        Self { link, ttl, design, ahead, values: Mutex::default() }
    }

    pub(super) async fn attempt(&self, key: &str, owner: &str) -> Result<AcquireOutcome, Failed> {
        let value = self.value(owner);
        self.note(owner, Some(&value));
        let granted = match self.design {
            Design::SetnxExpire => self.set_then_expire(key, &value).await?,
            design if design.has_timestamps() => self.take_if_over(key, &value).await?,
            _ => self.set_with_ttl(key, &value).await?,
        };
        if !granted {
            self.note(owner, None);
            return Ok(AcquireOutcome::Busy(POLL));
        }
        let (state, count) = (satellite(key, "state"), TOKENS.to_string());
        let last: u64 = self.link.call(DRAW_TOKENS, &[state], &[count]).await?;
        Ok(AcquireOutcome::Granted(last + 1 - TOKENS..last + 1))
    }

    pub(super) async fn renew(&self, key: &str, owner: &str) -> Result<bool, Failed> {
        let Some(value) = self.noted(owner) else { return Ok(false) };
        let held: i64 = if self.design.has_timestamps() {
            let next = self.value(owner);
            let held = self.script(COMPARE_AND_SET, key, &[value, next.clone()]).await?;
            self.note(owner, (held == 1).then_some(&next));
            held
        } else {
            let millis = self.ttl.as_millis().to_string();
            self.script(COMPARE_AND_EXPIRE, key, &[value, millis]).await?
        };
        Ok(held == 1)
    }

    /// Releases a lock that the owner believes to hold.
    pub(super) async fn release(&self, key: &str, owner: &str) -> Result<(), Failed> {
        let Some(value) = self.note(owner, None) else { return Ok(()) };
        match self.design {
            Design::PlainDelete => self.delete(key).await,
            Design::GetThenDelete => {
                if self.get(key).await? == Some(value) {
                    sleep(BEFORE_DELETE).await;
                    self.delete(key).await?;
                }
                Ok(())
            }
            _ => self.script::<i64>(COMPARE_AND_DELETE, key, &[value]).await.map(drop),
        }
    }

    /// Releases the lock, if the owner has got it.
    pub(super) async fn withdraw(&self, key: &str, owner: &str) -> Result<(), Failed> {
        let Some(value) = self.note(owner, None) else { return Ok(()) };
        self.script::<i64>(COMPARE_AND_DELETE, key, &[value]).await.map(drop)
    }

    async fn set_with_ttl(&self, key: &str, value: &str) -> Result<bool, Failed> {
        let mut set = cmd("SET");
        set.arg(name(key)).arg(value).arg("NX").arg("PX").arg(self.ttl.as_millis() as u64);
        Ok(self.run::<Option<String>>(&set).await?.is_some())
    }

    async fn set_then_expire(&self, key: &str, value: &str) -> Result<bool, Failed> {
        if !self.setnx(key, value).await? {
            return Ok(false);
        }
        sleep(BEFORE_EXPIRE).await;
        let mut expire = cmd("PEXPIRE");
        expire.arg(name(key)).arg(self.ttl.as_millis() as u64);
        self.run::<i64>(&expire).await?;
        Ok(true)
    }

    /// Takes a lock that is free, or whose timestamp is over.
    async fn take_if_over(&self, key: &str, value: &str) -> Result<bool, Failed> {
        if self.setnx(key, value).await? {
            return Ok(true);
        }
        sleep(BETWEEN).await;
        let ends = match self.get(key).await? {
            Some(held) => timestamp(&held),
            None if self.design == Design::SetnxNil => 0,
            None => return Ok(false),
        };
        if self.clock() <= ends {
            return Ok(false);
        }
        sleep(BETWEEN).await;
        if self.design == Design::SetnxGetset {
            let mut getset = cmd("GETSET");
            getset.arg(name(key)).arg(value);
            // The lock is ours if it was over, or gone, until now.
            let before: Option<String> = self.run(&getset).await?;
            return Ok(before.is_none_or(|held| timestamp(&held) < self.clock()));
        }
        self.delete(key).await?;
        self.setnx(key, value).await
    }

    async fn setnx(&self, key: &str, value: &str) -> Result<bool, Failed> {
        let mut setnx = cmd("SETNX");
        setnx.arg(name(key)).arg(value);
        Ok(self.run::<i64>(&setnx).await? == 1)
    }

    async fn get(&self, key: &str) -> Result<Option<String>, Failed> {
        let mut get = cmd("GET");
        get.arg(name(key));
        self.run(&get).await
    }

    async fn delete(&self, key: &str) -> Result<(), Failed> {
        let mut delete = cmd("DEL");
        delete.arg(name(key));
        self.run::<i64>(&delete).await.map(drop)
    }

    async fn run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Failed> {
        self.link.run(command).await
    }

    async fn script<T: FromRedisValue>(
        &self,
        script: &str,
        key: &str,
        args: &[String],
    ) -> Result<T, Failed> {
        self.link.call(script, &[name(key)], args).await
    }

    /// What an owner stores: when its lease ends, if the design is about that, and its name.
    fn value(&self, owner: &str) -> String {
        if !self.design.has_timestamps() {
            return owner.to_owned();
        }
        format!("{} {owner}", self.clock() + self.ttl.as_millis() as u64)
    }

    /// The clock of the client, in milliseconds.
    fn clock(&self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (now + self.ahead).as_millis() as u64
    }

    /// Notes the value of an owner, or that it has none. Returns the value before.
    fn note(&self, owner: &str, value: Option<&String>) -> Option<String> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        match value {
            Some(value) => values.insert(owner.to_owned(), value.clone()),
            None => values.remove(owner),
        }
    }

    fn noted(&self, owner: &str) -> Option<String> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).get(owner).cloned()
    }
}

/// The time in a value.
fn timestamp(value: &str) -> u64 {
    value.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0)
}
