//! Clusters of etcd by URL.

use lock_any::doctor::{Severity, doctor};
use lock_any::lock_sync::{ErrorKind, TryLockError};
use lock_tests::{EtcdCluster, EtcdServer, SOON, eventually_async, soon};

use crate::support::{clients, codes, exclude_each_other, serve_all_kinds};

/// Whether the members lack the fix of etcd #15247.
fn is_unsafe() -> bool {
    EtcdServer::is_unsafe(EtcdServer::version())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_by_url() {
    let cluster = EtcdCluster::start();
    serve_all_kinds(&clients(&cluster.locks()).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_path_of_a_url_parts_the_locks_of_a_server() {
    let server = EtcdServer::start();
    let url = |path: &str| server.locks().replace('?', &format!("{path}?"));
    let shop = url("/shop");
    lock_any::init(&shop).await.unwrap();
    exclude_each_other(&clients(&shop).await).await;
    let (here, there) = (lock_any::connect(&shop).await, lock_any::connect(&url("/other")).await);
    let _guard = soon(here.unwrap().try_lock("it")).await.unwrap();
    drop(soon(there.unwrap().try_lock("it")).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_refuses_an_old_version_unless_it_allows_it() {
    let server = EtcdServer::start();
    let locks = lock_any::connect(&server.url()).await.unwrap();
    match soon(locks.try_lock("it")).await {
        Ok(_) => assert!(!is_unsafe()),
        Err(TryLockError::Backend(error)) => {
            assert!(is_unsafe(), "{error}");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("allow_unsafe_version"), "{error}");
        }
        Err(error) => panic!("{error}"),
    }
    for wrong in ["?allow_unsafe_version=perhaps", "?any=true", "/a#b"] {
        let error = lock_any::connect(&(server.url() + wrong)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{wrong}: {error}");
    }
    for wrong in ["etcd+x://a", "redlock+etcd://a,b,c", "redlock:etcd:a", "etcd:a"] {
        let error = lock_any::connect(wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{wrong}: {error}");
    }
}

/// The URL does not allow an old version, and the doctor reports one nevertheless.
#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_examines_the_members_and_reports_an_old_version() {
    // The leader stays, also if the machine is busy.
    let cluster = EtcdCluster::with(&["--election-timeout=3000"]);
    cluster.leader();
    let report = doctor(&cluster.url()).await.unwrap();
    let mut expected = vec![(Severity::Info, "coarse-leases")];
    if is_unsafe() {
        expected.splice(..0, [(Severity::Critical, "unsafe-version"); 3]);
    }
    assert_eq!(codes(&report), expected, "{report}");
    assert_eq!(report.servers.len(), 3);
    let (major, minor, patch) = EtcdServer::version();
    let version = format!("{major}.{minor}.{patch}");
    let named = |it: &lock_any::doctor::Fact| it.name == "version" && it.value == version;
    assert!(report.servers.iter().all(|it| it.facts.iter().any(named)), "{report}");
    let served = report.store.iter().find(|fact| fact.name == "serves").unwrap();
    assert!(served.value.contains("wake-ups") && served.value.contains("permits"), "{report}");

    let old = cluster.leader();
    cluster.members()[old].kill();
    cluster.leader();
    let report = doctor(&cluster.url()).await.unwrap();
    let silent = report.with_code("member-silent").next().unwrap();
    assert_eq!(silent.server, cluster.members()[old].addr().to_string(), "{report}");
    assert_eq!(report.with_code("lock-refused").count(), 0, "{report}");

    // After a while, one member of three knows that no leader is there.
    let other = cluster.leader();
    cluster.members()[other].kill();
    let knows = eventually_async("the last member misses the leader", SOON * 3, async || {
        let report = doctor(&cluster.url()).await.unwrap();
        assert_eq!(report.with_code("member-silent").count(), 2, "{report}");
        report.with_code("no-leader").count() == 1
    });
    knows.await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_of_one_server_says_that_there_is_one_copy() {
    let server = EtcdServer::start();
    for (url, unsafe_version) in [
        (server.url(), (Severity::Critical, "unsafe-version-refused")),
        (server.locks(), (Severity::Warning, "unsafe-version-alone")),
    ] {
        let report = doctor(&url).await.unwrap();
        let mut expected = vec![(Severity::Info, "one-member"), (Severity::Info, "coarse-leases")];
        if is_unsafe() {
            expected.insert(0, unsafe_version);
        }
        assert_eq!(codes(&report), expected, "{report}");
    }
    server.kill();
    let error = doctor(&server.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_sees_which_rights_a_user_has() {
    let server = EtcdServer::start();
    server.require_users(&[("app", "hunter2", "shop/")]);
    let allowed = server.url_as("app", "hunter2") + "/shop?allow_unsafe_version=true";
    let report = doctor(&allowed).await.unwrap();
    assert!(report.worst() < Some(Severity::Critical), "{report}");
    let report = doctor(&(server.url_as("app", "hunter2") + "/other")).await.unwrap();
    assert!(codes(&report).contains(&(Severity::Critical, "rights-missing")), "{report}");
    assert!(!report.to_string().contains("hunter2"), "{report}");
    let error = doctor(&server.url_as("app", "a-guess")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!error.to_string().contains("a-guess"), "{error}");
}

/// The server has room for 64 KiB, so a value is soon too much.
#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_sees_that_the_space_is_full() {
    let server = EtcdServer::with(&["--unsafe-no-fsync", "--quota-backend-bytes=65536"]);
    let filler = "x".repeat(32 << 10);
    let full = (0..20).any(|n| server.try_ctl(&["put", &format!("filler{n}"), &filler]).is_err());
    assert!(full, "the server took everything");
    let report = doctor(&server.url()).await.unwrap();
    assert_eq!(report.with_code("space-full").count(), 1, "{report}");
}
