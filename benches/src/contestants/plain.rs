//! The simplest lock: the one that the documentation of Redis recommends.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, Script};

use super::LEASE;
use crate::{Contestant, Failure, Verbs};

/// Compares and deletes.
pub(super) const RELEASE: &str = "\
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end";

/// Compares and prolongs.
const RENEW: &str = "\
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
else
  return 0
end";

/// One multiplexed connection of the `redis` crate: `SET NX PX`, and one script for one key to release.
///
/// It does not wait for a lock that is held, does not renew by itself, has no fencing tokens, and draws no
/// random owners.
pub struct Plain {
    connection: MultiplexedConnection,
    renew: Script,
    release: Script,
    owners: AtomicU64,
}

impl Plain {
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
        let (renew, release) = (Script::new(RENEW), Script::new(RELEASE));
        for script in [&renew, &release] {
            script.prepare_invoke().load_async(&mut connection).await?;
        }
        Ok(Self { connection, renew, release, owners: AtomicU64::new(0) })
    }

    /// One round trip that does nothing.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub async fn ping(&self) -> Result<(), Failure> {
        Ok(redis::cmd("PING").exec_async(&mut self.connection.clone()).await?)
    }

    fn owner(&self) -> String {
        owner(self.owners.fetch_add(1, Ordering::Relaxed))
    }

    async fn set(&self, key: &str, owner: &str) -> Result<(), Failure> {
        let reply: Option<String> = redis::cmd("SET")
            .arg(key)
            .arg(owner)
            .arg("NX")
            .arg("PX")
            .arg(LEASE.as_millis() as u64)
            .query_async(&mut self.connection.clone())
            .await?;
        reply.map(|_| ()).ok_or_else(|| "the key is held, and the bare client does not wait".into())
    }

    async fn delete(&self, key: &str, owner: &str) -> Result<(), Failure> {
        let told: i64 = redis::cmd("EVALSHA")
            .arg(self.release.get_hash())
            .arg(1)
            .arg(key)
            .arg(owner)
            .query_async(&mut self.connection.clone())
            .await?;
        held(told)
    }

    async fn prolong(&self, key: &str, owner: &str) -> Result<(), Failure> {
        let told: i64 = redis::cmd("EVALSHA")
            .arg(self.renew.get_hash())
            .arg(1)
            .arg(key)
            .arg(owner)
            .arg(LEASE.as_millis() as u64)
            .query_async(&mut self.connection.clone())
            .await?;
        held(told)
    }
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").finish_non_exhaustive()
    }
}

/// As long as our owner tokens.
pub(super) fn owner(number: u64) -> String {
    format!("{number:032x}")
}

/// The key of a name. No other contestant has such keys.
pub(super) fn key(name: &str) -> String {
    format!("plain:{name}")
}

/// The reply of a script about the key.
fn held(told: i64) -> Result<(), Failure> {
    if told == 1 { Ok(()) } else { Err("the key was not held any more".into()) }
}

impl Contestant for Plain {
    type Key = String;

    const INNER: &'static [&'static str] = &["get", "del", "pexpire"];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(key(name))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let owner = self.owner();
        self.set(key, &owner).await?;
        section.await;
        self.delete(key, &owner).await
    }
}

impl Verbs for Plain {
    type Claim = (String, String);

    const INNER: &'static [&'static str] = <Self as Contestant>::INNER;

    fn claim(&self, name: &str) -> Result<Self::Claim, Failure> {
        Ok((key(name), self.owner()))
    }

    async fn acquire(&self, (key, owner): &Self::Claim) -> Result<(), Failure> {
        self.set(key, owner).await
    }

    async fn renew(&self, (key, owner): &Self::Claim) -> Result<(), Failure> {
        self.prolong(key, owner).await
    }

    async fn release(&self, (key, owner): &Self::Claim) -> Result<(), Failure> {
        self.delete(key, owner).await
    }
}
