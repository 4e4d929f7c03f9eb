//! The lock of this workspace.

use std::sync::Arc;
use std::time::Duration;

use lock_core::AnyBackend;
use lock_core::memory::MemoryBackend;
use lock_core::observer::Observer;
use lock_redis::RedisBackend;
use lock_sync::{Handoff, Locks, Mutex, MutexGuard};
use tokio::runtime::Handle;

use crate::{Contestant, Failure};

/// How a guard ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)]
pub enum Ending {
    /// The release is awaited.
    Released,
    /// The guard is dropped, and the release happens in the background.
    Dropped,
}

/// `lock_sync::Mutex`, over some backend.
#[derive(Debug)]
pub struct Ours {
    locks: Locks,
    ending: Ending,
    /// For how long an unused lease is kept.
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

    /// Over a Redis server, with this limit for hand-offs in this process while other processes wait.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense.
    pub fn with(url: &str, ending: Ending, handoff: Handoff) -> Result<Self, Failure> {
        Ok(Self { locks: Self::locks(url, handoff)?.erase(), ending, cache: None })
    }

    /// Over this backend, with this limit for hand-offs in this process while other processes wait.
    ///
    /// # Errors
    ///
    /// If the system gives no thread.
    pub fn over(backend: AnyBackend, ending: Ending, handoff: Handoff) -> Result<Self, Failure> {
        let locks = Locks::builder(backend).handoff(handoff).build()?;
        Ok(Self { locks, ending, cache: None })
    }

    /// The builder of all of our locks over a Redis server.
    pub(super) fn locks(url: &str, handoff: Handoff) -> Result<Locks<RedisBackend>, Failure> {
        Ok(Locks::builder(RedisBackend::open(url)?).handoff(handoff).build()?)
    }

    /// Over a Redis server, without a thread of its own: the driver runs on the caller's runtime.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense.
    pub fn on_this_runtime(url: &str, ending: Ending, handoff: Handoff) -> Result<Self, Failure> {
        let locks = Locks::builder(RedisBackend::open(url)?).handoff(handoff);
        let locks = locks.on_runtime(Handle::current()).build()?;
        Ok(Self { locks: locks.erase(), ending, cache: None })
    }

    /// Over a store of its own in memory.
    pub fn memory(ending: Ending) -> Self {
        Self { locks: Locks::new(MemoryBackend::new()).erase(), ending, cache: None }
    }

    /// As [`redis`](Self::redis), with an observer, which hears of one in so many acquisitions, or of the usual sample.
    ///
    /// # Errors
    ///
    /// If the URL makes no sense.
    pub fn observed(
        url: &str,
        ending: Ending,
        observer: impl Observer + 'static,
        one_in: Option<u32>,
    ) -> Result<Self, Failure> {
        let observer = Arc::new(observer);
        let backend = RedisBackend::builder(url).observer(observer.clone()).build()?;
        let mut locks = Locks::builder(backend).observer(observer);
        if let Some(one_in) = one_in {
            locks = locks.observe_one_in(one_in);
        }
        Ok(Self { locks: locks.build()?.erase(), ending, cache: None })
    }

    /// As [`memory`](Self::memory), with this observer.
    ///
    /// # Errors
    ///
    /// None: the options are the defaults.
    pub fn observed_in_memory(
        ending: Ending,
        observer: impl Observer + 'static,
    ) -> Result<Self, Failure> {
        let locks = Locks::builder(MemoryBackend::new()).observer(Arc::new(observer));
        Ok(Self { locks: locks.build()?.erase(), ending, cache: None })
    }

    /// Keeps a lease for a second after its last guard, unless another client wants it.
    #[must_use]
    pub fn cached(mut self) -> Self {
        self.cache = Some(Duration::from_secs(1));
        self
    }
}

impl Contestant for Ours {
    type Key = Mutex<()>;

    // More than the scripts call today. The client sends none of these commands by itself.
    const INNER: &'static [&'static str] = &[
        "append",
        "bitcount",
        "copy",
        "decr",
        "decrby",
        "del",
        "exists",
        "expire",
        "expireat",
        "expiretime",
        "get",
        "getbit",
        "getdel",
        "getex",
        "getrange",
        "getset",
        "hdel",
        "hexists",
        "hget",
        "hgetall",
        "hincrby",
        "hincrbyfloat",
        "hkeys",
        "hlen",
        "hmget",
        "hpexpire",
        "hrandfield",
        "hset",
        "hsetnx",
        "hstrlen",
        "hvals",
        "incr",
        "incrby",
        "incrbyfloat",
        "info",
        "lindex",
        "linsert",
        "llen",
        "lmove",
        "lpop",
        "lpos",
        "lpush",
        "lrange",
        "lrem",
        "lset",
        "ltrim",
        "mget",
        "mset",
        "object",
        "persist",
        "pexpire",
        "pexpireat",
        "pexpiretime",
        "psetex",
        "pttl",
        "publish",
        "rename",
        "rpop",
        "rpoplpush",
        "rpush",
        "sadd",
        "scard",
        "set",
        "setbit",
        "setnx",
        "setrange",
        "sismember",
        "smembers",
        "spublish",
        "srem",
        "strlen",
        "time",
        "touch",
        "ttl",
        "type",
        "unlink",
        "zadd",
        "zcard",
        "zcount",
        "zincrby",
        "zmscore",
        "zpopmax",
        "zpopmin",
        "zrange",
        "zrangebyscore",
        "zrangestore",
        "zrank",
        "zrem",
        "zremrangebyrank",
        "zremrangebyscore",
        "zrevrange",
        "zrevrank",
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
            Ending::Released => MutexGuard::release(guard).await?,
            Ending::Dropped => drop(guard),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lock_tests::RedisServer;
    use lock_tests::resp::{Client, Value};

    use super::*;
    use crate::contestants::Raw;
    use crate::measure::{self, Crowd};

    /// The commands so far, in lower case, and whether a script has called them.
    fn seen(server: &RedisServer, monitor: &mut Client) -> Vec<(String, bool)> {
        server.cli(&["ECHO", "the end"]);
        let mut seen = Vec::new();
        loop {
            let Ok(Value::Text(line)) = monitor.receive() else { panic!("the monitor has ended") };
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.contains("the end") {
                return seen;
            }
            let (who, command) = line.split_once("] \"").unwrap();
            let name = command.split('"').next().unwrap().to_lowercase();
            seen.push((name, who.ends_with(" lua")));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn only_the_commands_of_the_scripts_are_known() {
        let server = RedisServer::start();
        let mut monitor = server.connect().unwrap();
        monitor.command(&["MONITOR"]).unwrap();

        let backend = Arc::new(Raw::new(RedisBackend::open(server.url()).unwrap()));
        let names = vec!["a".to_owned(), "b".to_owned()];
        measure::verbs(backend, server.url(), names, Duration::ZERO).await.unwrap();
        let clients = [(); 2].map(|()| {
            let clients = Ours::with(&server.url(), Ending::Released, Handoff::Fair);
            Arc::new(clients.unwrap())
        });
        let plan = Crowd::new(8, vec!["hot".to_owned()], Duration::from_millis(50));
        measure::crowd(&clients, plan, &[]).await.unwrap();

        let seen = seen(&server, &mut monitor);
        assert!(seen.iter().any(|(_, by_script)| *by_script));
        for (name, by_script) in seen {
            assert_eq!(Ours::INNER.contains(&&*name), by_script || name == "info", "{name}");
        }
    }
}
