//! node-redlock, run by a script.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Failure;
use crate::contestants::LEASE;
use crate::dialogue::Dialogue;
use crate::measure::Passes;

/// A process of node with the package `redlock` over `ioredis`. It measures by itself, so that no pipe is part of a
/// pass. It ends when this value is dropped.
#[derive(Debug)]
pub struct NodeRedlock(Dialogue);

impl NodeRedlock {
    /// The commands that its scripts call.
    pub const INNER: [&str; 4] = ["del", "exists", "get", "set"];

    /// Checks that node and its packages are there.
    ///
    /// # Errors
    ///
    /// Says why its rows are missing.
    pub fn find() -> Result<(), String> {
        let wanted = "require('redlock'); require('ioredis')";
        let found = Command::new("node").args(["-e", wanted]).output();
        if found.is_ok_and(|output| output.status.success()) {
            return Ok(());
        }
        Err("node-redlock: left out, there is no `node` with the packages `redlock` and `ioredis`; \
             NODE_PATH says where packages are."
            .to_owned())
    }

    /// Starts it for these servers.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn start(urls: &[String]) -> Result<Self, Failure> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join("node_redlock.js");
        let mut node = Dialogue::start(Command::new("node").arg(script))?;
        node.tell(&json!({ "urls": urls }))?;
        Ok(Self(node))
    }

    /// Locks and unlocks a key for a while, at least once.
    ///
    /// # Errors
    ///
    /// If the process has ended, or its answer cannot be parsed.
    pub fn passes(
        &mut self,
        key: &str,
        time: Duration,
        limit: Duration,
    ) -> Result<Passes, Failure> {
        self.0.tell(&json!({
            "key": format!("node-redlock:{key}"),
            "lease": LEASE.as_millis() as u64,
            "millis": time.as_millis() as u64,
            "limit": limit.as_millis() as u64,
        }))?;
        let line = self.0.hear()?;
        parse(&line).ok_or_else(|| format!("node-redlock answered {line:?}").into())
    }
}

fn parse(line: &str) -> Option<Passes> {
    let answer: Value = serde_json::from_str(line).ok()?;
    let times =
        answer["times"].as_array()?.iter().map(|time| time.as_u64().map(Duration::from_nanos));
    let mut passes = Passes::of(times.collect::<Option<_>>()?);
    passes.failed = answer["failed"].as_u64()?;
    passes.trouble = answer["trouble"].as_str().map(str::to_owned);
    Some(passes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let passes = parse("{\"times\":[1000,2000],\"failed\":1,\"trouble\":\"no\"}\n").unwrap();
        assert_eq!(passes.times, [1, 2].map(Duration::from_micros));
        assert_eq!((passes.failed, passes.trouble.as_deref()), (1, Some("no")));
        assert!(parse("").is_none());
    }
}
