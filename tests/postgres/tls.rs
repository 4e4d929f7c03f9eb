//! Connections over TLS.

use std::sync::OnceLock;

use lock_core::{Backend, ErrorKind, Hint};
use lock_postgres::PostgresBackend;
use lock_tests::{PostgresServer, soon};

use crate::support::{attempt, claim, granted, long};

/// A server with a certificate of its own, and the certificate.
fn server() -> &'static (PostgresServer, String) {
    static SERVER: OnceLock<(PostgresServer, String)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let issued = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = issued.cert.pem();
        let server = PostgresServer::with_tls(&certificate, &issued.signing_key.serialize_pem());
        (server, certificate)
    })
}

/// The URL of a database, with TLS.
fn url(server: &PostgresServer, database: &str) -> String {
    server.url(database).replace("sslmode=disable", "sslmode=require")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_and_notifications_go_over_tls() {
    let (server, certificate) = server();
    let database = server.database();
    let open = || {
        let builder = PostgresBackend::builder(url(server, &database));
        builder.root_certificates(certificate.as_bytes()).build().unwrap()
    };
    let (one, other) = (open(), open());
    one.init().await.unwrap();
    let (ours, theirs) = (claim("a"), claim("a"));
    granted(&one, &ours, long()).await;
    let mut watch = other.watch(&theirs.key).await.unwrap();
    one.release(&ours).await.unwrap();
    assert_eq!(soon(watch.next()).await, Some(Hint::Released));
    let plain = server.sql(
        &database,
        "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl) FROM pg_stat_ssl \
         JOIN pg_stat_activity USING (pid) WHERE application_name = 'lock-postgres' AND datname = current_database()",
    );
    let (over_tls, plain) = plain.trim().split_once('|').unwrap();
    assert!(over_tls.parse::<u32>().unwrap() >= 2 && plain == "0", "{over_tls} {plain}");
    assert!(one.check().await.unwrap().with_code("lock-refused").next().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_a_stranger_is_refused_before_the_password_is_sent() {
    let (server, _) = server();
    let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let store = PostgresBackend::builder(url(server, "postgres"))
        .root_certificates(stranger.cert.pem())
        .build()
        .unwrap();
    let error = attempt(&store, &claim("a"), long()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
    // A login would have left a session, and a password that was refused a line in the log.
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lock-postgres' AND datname = 'postgres'";
    assert_eq!(server.sql("postgres", sessions), "0\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_tls_is_not_taken_if_tls_is_required() {
    let server = PostgresServer::start();
    let store = PostgresBackend::open(url(&server, "postgres")).unwrap();
    let error = attempt(&store, &claim("a"), long()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
    let error =
        PostgresBackend::builder(url(&server, "postgres")).root_certificates("none").build();
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidConfig);
}

/// With certificates of its own, and at the strict levels that the driver does not know, a client never falls back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_text_is_never_taken_for_tls() {
    let (secure, certificate) = server();
    let plain = PostgresServer::start();
    for level in ["", "?sslmode=prefer", "?sslmode=verify-ca", "?sslmode=verify-full"] {
        let open = |server: &PostgresServer, database: &str| {
            let url = server.url(database).replace("?sslmode=disable", level);
            PostgresBackend::builder(url).root_certificates(certificate.as_bytes()).build().unwrap()
        };
        let error = open(&plain, "postgres").connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{level}: {error:?}");
        let database = secure.database();
        let store = open(secure, &database);
        store.init().await.unwrap();
        granted(&store, &claim("a"), long()).await;
    }
}
