//! Locks by URL, over real servers. Each test has two clients.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use lock_any::doctor::{Report, Severity, doctor};
use lock_any::lock_sync::{ErrorKind, Locks, TryLockError};
use lock_tests::{RedisServer, soon};

/// Two clients of one store.
async fn clients(url: &str) -> [Locks; 2] {
    [lock_any::connect(url).await.unwrap(), lock_any::connect(url).await.unwrap()]
}

/// One client holds the lock, and the other one waits for it.
async fn exclude_each_other([one, other]: &[Locks; 2]) {
    let (here, there) = (one.mutex("it", ()).unwrap(), other.mutex("it", ()).unwrap());
    let guard = soon(here.lock()).await.unwrap();
    assert!(matches!(there.try_lock().await, Err(TryLockError::WouldBlock)));
    let waiting = tokio::spawn(async move { there.lock().await.map(drop) });
    drop(guard);
    soon(waiting).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_by_url() {
    let server = RedisServer::start();
    let clients = clients(&server.url()).await;
    exclude_each_other(&clients).await;

    let [one, other] = &clients;
    let (here, there) =
        (one.semaphore("permits", 1).unwrap(), other.semaphore("permits", 1).unwrap());
    let permit = soon(here.acquire()).await.unwrap();
    assert!(there.try_acquire().await.is_err());
    drop(permit);
    drop(soon(there.acquire()).await.unwrap());
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

    let [locks, _] = &clients;
    drop(soon(locks.rwlock("shared", ()).unwrap().read()).await.unwrap());
    assert_eq!(locks.inspect("shared").await.unwrap().waiting, 0);
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
    let codes = |report: &Report| -> Vec<_> {
        report.findings.iter().map(|finding| (finding.severity, finding.code)).collect()
    };
    // A new quorum grants nothing.
    let report = doctor(&url).await.unwrap();
    assert_eq!(report.worst(), Some(Severity::Critical), "{report}");
    assert!(codes(&report).contains(&(Severity::Warning, "node-kept-out")), "{report}");
    assert!(codes(&report).contains(&(Severity::Critical, "quorum-lost")), "{report}");

    lock_any::init(&url).await.unwrap();
    let report = doctor(&url).await.unwrap();
    assert!(report.worst() < Some(Severity::Warning), "{report}");
    assert_eq!(report.servers.len(), 3);
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
