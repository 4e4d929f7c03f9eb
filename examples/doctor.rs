//! The problems of a store for locks, and their remedies.
//!
//! ```text
//! cargo run --example doctor -- redis://127.0.0.1:6379
//! cargo run --example doctor -- postgres://app:secret@127.0.0.1/shop
//! ```
//!
//! It asks the servers that the URL names, and starts no server of its own. The exit code is 0 if locks work, 1 if a
//! finding is critical, 2 for a bad command line, and 3 if the server could not be examined.

#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;

use lock_any::doctor::{Report, Severity, doctor};

const USAGE: &str =
    "Usage: doctor redis://[user:password@]host[:port][/database], or any other URL of a store";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(url) = url(env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match doctor(&url).await {
        Ok(report) => {
            println!("{report}");
            verdict(&report)
        }
        // The error does not contain the URL, which may contain a password.
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
    }
}

/// The only argument, if it can be a URL.
fn url(mut args: impl Iterator<Item = String>) -> Option<String> {
    let url = args.next().filter(|url| url.contains("://"))?;
    args.next().is_none().then_some(url)
}

fn verdict(report: &Report) -> ExitCode {
    let is_critical = report.worst() == Some(Severity::Critical);
    if is_critical { ExitCode::from(1) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use lock_tests::{EtcdServer, PostgresServer, RedisServer};

    use super::*;

    fn of(args: &[&str]) -> Option<String> {
        url(args.iter().map(|arg| (*arg).to_owned()))
    }

    #[test]
    fn one_url_is_taken_and_nothing_else() {
        assert_eq!(of(&["redis://a"]).as_deref(), Some("redis://a"));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["--help"]), None);
        assert_eq!(of(&["redis://a", "redis://b"]), None);
        assert!(!USAGE.contains('\n'));
    }

    #[tokio::test]
    async fn a_server_is_examined_and_an_absent_one_is_an_error() {
        let server = RedisServer::builder().password("hunter2").start();
        let report = doctor(&server.url()).await.unwrap();
        assert_eq!(verdict(&report), ExitCode::SUCCESS, "{report}");
        assert!(report.to_string().contains("no-persistence"), "{report}");
        assert!(!report.to_string().contains("hunter2"));
        server.kill();
        let error = doctor(&server.url()).await.unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    /// A version that may end leases early is a finding, though the URL does not allow it. Nothing endangers the only
    /// member.
    #[tokio::test]
    async fn a_cluster_is_examined_as_well() {
        let server = EtcdServer::start();
        let report = doctor(&server.locks()).await.unwrap();
        assert_eq!(report.with_code("one-member").count(), 1, "{report}");
        assert_eq!(verdict(&report), ExitCode::SUCCESS, "{report}");
    }

    #[tokio::test]
    async fn a_database_is_examined_as_well() {
        let server = PostgresServer::start();
        let report = doctor(&server.locks()).await.unwrap();
        assert_eq!(verdict(&report), ExitCode::SUCCESS, "{report}");
        let report = doctor(&server.url(&server.database())).await.unwrap();
        assert_eq!(verdict(&report), ExitCode::from(1), "{report}");
    }
}
