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

    use lock_tests::{Port, RedisServer, RedisServerBuilder};

    use super::*;

    /// A server that speaks TLS on a port of its own, and the certificate to trust.
    fn server() -> (RedisServer, String, Port) {
        server_that(|it| it.config("tls-auth-clients", "no"))
    }

    /// The same, set up in this way.
    fn server_that(
        set_up: impl FnOnce(RedisServerBuilder) -> RedisServerBuilder,
    ) -> (RedisServer, String, Port) {
        let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let folder = std::env::temp_dir();
        let unique = format!("lock-redis-tls-{}", lock_core_digits());
        let (cert, key) =
            (folder.join(format!("{unique}.crt")), folder.join(format!("{unique}.key")));
        fs::write(&cert, issued.cert.pem()).unwrap();
        fs::write(&key, issued.signing_key.serialize_pem()).unwrap();
        let port = Port::reserve();
        let builder = RedisServer::builder()
            .config("tls-port", port.number().to_string())
            .config("tls-cert-file", cert.display().to_string())
            .config("tls-key-file", key.display().to_string());
        let started = set_up(builder).try_start();
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

    /// A certificate of a client and its key, both in PEM.
    fn identity() -> (String, String) {
        let issued = rcgen::generate_simple_self_signed(vec!["client".to_owned()]).unwrap();
        (issued.cert.pem(), issued.signing_key.serialize_pem())
    }

    #[tokio::test]
    async fn a_server_may_ask_for_the_certificate_of_a_client() {
        let (own, key) = identity();
        let trusted =
            std::env::temp_dir().join(format!("lock-redis-ca-{}.crt", lock_core_digits()));
        fs::write(&trusted, &own).unwrap();
        let path = trusted.display().to_string();
        let (_server, certificate, port) =
            server_that(|it| it.config("tls-auth-clients", "yes").config("tls-ca-cert-file", path));
        fs::remove_file(trusted).unwrap();
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let url = format!("rediss://localhost:{}", port.number());
            let builder = || {
                let builder = RedisBackend::builder(url.clone()).protocol(protocol);
                builder.root_certificates(certificate.clone())
            };
            let backend = builder().client_certificate(own.clone(), key.clone()).build().unwrap();
            let claim = claim("a");
            let mut watch = backend.watch(&claim.key).await.unwrap();
            granted(&backend, &claim).await;
            backend.release(&claim).await.unwrap();
            assert_eq!(soon(watch.next()).await, Some(Hint::Released));

            let (other, its_key) = identity();
            for stranger in [builder(), builder().client_certificate(other, its_key)] {
                let stranger = stranger.build().unwrap();
                let error = soon(attempt(&stranger, &claim)).await.unwrap_err();
                // The server may close the connection before the client has read why.
                let kinds = [ErrorKind::Denied, ErrorKind::Unreachable];
                assert!(kinds.contains(&error.kind()), "{error:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_client_certificate_that_makes_no_sense_is_refused_at_once() {
        let (own, key) = identity();
        let (_, other_key) = identity();
        let tls = || RedisBackend::builder("rediss://127.0.0.1");
        assert!(tls().client_certificate(own.clone(), key.clone()).build().is_ok());
        for builder in [
            tls().client_certificate(own.clone(), other_key),
            tls().client_certificate(key.clone(), own.clone()),
            RedisBackend::builder("redis://127.0.0.1").client_certificate(own, key.clone()),
        ] {
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
            let line = key.lines().nth(1).unwrap();
            assert!(!format!("{error} {error:?}").contains(line), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_server_without_a_trusted_certificate_is_denied() {
        let (server, certificate, port) = server();
        let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        for (host, trusted) in [("localhost", stranger.cert.pem()), ("127.0.0.1", certificate)] {
            let builder = RedisBackend::builder(format!("rediss://{host}:{}", port.number()));
            let backend = builder.root_certificates(trusted).build().unwrap();
            let error = attempt(&backend, &claim("a")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        }
        // A server that does not speak TLS fails as well.
        let builder = RedisBackend::builder(format!("rediss://localhost:{}", server.port()));
        let backend = builder.root_certificates(stranger.cert.pem()).build().unwrap();
        assert!(attempt(&backend, &claim("a")).await.is_err());
    }
}
