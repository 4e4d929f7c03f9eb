//! The driver alone, with our scripts: what a lock costs that does nothing besides.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, Script, Value};

use super::LEASE;
use crate::{Contestant, Failure};

macro_rules! script {
    ($($part:literal),+) => {
        concat!($(include_str!(concat!("../../../crates/lock-redis/src/scripts/", $part))),+)
    };
}

pub(super) const ACQUIRE: &str = script!(
    "keys.lua",
    "acquire.lua",
    "tokens.lua",
    "acquire_free.lua",
    "places.lua",
    "acquire_wait.lua",
    "leases.lua",
    "queue.lua",
    "acquire_on.lua",
    "acquire_alone.lua",
    "acquire_line.lua"
);
pub(super) const RELEASE: &str = script!(
    "keys.lua",
    "release_alone.lua",
    "tokens.lua",
    "places.lua",
    "release_on.lua",
    "leases.lua",
    "queue.lua",
    "release.lua"
);
/// How many keys each of them has.
pub(super) const KEYS: &str = "6";

/// One multiplexed connection of the `redis` crate, which sends the scripts that we send.
///
/// It does not wait for a lock that is held, does not renew, and draws no random tokens.
pub struct Driver {
    connection: MultiplexedConnection,
    acquire: Script,
    release: Script,
    owners: AtomicU64,
}

impl Driver {
    /// Connects at once, without Nagle's delay and without deadlines for replies.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached or does not take the scripts.
    pub async fn connect(url: &str) -> Result<Self, Failure> {
        let settings = TcpSettings::default().set_nodelay(true);
        let client = Client::open(url.into_connection_info()?.set_tcp_settings(settings))?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let (acquire, release) = (Script::new(ACQUIRE), Script::new(RELEASE));
        for script in [&acquire, &release] {
            script.prepare_invoke().load_async(&mut connection).await?;
        }
        Ok(Self { connection, acquire, release, owners: AtomicU64::new(0) })
    }

    /// One round trip that does nothing.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub async fn ping(&self) -> Result<(), Failure> {
        Ok(redis::cmd("PING").exec_async(&mut self.connection.clone()).await?)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

/// The names that the scripts are given.
#[derive(Debug)]
pub struct Names {
    keys: [String; 6],
    channel: String,
}

impl Names {
    pub(super) fn new(name: &str) -> Self {
        let lock = format!("driver:{{{name}}}");
        let satellites = ["", ":fence", ":queue", ":slots", ":holders", ":grants"];
        Self {
            keys: satellites.map(|satellite| format!("{lock}{satellite}")),
            channel: format!("{lock}:released@0"),
        }
    }

    pub(super) fn acquire<'a>(&'a self, owner: &'a str, lease: &'a str) -> [&'a str; 10] {
        let [lock, fence, queue, slots, holders, grants] = &self.keys;
        // One token, and no inbox.
        [lock, fence, queue, slots, holders, grants, owner, lease, "1", ""]
    }

    pub(super) fn release<'a>(&'a self, owner: &'a str) -> [&'a str; 8] {
        let [lock, fence, queue, slots, holders, grants] = &self.keys;
        [lock, fence, queue, slots, holders, grants, owner, &self.channel]
    }
}

/// As long as the tokens that we draw.
pub(super) fn owner(number: u64) -> String {
    format!("{number:032x}")
}

impl Contestant for Driver {
    type Key = Names;

    const INNER: &'static [&'static str] = super::Ours::INNER;

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(Names::new(name))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let owner = owner(self.owners.fetch_add(1, Ordering::Relaxed));
        let mut connection = self.connection.clone();
        let reply: Value = redis::cmd("EVALSHA")
            .arg(self.acquire.get_hash())
            .arg(KEYS)
            .arg(&key.acquire(&owner, &LEASE.as_millis().to_string()))
            .query_async(&mut connection)
            .await?;
        if let Value::Int(_) = reply {
            return Err("the key is held, and the driver does not wait".into());
        }
        section.await;
        let told: i64 = redis::cmd("EVALSHA")
            .arg(self.release.get_hash())
            .arg(KEYS)
            .arg(&key.release(&owner))
            .query_async(&mut connection)
            .await?;
        if told < 0 { Err("the key was not held any more".into()) } else { Ok(()) }
    }
}
