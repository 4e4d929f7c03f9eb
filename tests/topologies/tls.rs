//! TLS to every server of a deployment: to those that the URL names, and to those that they name.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use lock_core::{Backend, Error, ErrorKind, Hint};
use lock_redis::RedisBackend;
use lock_tests::requests::attempt;
use lock_tests::{Port, RedisCluster, RedisServerBuilder, SOON, Sentinels, eventually_async, soon};
use tempfile::TempDir;

use crate::support::{claim, granted, long, released};

/// A certificate for the loopback address, and its key.
struct Issued {
    pem: String,
    _folder: TempDir,
    files: [PathBuf; 2],
}

impl Issued {
    fn secures(&self, server: RedisServerBuilder, port: &Port) -> RedisServerBuilder {
        let [certificate, key] = self.files.each_ref().map(|it| it.display().to_string());
        let server = server.config("tls-port", port.number().to_string());
        let server = server.config("tls-cert-file", &certificate).config("tls-key-file", key);
        server.config("tls-ca-cert-file", certificate).config("tls-auth-clients", "no")
    }
}

fn issue() -> Issued {
    let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let folder = TempDir::with_prefix("tls-").unwrap();
    let files = ["crt", "key"].map(|name| folder.path().join(name));
    let pem = issued.cert.pem();
    fs::write(&files[0], &pem).unwrap();
    fs::write(&files[1], issued.signing_key.serialize_pem()).unwrap();
    Issued { pem, _folder: folder, files }
}

/// Locks in all servers work for a client that trusts the certificate, and for no other.
async fn trusts(url: String, issued: &Issued) {
    let client =
        |pem: String| RedisBackend::builder(url.clone()).root_certificates(pem).build().unwrap();
    let backend = client(issued.pem.clone());
    eventually_async("the servers serve", SOON, async || {
        attempt(&backend, &claim("first"), long()).await.is_ok()
    })
    .await;
    for name in ["a", "b", "c", "d", "e"] {
        let held = claim(name);
        let mut watch = backend.watch(&held.key).await.unwrap();
        granted(&backend, &held).await;
        released(&backend, &held).await;
        soon(async { while watch.next().await.unwrap() != Hint::Released {} }).await;
    }
    let refused: Error =
        soon(attempt(&client(issue().pem), &claim("f"), long())).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused:?}");
}

#[tokio::test]
async fn a_cluster_is_reached_with_tls() {
    let (issued, ports) = (issue(), Mutex::new(Vec::new()));
    let cluster = RedisCluster::of(3, 0, |server| {
        let port = Port::reserve();
        let server = issued.secures(server, &port);
        ports.lock().unwrap().push(port);
        // Older servers name to clients the port that they use among themselves.
        server.config("tls-cluster", "yes")
    });
    let first = ports.lock().unwrap()[0].addr();
    // The client asks one server for the ports of the others.
    trusts(format!("rediss+cluster://{first}"), &issued).await;
    drop(cluster);
}

#[tokio::test]
async fn a_service_and_its_sentinels_are_reached_with_tls() {
    let issued = issue();
    let deployment = Sentinels::with_tls(|server, port| issued.secures(server, port));
    trusts(deployment.tls_url(), &issued).await;
}
