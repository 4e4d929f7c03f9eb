//! Ways to a server other than TCP on a plain port.

use lock_core::{Backend, ErrorKind, Hint, Key};
use lock_redis::{Protocol, RedisBackend};

use crate::support::{Server, attempt, claim, granted, soon};

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_a_way() {
    let server = Server::with(&["--unixsocket", "redis.sock", "--requirepass", "hunter2"]);
    let path = server.folder().join("redis.sock");
    let path = path.to_str().unwrap();
    for scheme in ["unix", "redis+unix"] {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let url = format!("{scheme}://{path}?db=1&pass=hunter2");
            let backend = RedisBackend::builder(url).protocol(protocol).build().unwrap();
            let claim = claim("a");
            let mut watch = backend.watch(&claim.key).await.unwrap();
            granted(&backend, &claim).await;
            backend.release(&claim).await.unwrap();
            assert_eq!(soon(watch.next()).await, Some(Hint::Released));
            assert_eq!(format!("{backend:?}"), format!("RedisBackend({path}/1)"));
        }
    }
    let backend = RedisBackend::open(format!("unix://{path}.elsewhere")).unwrap();
    let error = attempt(&backend, &claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_a_mistake() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3, Protocol::Auto] {
        let url = format!("{}/4711", server.url());
        let backend = RedisBackend::builder(url).protocol(protocol).build().unwrap();
        let error = attempt(&backend, &claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_unreachable() {
    let backend = RedisBackend::open("redis://nowhere.invalid").unwrap();
    let error = attempt(&backend, &claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let watch = backend.watch(&Key::new("a").unwrap()).await.unwrap_err();
    assert_eq!(watch.kind(), ErrorKind::Unreachable);
}

mod tls {
    use std::fs;

    use lock_tests::{Port, RedisServer};

    use super::*;

    /// A server that speaks TLS at a port of its own, and the certificate to trust it by.
    fn server() -> (RedisServer, String, Port) {
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let folder = std::env::temp_dir();
        let unique = format!("lock-redis-tls-{}", lock_core_digits());
        let (cert, key) =
            (folder.join(format!("{unique}.crt")), folder.join(format!("{unique}.key")));
        fs::write(&cert, issued.cert.pem()).unwrap();
        fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
        let port = Port::reserve();
        let started = RedisServer::builder()
            .config("tls-port", port.number().to_string())
            .config("tls-cert-file", cert.display().to_string())
            .config("tls-key-file", key.display().to_string())
            .config("tls-auth-clients", "no")
            .try_start();
        fs::remove_file(cert).unwrap();
        fs::remove_file(key).unwrap();
        let server = started.unwrap_or_else(|why| {
            let is_without =
                ["Bad directive", "connection type tls"].iter().any(|it| why.contains(it));
            assert!(
                !is_without,
                "this server was built without TLS: leave out `tls::` with --skip"
            );
            panic!("{why}")
        });
        (server, issued.cert.pem(), port)
    }

    fn lock_core_digits() -> String {
        let owner = lock_core::OwnerToken::generate().unwrap();
        String::from_utf8(owner.expose().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn tls_is_a_way() {
        let (_server, certificate, port) = server();
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let url = format!("rediss://localhost:{}", port.number());
            let builder = RedisBackend::builder(url).protocol(protocol);
            let backend = builder.root_certificates(certificate.clone()).build().unwrap();
            let claim = claim("a");
            let mut watch = backend.watch(&claim.key).await.unwrap();
            granted(&backend, &claim).await;
            backend.release(&claim).await.unwrap();
            assert_eq!(soon(watch.next()).await, Some(Hint::Released));
        }
    }

    #[tokio::test]
    async fn a_server_that_nobody_vouches_for_is_denied() {
        let (server, certificate, port) = server();
        let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        for (host, trusted) in [("localhost", stranger.cert.pem()), ("127.0.0.1", certificate)] {
            let builder = RedisBackend::builder(format!("rediss://{host}:{}", port.number()));
            let backend = builder.root_certificates(trusted).build().unwrap();
            let error = attempt(&backend, &claim("a")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        }
        // A server that does not speak TLS is no better.
        let builder = RedisBackend::builder(format!("rediss://localhost:{}", server.port()));
        let backend = builder.root_certificates(stranger.cert.pem()).build().unwrap();
        assert!(attempt(&backend, &claim("a")).await.is_err());
    }
}
