//! What the check of a deployment reports, and what its clients show of themselves.

use std::time::Duration;

use lock_core::{Backend, ErrorKind, Hint};
use lock_redis::RedisBackend;
use lock_redis::check::{Report, Severity, Topology};
use lock_tests::{RedisCluster, Sentinels, soon};

use crate::support::{Waiter, claim, granted, released};

/// The sentinels replace no primary that is merely slow.
const PATIENCE: Duration = Duration::from_secs(60);

fn finds(report: &Report, code: &str) -> usize {
    report.with_code(code).count()
}

#[tokio::test]
async fn a_check_of_a_cluster_looks_at_every_primary_and_tells_of_failovers() {
    let cluster = RedisCluster::start(3, 0);
    let odd = cluster.nodes()[1].server();
    odd.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let backend = RedisBackend::open(cluster.url()).unwrap();
    let report = soon(backend.check()).await.unwrap();
    assert_eq!(report.servers.len(), 3, "{report}");
    assert!(report.servers.iter().all(|server| server.topology == Some(Topology::Cluster)));
    assert!(report.servers.iter().all(|server| server.version.is_some()));
    for (code, count) in [
        ("failover-unconfirmed", 1),
        ("eviction-policy", 1),
        ("slots-uncovered", 0),
        ("cluster-node", 0),
        ("releases-unheard", 0),
        ("queue-refused", 0),
        ("rights-unknown", 0),
    ] {
        assert_eq!(finds(&report, code), count, "{code}: {report}");
    }
    assert_ne!(report.worst(), Some(Severity::Critical), "{report}");
    let slots = ["CLUSTER", "DELSLOTS", "7"];
    cluster.nodes().iter().for_each(|node| drop(node.server().cli(&slots)));
    let report = soon(backend.check()).await.unwrap();
    assert_eq!(finds(&report, "slots-uncovered"), 1, "{report}");
}

#[tokio::test]
async fn a_check_behind_sentinels_tells_of_failovers() {
    let deployment = Sentinels::with_patience(1, 3, PATIENCE);
    let backend = RedisBackend::open(deployment.url()).unwrap();
    let report = soon(backend.check()).await.unwrap();
    assert_eq!(finds(&report, "releases-unheard"), 0, "{report}");
    assert_eq!(report.servers[0].topology, Some(Topology::Sentinel), "{report}");
    let of_failovers = ["failover-unconfirmed", "failover-forgets", "no-min-replicas"];
    let count = |report: &Report| of_failovers.map(|code| finds(report, code));
    assert_eq!(count(&report), [1, 1, 1], "{report}");
    // Replicas confirm the grants of this client.
    let confirming = RedisBackend::builder(deployment.url()).confirm(1, Duration::from_millis(500));
    let report = soon(confirming.build().unwrap().check()).await.unwrap();
    assert_eq!(count(&report), [0, 0, 0], "{report}");
}

#[tokio::test]
async fn servers_and_sentinels_want_their_own_passwords_and_none_is_shown() {
    let deployment = Sentinels::start(0, 1);
    for (server, password) in [(&deployment.servers()[0], "server-secret")]
        .into_iter()
        .chain(deployment.sentinels().iter().map(|it| (it, "sentinel-secret")))
    {
        let rules = ["ACL", "SETUSER", "default", "resetpass", &format!(">{password}")];
        assert_eq!(server.cli(&rules).text(), "OK");
        server.client_kill_all();
    }
    let with = |login: &str, query: &str| {
        RedisBackend::open(format!("{}{query}", deployment.url_as(login))).unwrap()
    };
    let right = with(":server-secret@", "?sentinel_pass=sentinel-secret");
    granted(&right, &claim("a")).await;
    for (login, query) in [
        ("", "?sentinel_pass=sentinel-secret"),
        (":server-secret@", ""),
        (":sentinel-secret@", "?sentinel_pass=server-secret"),
    ] {
        let backend = with(login, query);
        let error = soon(backend.release(&claim("a"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        let shown = format!("{error} {error:?} {backend:?}");
        assert!(!shown.contains("secret"), "{shown}");
    }
}

/// For a user with the documented rights: the deployment is what it is, what the user may not ask is unknown, and nothing
/// is worse.
async fn its_check_finds_nothing_worse_than_expected(backend: &RedisBackend) {
    let report = soon(backend.check()).await.unwrap();
    for found in &report.findings {
        let expected = match found.code {
            "config-refused" | "sentinel-unknown" => Severity::Unknown,
            "failover-unconfirmed"
            | "failover-forgets"
            | "no-min-replicas"
            | "no-replica"
            | "snapshots-only" => Severity::Warning,
            // It depends on the version of the server.
            "script-faults" => found.severity,
            // The line of rights lacks those of a cluster.
            "rights-missing" => {
                assert!(found.finding.ends_with("lacks `+spublish` `+ssubscribe`"), "{report}");
                Severity::Info
            }
            "unfit-as-node" | "notifications-missing" => Severity::Info,
            // A busy machine alone causes these.
            "replica-lagging" | "replica-not-online" | "releases-unheard" | "slow-scripts" => {
                Severity::Warning
            }
            _ => panic!("{found}\n{report}"),
        };
        assert_eq!(found.severity, expected, "{found}\n{report}");
    }
    // The line has no right to read settings.
    assert!(finds(&report, "config-refused") > 0, "{report}");
}

/// The line of the docs with the rights of all kinds of locks.
fn documented() -> Vec<&'static str> {
    const PAGE: &str = include_str!("../../crates/lock-redis/src/acl.md");
    let (_, line) = PAGE.split_once("ACL SETUSER locks on >password ").unwrap();
    line.split_once("```").unwrap().0.split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_are_enough_for_a_deployment() {
    let give = |server: &lock_tests::RedisServer, user: &str, rights: &[&str]| {
        let command = [&["ACL", "SETUSER", user, "on", ">hunter2"][..], rights].concat();
        assert_eq!(server.cli(&command).text(), "OK");
    };
    let cluster = RedisCluster::start(3, 0);
    let more = ["+cluster|slots", "+asking", "+info"];
    for node in cluster.nodes() {
        give(node.server(), "locks", &[&documented()[..], &more].concat());
    }
    let deployment = Sentinels::with_patience(1, 3, PATIENCE);
    for server in deployment.servers() {
        give(server, "locks", &[&documented()[..], &["+role", "+info"]].concat());
    }
    let rights = ["resetchannels", "&+switch-master", "-@all", "+sentinel|master", "+subscribe"];
    for sentinel in deployment.sentinels() {
        give(sentinel, "eyes", &rights);
    }
    let query = "?sentinel_user=eyes&sentinel_pass=hunter2";
    let clients = [
        RedisBackend::open(cluster.url_as("locks:hunter2@")),
        RedisBackend::open(format!("{}{query}", deployment.url_as("locks:hunter2@"))),
    ];
    for backend in clients.map(Result::unwrap) {
        its_check_finds_nothing_worse_than_expected(&backend).await;
        let held = claim("a");
        granted(&backend, &held).await;
        let mut waiter = Waiter::queue(&backend, claim("a")).await;
        if format!("{backend:?}").contains("cluster") {
            let to = (cluster.owner_of("lock:{a}") + 1) % 3;
            tokio::task::block_in_place(|| cluster.move_slot("lock:{a}", to));
        } else {
            tokio::task::block_in_place(|| deployment.fail_over());
        }
        waiter.hears(Hint::Resync).await;
        soon(released(&backend, &held)).await;
        waiter.gets_it().await;
    }
}

#[tokio::test]
async fn a_wrong_password_is_told_although_a_seed_is_down() {
    let cluster = RedisCluster::start(3, 0);
    let url = cluster.url_as("me:hunter2@").replacen('@', "@127.0.0.1:1,", 1);
    let backend = RedisBackend::open(url).unwrap();
    let error = soon(backend.release(&claim("a"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!format!("{error:?} {backend:?}").contains("hunter2"), "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_no_cluster_is_an_error_that_says_so() {
    let server = lock_tests::RedisServer::start();
    let url = server.url().replace("redis://", "redis+cluster://");
    let error = soon(RedisBackend::open(url).unwrap().release(&claim("a"))).await.unwrap_err();
    assert!(error.to_string().contains("cluster support disabled"), "{error}");
}
