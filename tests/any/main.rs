//! Locks by URL, over real servers. Each test has two clients.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod etcd;
mod postgres;
mod quorum;
mod support;

use lock_any::doctor::{Severity, doctor};
use lock_any::lock_sync::ErrorKind;
use lock_tests::RedisServer;

use crate::support::{clients, codes, exclude_each_other, serve_all_kinds, share};

#[tokio::test(flavor = "multi_thread")]
async fn one_server_by_url() {
    let server = RedisServer::start();
    serve_all_kinds(&clients(&server.url()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_by_url() {
    let servers = [0; 3].map(|_| RedisServer::start());
    let hosts =
        servers.each_ref().map(|server| server.url().replace("redis://", "").replace("/0", ""));
    let url = format!("redlock+redis://{}/0", hosts.join(","));

    // The servers are new, and an operator says so.
    lock_any::init(&url).await.unwrap();
    let clients = clients(&url).await;
    exclude_each_other(&clients).await;
    servers[1].kill();
    exclude_each_other(&clients).await;

    share(&clients).await;
    let [locks, _] = &clients;
    // A quorum counts no permits, and says so before it asks a server.
    let error = locks.semaphore("permits", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_examines_the_servers_of_any_store() {
    let servers = [0; 3].map(|_| RedisServer::builder().password("hunter2").start());
    let report = doctor(&servers[0].url()).await.unwrap();
    let alone = report.findings.iter().find(|finding| finding.code == "no-persistence");
    assert_eq!(alone.unwrap().severity, Severity::Warning, "{report}");
    assert!(report.servers[0].facts.iter().any(|fact| fact.name == "version"), "{report}");

    let hosts = servers.each_ref().map(|server| server.addr().to_string());
    let url = format!("redlock+redis://:hunter2@{}", hosts.join(","));
    // A new quorum grants nothing.
    let report = doctor(&url).await.unwrap();
    assert_eq!(report.worst(), Some(Severity::Critical), "{report}");
    assert!(codes(&report).contains(&(Severity::Warning, "node-kept-out")), "{report}");
    assert!(codes(&report).contains(&(Severity::Critical, "quorum-lost")), "{report}");

    lock_any::init(&url).await.unwrap();
    let report = doctor(&url).await.unwrap();
    assert!(report.worst() < Some(Severity::Warning), "{report}");
    assert_eq!(report.servers.len(), 3);
    // It counts no permits, converts no lease, and has no joint holders.
    let lacks = report.findings.iter().find(|it| it.code == "lacks-capabilities").unwrap();
    assert!(lacks.finding.contains("permits") && lacks.server == "the quorum", "{report}");
    // A node that loses its data keeps out of votes, so that is no warning.
    assert!(codes(&report).contains(&(Severity::Info, "no-persistence")), "{report}");

    servers[1].kill();
    let report = doctor(&url).await.unwrap();
    assert_eq!(report.worst(), Some(Severity::Warning), "{report}");
    for code in ["node-silent", "node-absent", "quorum-bare"] {
        assert!(codes(&report).contains(&(Severity::Warning, code)), "{report}");
    }
    servers[2].kill();
    let report = doctor(&url).await.unwrap();
    assert!(codes(&report).contains(&(Severity::Critical, "quorum-lost")), "{report}");
    assert!(!report.to_string().contains("hunter2"), "{report}");
}

#[tokio::test]
async fn a_doctor_of_a_server_that_is_not_there_has_no_report() {
    let server = RedisServer::start();
    server.kill();
    let error = doctor(&server.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert_eq!(doctor("nothing:").await.unwrap_err().kind(), ErrorKind::InvalidConfig);
}
