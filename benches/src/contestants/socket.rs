//! A plain socket: the cost of the server and the kernel, without any runtime.

use std::time::{Duration, Instant};

use lock_tests::RedisServer;
use lock_tests::resp::{Client, Value};

use super::LEASE;
use super::plain::{self, RELEASE};
use crate::Failure;

/// A blocking connection on the caller's thread that sends the commands of the bare client.
///
/// It is not a contestant, because it is not async, and no client that shares a connection between tasks can be as
/// fast. It shows how much a contestant could gain at most.
#[derive(Debug)]
pub struct Socket {
    client: Client,
    release: String,
    owners: u64,
}

impl Socket {
    /// Connects at once.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached or does not take the script.
    pub fn connect(server: &RedisServer) -> Result<Self, Failure> {
        let mut client = server.connect()?;
        match client.command(&["SCRIPT", "LOAD", RELEASE])? {
            Value::Text(hash) => Ok(Self { client, release: String::from_utf8(hash)?, owners: 0 }),
            other => Err(format!("the script was answered by {other:?}").into()),
        }
    }

    /// Acquires and releases keys, one after another, `count` times. Returns the time that this took.
    ///
    /// # Errors
    ///
    /// If the server does not answer or a key is held.
    pub fn pairs(&mut self, keys: &[String], count: u64) -> Result<Duration, Failure> {
        let keys: Vec<String> = keys.iter().map(|name| plain::key(name)).collect();
        let start = Instant::now();
        for key in keys.iter().cycle().zip(0..count).map(|(key, _)| key) {
            self.pair(key)?;
        }
        Ok(start.elapsed())
    }

    fn pair(&mut self, key: &str) -> Result<(), Failure> {
        self.owners += 1;
        let owner = plain::owner(self.owners);
        let lease = LEASE.as_millis().to_string();
        match self.client.command(&["SET", key, &owner, "NX", "PX", &lease])? {
            Value::Text(_) => {}
            other => return Err(format!("not acquired, but {other:?}").into()),
        }
        match self.client.command(&["EVALSHA", &self.release, "1", key, &owner])? {
            Value::Int(1) => Ok(()),
            other => Err(format!("not released, but {other:?}").into()),
        }
    }
}
