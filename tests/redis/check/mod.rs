//! The findings of the check for various servers.
//!
//! `check/findings/tests.rs` in the crate tests which facts make which finding. These tests make the facts with real
//! servers.

mod clocks;
mod data;
mod hindrances;
mod listening;
mod proxies;
mod replication;
mod rights;
mod scripts;

use lock_redis::check::{Report, Role, Severity, Topology};
use lock_redis::{Builder, Protocol, RedisBackend};

use crate::support::Server;

/// The findings at any server of this version.
const OF_THE_VERSION: &str = "script-faults";

/// A server with the settings that suit locks, and with these settings.
fn healthy(more: &[&str]) -> Server {
    let settings =
        ["--appendonly", "yes", "--appendfsync", "always", "--notify-keyspace-events", "Kg$xe"];
    Server::with(&[&settings[..], more].concat())
}

async fn examine(builder: Builder) -> Report {
    builder.build().unwrap().check().await.unwrap()
}

async fn report(server: &Server) -> Report {
    examine(RedisBackend::builder(server.url())).await
}

/// The codes in the order of the report, without those that depend on the server with which the tests run.
fn codes(report: &Report) -> Vec<&'static str> {
    let codes = report.findings.iter().map(|finding| finding.code);
    codes.filter(|code| *code != OF_THE_VERSION).collect()
}

/// The severity and the text of the only finding with this code.
#[track_caller]
fn only(report: &Report, code: &str) -> (Severity, String) {
    let mut findings = report.with_code(code);
    let finding = findings.next().unwrap_or_else(|| panic!("no {code} in {report}"));
    assert_eq!(findings.count(), 0, "{report}");
    (finding.severity, finding.finding.to_string())
}

#[tokio::test]
async fn a_healthy_server_gives_no_finding() {
    let server = healthy(&[]);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let builder = RedisBackend::builder(server.url()).protocol(protocol);
        let report = examine(builder.tracking(protocol == Protocol::Resp3)).await;
        assert_eq!(codes(&report), [""; 0], "{report}");
        let [told] = report.servers.as_slice() else { panic!("{report:?}") };
        assert_eq!(told.address, format!("127.0.0.1:{}/0", server.port()));
        assert!(told.version.as_ref().is_some_and(|version| version.contains('.')));
        assert_eq!((told.role, told.replicas), (Some(Role::Master), Some(0)));
        assert_eq!(told.topology, Some(Topology::Standalone));
        assert_eq!(told.eviction_policy.as_deref(), Some("noeviction"));
        assert!(told.notifications.as_ref().is_some_and(|flags| flags.contains('K')));
        assert!(told.clock.is_some());
    }
    let keys: Vec<String> = server.client().command(&["KEYS", "*"]);
    assert!(keys.iter().all(|key| key.starts_with("lock:{lock-redis/check}:")), "{keys:?}");
}

#[tokio::test]
async fn a_report_is_json_and_text_without_credentials() {
    let server = Server::with(&["--requirepass", "hunter2"]);
    let url = format!("redis://:hunter2@127.0.0.1:{}/3", server.port());
    let report = RedisBackend::open(url).unwrap().check().await.unwrap();
    let json = serde_json::to_value(&report).unwrap();
    let mut findings = json["findings"].as_array().unwrap().iter();
    let finding = findings.find(|it| it["code"] == "no-persistence").unwrap();
    assert_eq!(finding["severity"], "warning");
    assert_eq!(finding["server"], format!("127.0.0.1:{}/3", server.port()));
    assert_eq!(json["servers"][0]["role"], "master");
    assert!(json["servers"][0]["clock"]["uncertainty_micros"].is_u64());
    for shown in [json.to_string(), report.to_string(), format!("{report:?}")] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    assert!(report.to_string().contains("warning: no-persistence at 127.0.0.1:"), "{report}");
}

#[tokio::test]
async fn reports_of_several_servers_are_one() {
    let (one, other) = (Server::start(), healthy(&[]));
    let mut both = report(&other).await;
    both.append(report(&one).await);
    assert_eq!(both.servers.len(), 2);
    let (severity, _) = only(&both, "no-persistence");
    assert_eq!(severity, Severity::Warning);
    let finding = both.with_code("no-persistence").next().unwrap();
    assert_eq!(finding.server, format!("127.0.0.1:{}/0", one.port()));
}
