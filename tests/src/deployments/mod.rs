//! Deployments of several servers: a cluster, and a primary with its replicas that sentinels watch.

mod cluster;
mod sentinels;

pub use cluster::{ClusterNode, RedisCluster};
pub use sentinels::Sentinels;

use std::time::Duration;

use crate::RedisServer;
use crate::resp::Value;

/// How long a deployment may take to form, or to fail over, on a loaded machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a command that answers `OK`.
#[track_caller]
fn ok(server: &RedisServer, command: &[&str]) {
    let answer = server.cli(command);
    assert!(is_ok(&answer), "{command:?}: {answer:?}");
}

fn is_ok(answer: &Value) -> bool {
    matches!(answer, Value::Text(text) if text == b"OK")
}

/// Whether a server that may be down says this in a section of `INFO`.
fn says(server: &RedisServer, section: &str, line: &str) -> bool {
    match server.try_cli(&["INFO", section]) {
        Ok(Value::Text(text)) => String::from_utf8_lossy(&text).lines().any(|it| it == line),
        _ => false,
    }
}
