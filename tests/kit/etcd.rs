//! etcd servers: start, faults, end.

use std::panic::catch_unwind;

use lock_tests::{EtcdCluster, EtcdServer, SOON, eventually, process};

#[test]
fn two_servers_know_nothing_of_each_other() {
    let (one, other) = (EtcdServer::start(), EtcdServer::start());
    assert_ne!(one.addr(), other.addr());
    one.ctl(&["put", "k", "1"]);
    assert_eq!(one.keys(""), ["k"]);
    assert!(other.keys("").is_empty());
}

#[test]
fn a_server_that_cannot_start_fails_the_test_with_its_message() {
    let panic = catch_unwind(|| EtcdServer::with(&["--no-such-option"])).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("etcd did not start"), "{message}");
    assert!(message.contains("no-such-option"), "{message}");
}

#[test]
fn a_restart_keeps_the_data_also_of_a_server_that_stands_still() {
    let server = EtcdServer::start();
    server.ctl(&["put", "k", "v"]);
    let (pid, addr) = (server.pid(), server.addr());
    server.stop();
    assert!(!server.is_running() && !server.is_healthy());
    server.restart();
    assert!(!process::is_alive(pid));
    assert_eq!(server.addr(), addr);
    assert_eq!(server.ctl(&["get", "k", "--print-value-only"]), "v\n");
}

#[test]
fn a_server_comes_back_with_a_copy_from_before_or_with_nothing() {
    let server = EtcdServer::durable();
    server.ctl(&["put", "k", "then"]);
    server.kill();
    let copy = server.copy_data();
    server.restart();
    server.ctl(&["put", "k", "now"]);
    server.kill();
    server.restore_data(copy);
    server.restart();
    assert_eq!(server.ctl(&["get", "k", "--print-value-only"]), "then\n");
    server.kill();
    server.erase();
    server.restart();
    assert!(server.keys("").is_empty());
}

#[test]
fn a_lease_is_revoked_with_its_key() {
    let server = EtcdServer::start();
    let answer = server.ctl(&["lease", "grant", "60"]);
    let lease = answer.split(' ').nth(1).unwrap();
    server.ctl(&["put", "k", "v", &format!("--lease={lease}")]);
    assert_eq!(server.leases(), [lease]);
    assert_eq!(server.leases_of("k"), [lease]);
    server.revoke(lease);
    assert!(server.keys("").is_empty() && server.leases().is_empty());
}

#[test]
fn keys_with_a_prefix_are_forgotten_with_their_leases() {
    let server = EtcdServer::start();
    for key in ["one/a", "one/b", "two/a"] {
        let answer = server.ctl(&["lease", "grant", "60"]);
        let lease = answer.split(' ').nth(1).unwrap();
        server.ctl(&["put", key, "v", &format!("--lease={lease}")]);
    }
    server.ctl(&["put", "one/c", "v"]);
    server.forget("one/");
    assert_eq!((server.keys(""), server.leases().len()), (vec!["two/a".to_owned()], 1));
}

#[test]
fn history_is_forgotten() {
    let server = EtcdServer::start();
    for value in ["1", "2", "3"] {
        server.ctl(&["put", "k", value]);
    }
    assert!(server.try_ctl(&["get", "k", "--rev=2"]).is_ok());
    server.compact();
    let why = server.try_ctl(&["get", "k", "--rev=2"]).unwrap_err();
    assert!(why.contains("compacted"), "{why}");
    assert!(server.try_ctl(&["get", "k"]).is_ok());
}

#[test]
fn users_have_to_log_in() {
    let server = EtcdServer::start();
    server.require_users(&[("app", "secret", "locks/")]);
    assert!(server.keys("").is_empty(), "the kit may do everything");
    let put = |user: &str, key: &str| server.try_ctl(&["put", key, "1", &format!("--user={user}")]);
    assert!(put("app:secret", "locks/a").is_ok());
    assert!(put("app:secret", "other").unwrap_err().contains("permission denied"));
    assert!(put("app:guess", "locks/a").unwrap_err().contains("authentication failed"));
}

#[test]
fn messages_are_counted() {
    let server = EtcdServer::start();
    let before = server.received();
    for _ in 0..3 {
        server.ctl(&["put", "k", "v"]);
    }
    assert_eq!(server.received().since(&before).calls("Put"), 3);
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let panic = std::panic::catch_unwind(|| EtcdServer::with(&["--no-such-option"])).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("no-such-option"), "{message}");
}

#[test]
fn a_cluster_has_a_leader_which_can_change() {
    let cluster = EtcdCluster::start();
    cluster.members()[0].ctl(&["put", "k", "v"]);
    assert_eq!(cluster.members()[2].ctl(&["get", "k", "--print-value-only"]), "v\n");
    let first = cluster.leader();
    let second = cluster.move_leader();
    assert_ne!(first, second);

    cluster.members()[second].kill();
    let third = cluster.leader();
    assert_ne!(third, second);
    cluster.members()[third].stop();
    let last = 3 - second - third;
    eventually("the last one lacks a majority", SOON, || !cluster.members()[last].is_healthy());
    cluster.members()[third].cont();
    cluster.members()[second].restart();
    cluster.leader();
}
