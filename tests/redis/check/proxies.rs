//! Proxies between the client and its server.

use lock_redis::check::Severity;
use lock_redis::{Notifications, Protocol, RedisBackend};
use lock_tests::{Fate, Mediator, RedisServer, SOON, eventually};

use super::{codes, examine, only};

fn server() -> RedisServer {
    let settings = [
        ("repl-diskless-sync-delay", "0"),
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("min-replicas-to-write", "0"),
    ];
    settings
        .iter()
        .fold(RedisServer::builder(), |it, (name, value)| it.config(*name, *value))
        .start()
}

/// The codes that a client sees through a proxy that refuses some commands.
async fn codes_without(
    server: &RedisServer,
    refused: &'static [&'static str],
) -> Vec<&'static str> {
    let proxy = Mediator::start(&[server.addr()], move |words| {
        let name = String::from_utf8_lossy(words[0]).to_ascii_uppercase();
        let is_refused = refused.contains(&&*name);
        if is_refused { Fate::IsRefused("ERR unknown command") } else { Fate::Passes }
    });
    let builder = RedisBackend::builder(proxy.url()).notifications(Notifications::Off);
    codes(&examine(builder.protocol(Protocol::Resp2)).await)
}

#[tokio::test]
async fn commands_that_a_proxy_does_not_know_are_told() {
    let server = server();
    assert_eq!(codes_without(&server, &[]).await, [""; 0]);
    assert_eq!(codes_without(&server, &["SCRIPT"]).await, ["scripts-not-loaded"]);
    assert_eq!(codes_without(&server, &["EVALSHA"]).await, ["scripts-sent-whole"]);
    assert_eq!(codes_without(&server, &["SCRIPT", "EVAL"]).await, ["scripts-refused"]);
    assert_eq!(codes_without(&server, &["CONFIG"]).await, ["config-refused"]);
    let unknown = ["info-refused", "sentinel-unknown", "unfit-as-node"];
    assert_eq!(codes_without(&server, &["INFO", "PUBSUB"]).await, unknown);
}

/// Like a proxy that sends subscribers to a replica: they hear messages that are published on the master, but the
/// master does not count them.
#[tokio::test]
async fn a_message_that_is_heard_and_not_counted_is_noticed() {
    let (master, replica) = (server(), server());
    replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    eventually("the replica is up to date", SOON, || {
        replica.cli(&["INFO", "replication"]).text().contains("master_link_status:up")
    });
    let proxy = Mediator::start(&[master.addr(), replica.addr()], |words| {
        let is_subscription = words[0].to_ascii_uppercase().ends_with(b"SUBSCRIBE");
        if is_subscription { Fate::Turns } else { Fate::Passes }
    });
    let uncounted = async |url: String| {
        let builder = RedisBackend::builder(url).protocol(Protocol::Resp2);
        let builder = builder.notifications(Notifications::Off);
        let [alone, in_line] =
            [examine(builder.clone().queue_limit(0)).await, examine(builder).await];
        [alone, in_line].map(|it| it.with_code("grants-uncounted").count())
    };
    assert_eq!(uncounted(proxy.url()).await, [0, 1]);
    assert_eq!(uncounted(master.url()).await, [0, 0]);
    let builder = RedisBackend::builder(proxy.url()).protocol(Protocol::Resp2);
    let found = examine(builder.notifications(Notifications::Off)).await;
    assert_eq!(only(&found, "grants-uncounted").0, Severity::Warning);
}

/// Like a name that leads to several servers: the question on another connection comes to another server.
#[tokio::test]
async fn an_address_that_leads_to_several_servers_is_critical() {
    let (one, other) = (server(), server());
    let proxy = Mediator::start(&[one.addr(), other.addr()], |words| {
        let is_asked_apart =
            words[0].eq_ignore_ascii_case(b"INFO") && words.get(1) == Some(&&b"server"[..]);
        if is_asked_apart { Fate::Turns } else { Fate::Passes }
    });
    let builder = RedisBackend::builder(proxy.url()).protocol(Protocol::Resp2);
    let found = examine(builder.notifications(Notifications::Off)).await;
    assert_eq!(only(&found, "connections-differ").0, Severity::Critical);
}
