#![doc = include_str!("../../README.md")]

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Any error that ends an example.
pub type AnyError = Box<dyn Error + Send + Sync>;

/// The store of an example: the one that the variable `LOCK_URL` names, or else the memory of this process.
/// `dlock init` prepares a PostgreSQL database.
pub fn url() -> String {
    env::var(lock_any::ENV).unwrap_or_else(|_| "memory:".to_owned())
}

/// A name for a lock of this run. An earlier run on one server has left no value under it.
pub fn fresh(name: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("examples/{name}/{:x}", since.as_nanos())
}

/// The exit code of an example. An error is printed, and makes the code 1.
pub fn exit(outcome: Result<(), AnyError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", chain(&*error));
            ExitCode::FAILURE
        }
    }
}

/// An error with its causes.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Some errors repeat the text of their cause.
        let words = error.to_string();
        if !text.ends_with(&words) {
            text += &format!(": {words}");
        }
        cause = error.source();
    }
    text
}

// The examples of these READMEs need several crates. Here they are tests.
#[cfg(doctest)]
#[doc = include_str!("../../crates/lock-etcd/README.md")]
struct LockEtcd;
#[cfg(doctest)]
#[doc = include_str!("../../crates/lock-postgres/README.md")]
struct LockPostgres;
#[cfg(doctest)]
#[doc = include_str!("../../crates/lock-redis/README.md")]
struct LockRedis;
#[cfg(doctest)]
#[doc = include_str!("../../crates/lock-redlock/README.md")]
struct LockRedlock;
#[cfg(doctest)]
#[doc = include_str!("../../crates/lock-telemetry/README.md")]
struct LockTelemetry;
#[cfg(doctest)]
#[doc = include_str!("../../docs/OPERATIONS.md")]
struct Operations;
