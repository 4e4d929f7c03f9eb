//! Who logs in to sentinels and to the servers of a deployment.

use std::collections::HashSet;
use std::convert::Infallible;

use lock_core::{Backend, ErrorKind, Hint};
use lock_redis::{Builder, Credentials, Protocol};
use lock_tests::{
    ClusterNode, RedisCluster, RedisServer, SOON, Sentinels, eventually, eventually_async, soon,
};

use crate::support::{claim, granted, released};

/// Has all clients log in with this password.
fn want(server: &RedisServer, password: &str) {
    let rules = ["ACL", "SETUSER", "default", "resetpass", &format!(">{password}")];
    assert_eq!(server.cli(&rules).text(), "OK");
    server.client_kill_all();
}

/// The hosts of a URL that names several.
fn hosts(url: &str) -> Vec<String> {
    let hosts = url.split("://").nth(1).unwrap().split('/').next().unwrap();
    hosts.split(',').map(str::to_owned).collect()
}

fn provide(
    password: &'static str,
) -> impl Fn() -> std::future::Ready<Result<Credentials, Infallible>> + Send + Sync + 'static {
    move || std::future::ready(Ok(Credentials::password(password)))
}

#[tokio::test]
async fn sentinels_and_servers_have_providers_of_their_own() {
    let deployment = Sentinels::start(0, 2);
    let (url, service) = (deployment.url(), deployment.url());
    let service = service.rsplit('/').find(|part| !part.is_empty()).unwrap().to_owned();
    want(&deployment.servers()[0], "server-secret");
    deployment.sentinels().iter().for_each(|it| want(it, "sentinel-secret"));
    let builder = || Builder::for_sentinels(hosts(&url), service.clone());
    let right = builder()
        .credentials(provide("server-secret"))
        .sentinel_login(Credentials::password("sentinel-secret"))
        .build()
        .unwrap();
    granted(&right, &claim("a")).await;
    for wrong in [
        builder().credentials(provide("server-secret")),
        builder().sentinel_credentials(provide("sentinel-secret")),
        builder()
            .credentials(provide("sentinel-secret"))
            .sentinel_credentials(provide("server-secret")),
    ] {
        let error = soon(wrong.build().unwrap().release(&claim("a"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}

/// Gives all rights to a user at all servers, and takes them from others.
fn serve_only_the_user_locks(cluster: &RedisCluster) {
    for node in cluster.nodes() {
        let rules = ["on", ">hunter2", "allkeys", "allchannels", "allcommands"];
        let command = [&["ACL", "SETUSER", "locks"][..], &rules].concat();
        assert_eq!(node.server().cli(&command).text(), "OK");
        assert_eq!(node.server().cli(&["ACL", "SETUSER", "default", "resetkeys"]).text(), "OK");
    }
}

/// How many connections of the user each server has.
fn connections(cluster: &RedisCluster) -> Vec<usize> {
    let of = |node: &ClusterNode| {
        node.server().cli(&["CLIENT", "LIST"]).text().matches("user=locks").count()
    };
    cluster.nodes().iter().map(of).collect()
}

#[tokio::test]
async fn every_server_of_a_cluster_is_logged_in_to() {
    let cluster = RedisCluster::start(3, 0);
    serve_only_the_user_locks(&cluster);
    let provider = || std::future::ready(Ok::<_, Infallible>(Credentials::new("locks", "hunter2")));
    let backend =
        Builder::for_cluster(hosts(&cluster.url())).credentials(provider).build().unwrap();
    for name in ["a", "b", "c", "d", "e", "f"] {
        let claim = claim(name);
        granted(&backend, &claim).await;
        released(&backend, &claim).await;
    }
    assert!(connections(&cluster).iter().all(|count| *count > 0), "a server was not used");
}

/// Requests and messages share a connection, or have one each, however many slots are watched.
#[tokio::test]
async fn a_client_has_one_connection_to_each_server_of_a_cluster_and_one_more_with_resp2() {
    let cluster = RedisCluster::start(3, 0);
    serve_only_the_user_locks(&cluster);
    let names: Vec<String> = (0..12).map(|number| number.to_string()).collect();
    for server in 0..3 {
        let is_there = |name: &&String| cluster.owner_of(&format!("lock:{{{name}}}")) == server;
        let slots = names.iter().filter(is_there).map(|name| cluster.slot_of(name));
        assert!(slots.collect::<HashSet<_>>().len() > 1, "the test proves nothing");
    }
    for (protocol, count) in [(Protocol::Resp3, 1), (Protocol::Resp2, 2)] {
        let builder = Builder::for_cluster(hosts(&cluster.url())).protocol(protocol);
        let backend = builder.login(Credentials::new("locks", "hunter2")).build().unwrap();
        let mut watches = Vec::new();
        for name in &names {
            let claim = claim(name);
            let mut watch = backend.watch(&claim.key).await.unwrap();
            granted(&backend, &claim).await;
            released(&backend, &claim).await;
            soon(async { while watch.next().await.unwrap() != Hint::Released {} }).await;
            watches.push(watch);
        }
        // The connections on which the servers were asked for the slots end at once.
        let mut last = Vec::new();
        eventually("only the connections of the client are left", SOON, || {
            let now = connections(&cluster);
            if now != last {
                println!("{protocol:?}: {now:?}");
                last.clone_from(&now);
            }
            now == [count; 3]
        });
        drop((watches, backend));
        eventually_async("the client has gone", SOON, async || connections(&cluster) == [0; 3])
            .await;
    }
}
