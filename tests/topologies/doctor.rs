//! What the check finds around the servers that have keys: sentinels, and replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lock_redis::check::{Report, Severity};
use lock_redis::{Notifications, Protocol, RedisBackend};
use lock_tests::{
    Fate, Mediator, RedisCluster, RedisServer, SOON, Sentinels, ServerClock, eventually,
    eventually_async, soon,
};

use crate::support::{claim, granted};

/// No server of these tests fails.
const PATIENCE: Duration = Duration::from_secs(60);

async fn examined(deployment: &Sentinels) -> Report {
    soon(RedisBackend::open(deployment.url()).unwrap().check()).await.unwrap()
}

/// The codes of the findings about sentinels.
fn of_sentinels(report: &Report) -> Vec<&'static str> {
    let codes = report.findings.iter().map(|it| it.code);
    codes.filter(|code| code.starts_with("sentinel")).collect()
}

#[tokio::test]
async fn sentinels_that_agree_are_no_finding_and_those_that_do_not_are() {
    let deployment = Sentinels::with_patience(1, 3, PATIENCE);
    assert_eq!(of_sentinels(&examined(&deployment).await), [""; 0]);

    // One sentinel watches another primary under the name of the service, and so knows no other sentinel. The others
    // would tell it of themselves.
    let [_, other, odd] = deployment.sentinels() else { panic!() };
    for sentinel in deployment.sentinels() {
        let silent = ["SENTINEL", "DEBUG", "publish-period", "3600000"];
        assert_eq!(sentinel.cli(&silent).text(), "OK");
    }
    let stranger = RedisServer::start();
    let port = stranger.port().to_string();
    assert_eq!(odd.cli(&["SENTINEL", "REMOVE", "main"]).text(), "OK");
    let monitor = ["SENTINEL", "MONITOR", "main", "127.0.0.1", &port, "2"];
    assert_eq!(odd.cli(&monitor).text(), "OK");
    let mut before = Vec::new();
    eventually_async("the disagreement is found", SOON, async || {
        let found = of_sentinels(&examined(&deployment).await);
        if found != before {
            println!("found: {found:?}");
            before.clone_from(&found);
        }
        found == ["sentinels-disagree", "sentinels-apart"]
    })
    .await;

    other.kill();
    let report = examined(&deployment).await;
    let silent = report.with_code("sentinel-silent").next().unwrap();
    assert_eq!(silent.severity, Severity::Warning);
    assert!(silent.finding.contains(&other.port().to_string()), "{report}");
    assert!(!silent.server.is_empty(), "{report}");
}

#[tokio::test]
async fn one_sentinel_is_too_few_and_a_primary_without_a_replica_is_told() {
    let deployment = Sentinels::with_patience(0, 1, PATIENCE);
    let report = examined(&deployment).await;
    assert_eq!(of_sentinels(&report), ["sentinels-few"], "{report}");
    assert_eq!(report.with_code("no-replica").count(), 1, "{report}");
}

#[tokio::test]
async fn the_clocks_of_replicas_and_the_replicas_that_may_be_missing_are_told() {
    let clock = ServerClock::new();
    assert!(clock.is_real(), "the clock of the server cannot be set here");
    let begun = AtomicUsize::new(0);
    let deployment = Sentinels::of(2, 3, PATIENCE, |server| {
        // The first server is the primary, and the last one has a clock that can be set.
        if begun.fetch_add(1, Ordering::Relaxed) == 2 { clock.options(server) } else { server }
    });
    let count = |report: &Report, code| report.with_code(code).count();
    let right = examined(&deployment).await;
    for code in ["replica-clock", "replica-clock-unknown", "min-replicas-below-all", "no-replica"] {
        assert_eq!(count(&right, code), 0, "{code}: {right}");
    }
    assert_eq!(count(&right, "no-min-replicas"), 1, "{right}");

    let [primary, _, odd] = deployment.servers() else { panic!() };
    clock.jump(odd, -60_000);
    eventually("the server tells its new time", SOON, || clock.is_told_by(odd));
    primary.cli(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let report = examined(&deployment).await;
    let found = report.with_code("replica-clock").next().expect("the clock of a replica is wrong");
    assert!(found.finding.contains("behind"), "{report}");
    assert!(found.finding.contains(&odd.port().to_string()), "{report}");
    assert_eq!(count(&report, "min-replicas-below-all"), 1, "{report}");

    // Users are not replicated. A replica that does not know the user tells nothing.
    let rules = ["on", ">hunter2", "allkeys", "allchannels", "allcommands"];
    let give = [&["ACL", "SETUSER", "locks"][..], &rules].concat();
    assert_eq!(primary.cli(&give).text(), "OK");
    let url = deployment.url_as("locks:hunter2@");
    let report = soon(RedisBackend::open(url).unwrap().check()).await.unwrap();
    assert_eq!(count(&report, "replica-clock-unknown"), 2, "{report}");
    assert!(!report.to_string().contains("hunter2"), "{report}");
}

#[tokio::test]
async fn of_a_cluster_the_lag_of_replicas_is_told_and_what_a_user_may_not_ask_is_unknown() {
    let cluster = RedisCluster::start(1, 1);
    let [primary, replica] = [0, 1].map(|at| cluster.nodes()[at].server());
    let check = async |url: String| soon(RedisBackend::open(url).unwrap().check()).await.unwrap();
    let right = check(cluster.url()).await;
    for code in ["replica-lagging", "replica-clock", "no-replica", "connections-differ"] {
        assert_eq!(right.with_code(code).count(), 0, "{code}: {right}");
    }
    assert!(right.with_code("failover-forgets").next().is_some(), "{right}");

    // The rights of a mutex, and no more. The check says what is unknown, and rehearses the lock all the same.
    let rights = ["on", ">hunter2", "~lock:*", "&lock:*", "+@all", "-info", "-config", "-time"];
    let give = [&["ACL", "SETUSER", "locks"][..], &rights].concat();
    assert_eq!(primary.cli(&give).text(), "OK");
    let builder = RedisBackend::builder(cluster.url_as("locks:hunter2@")).term_quarantine(false);
    let least = soon(builder.build().unwrap().check()).await.unwrap();
    for code in ["info-refused", "config-refused", "clock-unknown"] {
        let found = least.with_code(code).next().unwrap_or_else(|| panic!("{code}: {least}"));
        assert_eq!(found.severity, Severity::Unknown, "{least}");
    }
    assert!(!least.to_string().contains("hunter2"), "{least}");

    replica.stop();
    eventually_async("the lag is told", SOON * 2, async || {
        let report = check(cluster.url()).await;
        let lagging = report.with_code("replica-lagging").next();
        lagging.is_some_and(|it| it.finding.contains(&replica.port().to_string()))
    })
    .await;
    replica.cont();
}

/// A node that announces the address of a proxy. One more connection through the proxy may come to another node.
#[tokio::test]
async fn a_proxy_before_a_node_of_a_cluster_is_followed_and_told_if_it_leads_to_several() {
    let cluster = RedisCluster::start(2, 0);
    let [first, second] = [0, 1].map(|at| cluster.nodes()[at].server());
    let leads_on = Arc::new(AtomicBool::new(false));
    let turns = Arc::clone(&leads_on);
    let proxy = Mediator::start(&[first.addr(), second.addr()], move |words| {
        let is_asked_apart =
            words[0].eq_ignore_ascii_case(b"INFO") && words.get(1) == Some(&&b"server"[..]);
        if is_asked_apart && turns.load(Ordering::Relaxed) { Fate::Turns } else { Fate::Passes }
    });
    let port = proxy.addr().port().to_string();
    let announce = ["CONFIG", "SET", "cluster-announce-port", &port];
    assert_eq!(first.cli(&announce).text(), "OK");
    let address = format!("127.0.0.1:{port}");
    eventually("both nodes name the proxy", SOON, || {
        let name = |it: &RedisServer| it.cli(&["CLUSTER", "NODES"]).text().contains(&address);
        name(first) && name(second)
    });

    let examined = async |url: String| {
        let builder = RedisBackend::builder(url).protocol(Protocol::Resp2);
        let backend = builder.notifications(Notifications::Off).build().unwrap();
        let report = soon(backend.check()).await.unwrap();
        (backend, report)
    };
    let of_cluster = format!("redis+cluster://{}", second.addr());
    let (backend, right) = examined(of_cluster.clone()).await;
    for code in ["connections-differ", "lock-refused", "cluster-node", "slots-uncovered"] {
        assert_eq!(right.with_code(code).count(), 0, "{code}: {right}");
    }
    // Locks of the first node go through the proxy.
    let mut names = (0..).map(|number| format!("a{number}"));
    let is_there = |name: &String| cluster.owner_of(&format!("lock:{{{name}}}")) == 0;
    let name = names.find(is_there).unwrap();
    let before = proxy.count("EVALSHA");
    granted(&backend, &claim(&name)).await;
    assert!(proxy.count("EVALSHA") > before);

    leads_on.store(true, Ordering::Relaxed);
    let (_, wrong) = examined(of_cluster).await;
    let found: Vec<_> = wrong.with_code("connections-differ").collect();
    assert_eq!((found.len(), found[0].severity), (1, Severity::Critical), "{wrong}");
    // A client that takes the proxy for a single server.
    let (_, single) = examined(proxy.url()).await;
    assert_eq!(single.with_code("cluster-node").count(), 1, "{single}");
}

/// Users are not shared between servers, so a right may be missing at one of them.
#[tokio::test]
async fn a_right_that_one_server_of_a_cluster_lacks_is_told_with_the_name_of_the_server() {
    let cluster = RedisCluster::start(3, 0);
    let home = cluster.owner_of("lock:{lock-redis/check}");
    let odd = cluster.nodes()[(home + 1) % 3].server();
    let knows = |word: &str| !odd.cli(&["COMMAND", "INFO", word]).array()[0].is_nil();
    for (word, right, severity) in [
        ("hget", "hget", Severity::Warning),
        ("subscribe", "subscribe", Severity::Warning),
        ("unsubscribe", "unsubscribe", Severity::Warning),
        ("asking", "asking", Severity::Warning),
        ("cluster", "cluster|slots", Severity::Warning),
        ("spublish", "spublish", Severity::Info),
        ("ssubscribe", "ssubscribe", Severity::Info),
    ] {
        if !knows(word) {
            println!("this server has no {word}");
            continue;
        }
        for node in cluster.nodes() {
            let rules = ["reset", "on", ">hunter2", "~*", "&*", "+@all"];
            let give = [&["ACL", "SETUSER", "locks"][..], &rules].concat();
            assert_eq!(node.server().cli(&give).text(), "OK");
        }
        let take = ["ACL", "SETUSER", "locks", &format!("-{word}")];
        assert_eq!(odd.cli(&take).text(), "OK");
        let backend = RedisBackend::open(cluster.url_as("locks:hunter2@")).unwrap();
        let report = soon(backend.check()).await.unwrap();
        let found: Vec<_> = report.with_code("rights-missing").collect();
        let [missing] = found[..] else { panic!("{word}: {report}") };
        assert_eq!(missing.severity, severity, "{report}");
        assert_eq!(missing.finding, format!("the user lacks `+{right}`"), "{report}");
        assert!(missing.server.contains(&odd.port().to_string()), "{report}");
        assert!(missing.remedy.contains(&format!("+{right}")), "{report}");
        assert_eq!(report.with_code("rights-unknown").count(), 0, "{report}");
    }
    // No key of the trials is left.
    let rest = |it: &RedisServer| it.keys("*").into_iter().any(|key| key.contains("rights"));
    assert!(!cluster.nodes().iter().any(|node| rest(node.server())));
}

#[tokio::test]
async fn a_sentinel_that_does_not_let_the_client_listen_is_told() {
    let deployment = Sentinels::with_patience(0, 3, PATIENCE);
    let [first, second, _] = deployment.sentinels() else { panic!() };
    let all = ["&+switch-master", "+sentinel|master", "+subscribe"];
    let give = |sentinel: &RedisServer, rights: &[&str]| {
        let rules = ["reset", "on", ">hunter2", "resetchannels", "-@all"];
        let command = [&["ACL", "SETUSER", "eyes"][..], &rules, rights].concat();
        assert_eq!(sentinel.cli(&command).text(), "OK");
    };
    deployment.sentinels().iter().for_each(|it| give(it, &all));
    let url = format!("{}?sentinel_user=eyes&sentinel_pass=hunter2", deployment.url());
    let examined = async || soon(RedisBackend::open(&*url).unwrap().check()).await.unwrap();
    let right = examined().await;
    assert_eq!(of_sentinels(&right), [""; 0], "{right}");
    give(first, &all[1..]);
    give(second, &all[..2]);
    let report = examined().await;
    assert_eq!(of_sentinels(&report), ["sentinel-unheard"; 2], "{report}");
    for sentinel in [first, second] {
        let port = sentinel.port().to_string();
        let mut found = report.with_code("sentinel-unheard");
        assert!(found.any(|it| it.finding.contains(&port)), "{report}");
    }
}
