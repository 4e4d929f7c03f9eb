//! TLS.

use lock_core::{Backend, ErrorKind, Hint};
use lock_tests::{EtcdServer, soon};

use crate::support::{attempt, builder, claim, granted, long};

/// A server, and the certificate to trust. It is for the name `localhost` alone.
fn server() -> (EtcdServer, String) {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (issued.cert.pem(), issued.signing_key.serialize_pem());
    (EtcdServer::with_tls(&certificate, &key), certificate)
}

fn url(server: &EtcdServer, scheme: &str, host: &str) -> String {
    format!("{scheme}://{host}:{}", server.addr().port())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_a_way() {
    let (server, certificate) = server();
    let trusting = builder(url(&server, "etcds", "localhost")).roots(certificate);
    let store = trusting.build().unwrap();
    let ours = claim("a");
    let mut watch = store.watch(&ours.key).await.unwrap();
    granted(&store, &ours, long()).await;
    store.release(&ours).await.unwrap();
    assert_eq!(soon(watch.next()).await, Some(Hint::Released));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_trusted_certificate_is_not_used() {
    let (server, certificate) = server();
    let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    for (host, trusted) in [("localhost", stranger.cert.pem()), ("127.0.0.1", certificate)] {
        let store = builder(url(&server, "etcds", host)).roots(trusted).build().unwrap();
        let error = soon(attempt(&store, &claim("a"), long())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{host}: {error:?}");
    }
    // Without TLS, the server does not understand the client.
    let plain = builder(url(&server, "etcd", "localhost")).build().unwrap();
    let error = soon(attempt(&plain, &claim("a"), long())).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
}

#[test]
fn certificates_that_make_no_sense_are_refused_at_once() {
    for (scheme, roots) in [("etcds", "no certificate"), ("etcds", "")] {
        let built = builder(format!("{scheme}://localhost")).roots(roots).build();
        assert_eq!(built.unwrap_err().kind(), ErrorKind::InvalidConfig);
    }
}
