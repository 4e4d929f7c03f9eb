//! Who logs in to sentinels and to the servers of a deployment.

use std::convert::Infallible;

use lock_core::{Backend, ErrorKind};
use lock_redis::{Builder, Credentials};
use lock_tests::{RedisCluster, RedisServer, Sentinels, soon};

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

#[tokio::test]
async fn every_server_of_a_cluster_is_logged_in_to() {
    let cluster = RedisCluster::start(3, 0);
    for node in cluster.nodes() {
        let rules = ["on", ">hunter2", "allkeys", "allchannels", "allcommands"];
        let command = [&["ACL", "SETUSER", "locks"][..], &rules].concat();
        assert_eq!(node.server().cli(&command).text(), "OK");
        assert_eq!(node.server().cli(&["ACL", "SETUSER", "default", "resetkeys"]).text(), "OK");
    }
    let provider = || std::future::ready(Ok::<_, Infallible>(Credentials::new("locks", "hunter2")));
    let backend =
        Builder::for_cluster(hosts(&cluster.url())).credentials(provider).build().unwrap();
    for name in ["a", "b", "c", "d", "e", "f"] {
        let claim = claim(name);
        granted(&backend, &claim).await;
        released(&backend, &claim).await;
    }
    let users = |node: &lock_tests::ClusterNode| {
        node.server().cli(&["CLIENT", "LIST"]).text().matches("user=locks").count()
    };
    assert!(cluster.nodes().iter().all(|node| users(node) > 0), "a server was not used");
}
