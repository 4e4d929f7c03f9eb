//! TLS to every server of a deployment: to those that the URL names, and to those that they name.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use lock_core::{Backend, Error, ErrorKind, Hint};
use lock_redis::{Builder, RedisBackend};
use lock_tests::requests::attempt;
use lock_tests::{Port, RedisCluster, RedisServerBuilder, SOON, Sentinels, eventually_async, soon};
use tempfile::TempDir;

use crate::support::{claim, granted, long, released};

/// A certificate for the loopback address, and its key.
struct Issued {
    pem: String,
    key: String,
    _folder: TempDir,
    files: [PathBuf; 2],
    /// Whether servers ask clients for this certificate.
    is_asked_for: bool,
}

impl Issued {
    fn secures(&self, server: RedisServerBuilder, port: &Port) -> RedisServerBuilder {
        let [certificate, key] = self.files.each_ref().map(|it| it.display().to_string());
        let server = server.config("tls-port", port.number().to_string());
        let server = server.config("tls-cert-file", &certificate).config("tls-key-file", key);
        let asks = if self.is_asked_for { "yes" } else { "no" };
        server.config("tls-ca-cert-file", certificate).config("tls-auth-clients", asks)
    }

    /// A client that trusts this certificate, and shows it if it is asked for.
    fn client(&self, url: &str) -> Builder {
        let builder = RedisBackend::builder(url).root_certificates(self.pem.clone());
        if self.is_asked_for {
            builder.client_certificate(self.pem.clone(), self.key.clone())
        } else {
            builder
        }
    }
}

fn issue(is_asked_for: bool) -> Issued {
    let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let folder = TempDir::with_prefix("tls-").unwrap();
    let files = ["crt", "key"].map(|name| folder.path().join(name));
    let pem = issued.cert.pem();
    fs::write(&files[0], &pem).unwrap();
    let key = issued.signing_key.serialize_pem();
    fs::write(&files[1], &key).unwrap();
    Issued { pem, key, _folder: folder, files, is_asked_for }
}

/// Locks in all servers work for a client that trusts the certificate and shows the one that is asked for, and for no
/// other.
async fn trusts(url: String, issued: &Issued) {
    let backend = issued.client(&url).build().unwrap();
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
    let refused = async |stranger: Builder| -> Error {
        soon(attempt(&stranger.build().unwrap(), &claim("f"), long())).await.unwrap_err()
    };
    let other = issue(issued.is_asked_for);
    let error = refused(other.client(&url)).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    if issued.is_asked_for {
        let trusting = || RedisBackend::builder(&*url).root_certificates(issued.pem.clone());
        for stranger in [trusting(), trusting().client_certificate(other.pem, other.key)] {
            let error = refused(stranger).await;
            assert!(
                matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unreachable),
                "{error:?}"
            );
            println!("{error}");
        }
    }
}

async fn a_cluster_is_reached(issued: Issued) {
    let ports = Mutex::new(Vec::new());
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

async fn a_service_is_reached(issued: Issued) {
    let deployment = Sentinels::with_tls(|server, port| issued.secures(server, port));
    trusts(deployment.tls_url(), &issued).await;
}

#[tokio::test]
async fn a_cluster_is_reached_with_tls() {
    a_cluster_is_reached(issue(false)).await;
}

#[tokio::test]
async fn a_service_and_its_sentinels_are_reached_with_tls() {
    a_service_is_reached(issue(false)).await;
}

#[tokio::test]
async fn a_cluster_that_asks_for_certificates_is_reached_with_one() {
    a_cluster_is_reached(issue(true)).await;
}

#[tokio::test]
async fn a_service_and_sentinels_that_ask_for_certificates_are_reached_with_one() {
    a_service_is_reached(issue(true)).await;
}
