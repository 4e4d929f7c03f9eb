//! Masters and replicas.

use std::time::Duration;

use lock_redis::RedisBackend;
use lock_redis::check::{Role, Severity, Topology};
use lock_tests::{RedisServer, SOON, eventually, eventually_async};

use super::{codes, examine, only};
use crate::support::Cluster;

/// A replica answers once in a second, and lags after three.
const LIMIT: Duration = Duration::from_secs(60);

fn start(more: &[(&str, &str)]) -> RedisServer {
    let settings = [
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("notify-keyspace-events", "AK"),
        ("repl-diskless-sync-delay", "0"),
    ];
    let all = settings.iter().chain(more);
    all.fold(RedisServer::builder(), |it, (name, value)| it.config(*name, *value)).start()
}

fn follow(replica: &RedisServer, master: &RedisServer) {
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
}

/// A master, and a replica that is in step.
fn pair(more: &[(&str, &str)]) -> (RedisServer, RedisServer) {
    let (master, replica) = (start(more), start(&[]));
    follow(&replica, &master);
    eventually("the replica is in step", SOON, || {
        let info = master.cli(&["INFO", "replication"]).text();
        info.contains("state=online") && ["lag=0", "lag=1"].iter().any(|lag| info.contains(lag))
    });
    (master, replica)
}

/// The first number of the version of Redis that the server has, or is compatible with.
fn version(server: &RedisServer) -> u32 {
    let info = server.cli(&["INFO", "server"]).text();
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    version.and_then(|version| version.split('.').next()?.parse().ok()).unwrap()
}

async fn report(server: &RedisServer) -> lock_redis::check::Report {
    examine(RedisBackend::builder(server.url())).await
}

#[tokio::test]
async fn a_replica_is_critical_and_no_lock_is_tried_there() {
    let (_master, replica) = pair(&[]);
    let found = report(&replica).await;
    assert_eq!(codes(&found), ["replica"], "{found}");
    assert_eq!(found.servers[0].role, Some(Role::Replica));
    assert_eq!(found.worst(), Some(Severity::Critical));

    // Without INFO the check finds the replica too, if the user may run ROLE.
    replica.cli(&["ACL", "SETUSER", "poor", "on", ">x", "~*", "&*", "+@all", "-info"]);
    let found = examine(RedisBackend::builder(replica.url_as("poor", "x"))).await;
    assert_eq!(found.servers[0].role, Some(Role::Replica));
    assert_eq!(codes(&found), ["replica", "info-refused", "unfit-as-node"], "{found}");
}

#[tokio::test]
async fn a_master_that_does_not_wait_for_its_replicas_is_told() {
    let (master, replica) = pair(&[]);
    let alone = report(&master).await;
    assert_eq!(codes(&alone), ["failover-forgets", "no-min-replicas"], "{alone}");
    let address = format!("127.0.0.1:{}", replica.port());
    assert!(only(&alone, "failover-forgets").1.contains(&address), "{alone}");
    assert_eq!(alone.servers[0].topology, Some(Topology::Replicated));

    master.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert_eq!(codes(&report(&master).await), ["failover-forgets"]);
}

#[tokio::test]
async fn a_replica_that_lags_is_told() {
    let (master, replica) = pair(&[("min-replicas-to-write", "1")]);
    replica.stop();
    eventually_async("the replica lags", LIMIT, async || {
        codes(&report(&master).await).contains(&"replica-lagging")
    })
    .await;
    master.cli(&["CONFIG", "SET", "min-replicas-max-lag", "1"]);
    eventually_async("the replica does not count any more", LIMIT, async || {
        codes(&report(&master).await).contains(&"too-few-replicas")
    })
    .await;
    let found = report(&master).await;
    // Before version 7 scripts write all the same.
    let mut codes_here = codes(&found);
    codes_here.retain(|code| *code != "lock-refused");
    let expected = ["too-few-replicas", "failover-forgets", "replica-lagging"];
    assert_eq!(codes_here, expected, "{found}");
    let refused = found.with_code("lock-refused").count() == 1;
    assert_eq!(refused, version(&master) >= 7, "{found}");
    replica.cont();
    eventually_async("the replica is in step again", LIMIT, async || {
        codes(&report(&master).await) == ["failover-forgets"]
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_is_not_in_step_yet_is_told() {
    // The master waits for further replicas before it sends its data.
    let delay = [("repl-diskless-sync", "yes"), ("repl-diskless-sync-delay", "3600")];
    let (master, replica) = (start(&delay), start(&[]));
    follow(&replica, &master);
    eventually("the replica waits", SOON, || {
        master.cli(&["INFO", "replication"]).text().contains("state=wait_bgsave")
    });
    let found = report(&master).await;
    let expected = ["failover-forgets", "no-min-replicas", "replica-not-online"];
    assert_eq!(codes(&found), expected, "{found}");
}

#[tokio::test]
async fn sentinels_are_known_by_what_they_listen_to() {
    let (master, _replica) = pair(&[]);
    let mut sentinel = master.connect().unwrap();
    sentinel.command(&["SUBSCRIBE", "__sentinel__:hello"]).unwrap();
    assert_eq!(report(&master).await.servers[0].topology, Some(Topology::Sentinel));

    let rules = ["on", ">x", "~*", "&*", "+@all", "-pubsub"];
    master.cli(&[&["ACL", "SETUSER", "poor"], &rules[..]].concat());
    let found = examine(RedisBackend::builder(master.url_as("poor", "x"))).await;
    let (severity, _) = only(&found, "sentinel-unknown");
    assert_eq!((severity, found.servers[0].topology), (Severity::Unknown, None));
    assert!(found.to_string().contains("`+pubsub|numsub`"), "{found}");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_told() {
    let cluster = Cluster::start("lock:{lock-redis/check}");
    let found = examine(cluster.at_source()).await;
    assert_eq!(found.servers[0].topology, Some(Topology::Cluster));
    assert_eq!(codes(&found), ["cluster-node", "no-persistence", "unfit-as-node"], "{found}");
}
