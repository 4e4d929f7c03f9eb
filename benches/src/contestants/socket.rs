//! A plain socket: what the server and the kernel cost, without any runtime.

use std::time::{Duration, Instant};

use lock_tests::RedisServer;
use lock_tests::resp::{Client, Value};

use super::LEASE;
use super::driver::{ACQUIRE, KEYS, Names, RELEASE, owner};
use crate::Failure;

/// A blocking connection on the caller's thread, which sends the scripts that we send.
///
/// Not an async contestant, hence none: nothing that shares a connection between tasks can be as
/// fast. It shows how much there is to gain.
#[derive(Debug)]
pub struct Socket {
    client: Client,
    acquire: String,
    release: String,
    owners: u64,
}

impl Socket {
    /// Connects at once.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached or does not take the scripts.
    pub fn connect(server: &RedisServer) -> Result<Self, Failure> {
        let mut client = server.connect()?;
        let acquire = load(&mut client, ACQUIRE)?;
        let release = load(&mut client, RELEASE)?;
        Ok(Self { client, acquire, release, owners: 0 })
    }

    /// Acquires and releases keys, one after another, `count` times; how long that took.
    ///
    /// # Errors
    ///
    /// If the server does not answer or a key is held.
    pub fn pairs(&mut self, keys: &[String], count: u64) -> Result<Duration, Failure> {
        let keys: Vec<Names> = keys.iter().map(|name| Names::new(name)).collect();
        let start = Instant::now();
        for key in keys.iter().cycle().zip(0..count).map(|(key, _)| key) {
            self.pair(key)?;
        }
        Ok(start.elapsed())
    }

    fn pair(&mut self, key: &Names) -> Result<(), Failure> {
        self.owners += 1;
        let owner = owner(self.owners);
        let lease = LEASE.as_millis().to_string();
        let acquire = ["EVALSHA", &self.acquire, KEYS];
        let acquire = [&acquire[..], &key.acquire(&owner, &lease)].concat();
        let Value::Text(_) = self.client.command(&acquire)? else {
            return Err("the key is held, and a socket does not wait".into());
        };
        let release = ["EVALSHA", &self.release, KEYS];
        match self.client.command(&[&release[..], &key.release(&owner)].concat())? {
            Value::Int(told) if told >= 0 => Ok(()),
            other => Err(format!("the release was answered by {other:?}").into()),
        }
    }
}

fn load(client: &mut Client, script: &str) -> Result<String, Failure> {
    match client.command(&["SCRIPT", "LOAD", script])? {
        Value::Text(hash) => Ok(String::from_utf8(hash)?),
        other => Err(format!("the script was answered by {other:?}").into()),
    }
}
