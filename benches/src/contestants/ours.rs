//! The lock of this workspace.

use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_redis::RedisBackend;
use lock_redlock::Redlock;
use lock_sync::{Handoff, Locks, Mutex};
use tokio::runtime::Handle;

use crate::{Contestant, Failure};

/// How a guard ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)]
pub enum Ending {
    /// Its release is awaited.
    Released,
    /// It is dropped, and released in the background.
    Dropped,
}

/// `lock_sync::Mutex`, over some backend.
#[derive(Debug)]
pub struct Ours {
    locks: Locks,
    ending: Ending,
    /// For how long a lease is kept that nobody uses.
    cache: Option<Duration>,
}

impl Ours {
    /// Over a Redis server, with a connection of its own.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense.
    pub fn redis(url: &str, ending: Ending) -> Result<Self, Failure> {
        Self::with(url, ending, Handoff::default())
    }

    /// The same, and says how far a lock is passed on in this process while others wait elsewhere.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense.
    pub fn with(url: &str, ending: Ending, handoff: Handoff) -> Result<Self, Failure> {
        Ok(Self { locks: Self::locks(url, handoff)?.erase(), ending, cache: None })
    }

    /// What all of our locks over a Redis server are made from.
    pub(super) fn locks(url: &str, handoff: Handoff) -> Result<Locks<RedisBackend>, Failure> {
        Ok(Locks::builder(RedisBackend::open(url)?).handoff(handoff).build()?)
    }

    /// The same, without a thread of its own: the driver lives on the runtime in whose context this is
    /// called.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense.
    pub fn on_this_runtime(url: &str, ending: Ending, handoff: Handoff) -> Result<Self, Failure> {
        let locks = Locks::builder(RedisBackend::open(url)?).handoff(handoff);
        let locks = locks.on_runtime(Handle::current()).build()?;
        Ok(Self { locks: locks.erase(), ending, cache: None })
    }

    /// Over a quorum.
    ///
    /// # Errors
    ///
    /// If there is no thread to be had.
    pub fn quorum(
        quorum: Redlock<RedisBackend>,
        ending: Ending,
        handoff: Handoff,
    ) -> Result<Self, Failure> {
        let locks = Locks::builder(quorum).handoff(handoff).build()?;
        Ok(Self { locks: locks.erase(), ending, cache: None })
    }

    /// Over a store of its own in memory.
    pub fn memory(ending: Ending) -> Self {
        Self { locks: Locks::new(MemoryBackend::new()).erase(), ending, cache: None }
    }

    /// Keeps a lease for a second after its last guard, unless somebody else wants it.
    #[must_use]
    pub fn cached(mut self) -> Self {
        self.cache = Some(Duration::from_secs(1));
        self
    }
}

impl Contestant for Ours {
    type Key = Mutex<()>;

    // More than they call today: none of these is ever sent by itself.
    const INNER: &'static [&'static str] = &[
        "append",
        "del",
        "exists",
        "expire",
        "get",
        "getdel",
        "getrange",
        "hdel",
        "hexists",
        "hget",
        "hgetall",
        "hincrby",
        "hkeys",
        "hlen",
        "hmget",
        "hset",
        "hvals",
        "incr",
        "incrby",
        "info",
        "lindex",
        "linsert",
        "llen",
        "lpop",
        "lpos",
        "lpush",
        "lrange",
        "lrem",
        "lset",
        "ltrim",
        "persist",
        "pexpire",
        "pexpireat",
        "pexpiretime",
        "psetex",
        "pttl",
        "publish",
        "rpop",
        "rpush",
        "set",
        "setnx",
        "setrange",
        "spublish",
        "strlen",
        "time",
        "ttl",
        "type",
        "unlink",
        "zadd",
        "zcard",
        "zcount",
        "zmscore",
        "zpopmin",
        "zrange",
        "zrangebyscore",
        "zrank",
        "zrem",
        "zremrangebyscore",
        "zrevrange",
        "zscore",
    ];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        let mutex = self.locks.mutex(name, ())?;
        Ok(match self.cache {
            Some(idle) => mutex.with_cache(idle),
            None => mutex,
        })
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let guard = key.lock().await?;
        section.await;
        match self.ending {
            Ending::Released => guard.release().await?,
            Ending::Dropped => drop(guard),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn what_the_scripts_call_is_known() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lock-redis/src/scripts");
        let mut calls = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let script = fs::read_to_string(entry.unwrap().path()).unwrap();
            for call in script.split("call('").skip(1) {
                let name = call.split('\'').next().unwrap().to_lowercase();
                assert!(Ours::INNER.contains(&name.as_str()), "{name}");
                calls += 1;
            }
        }
        assert!(calls > 0);
    }
}
