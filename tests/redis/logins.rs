//! Who logs in: credentials of the builder, and a provider that is asked at each connection.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{Backend, Error, ErrorKind};
use lock_redis::{Credentials, Protocol, RedisBackend};

use crate::support::{Server, attempt, claim, granted, soon};

const PROTOCOLS: [Protocol; 2] = [Protocol::Resp2, Protocol::Resp3];

/// A server with a user that may do everything.
fn server_with(user: &str, password: &str) -> Server {
    let server = Server::start();
    let rules = ["on", &format!(">{password}"), "allkeys", "allchannels", "allcommands"];
    let made: String = server.client().command(&[&["ACL", "SETUSER", user][..], &rules].concat());
    assert_eq!(made, "OK");
    let _: String = server.client().command(&["ACL", "SETUSER", "default", "resetkeys"]);
    server
}

fn kill_clients_of(server: &Server, user: &str) {
    let _: i64 = server.client().command(&["CLIENT", "KILL", "USER", user]);
}

/// Asks until the client has noticed that its connection has gone.
async fn works_again(backend: &RedisBackend) {
    let again = async || loop {
        match attempt(backend, &claim("again")).await {
            Ok(_) => return,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    };
    soon(again()).await;
}

#[tokio::test]
async fn credentials_of_the_builder_need_no_encoding() {
    let server = server_with("locks", "p@ss/w%rd:?#");
    for protocol in PROTOCOLS {
        let backend = RedisBackend::builder(server.url())
            .protocol(protocol)
            .login(Credentials::new("locks", "p@ss/w%rd:?#"))
            .database(3)
            .build()
            .unwrap();
        let claim = claim("a");
        granted(&backend, &claim).await;
        backend.release(&claim).await.unwrap();
    }
}

/// The error of the first request that the server refuses because of the password.
async fn denied(backend: &RedisBackend) -> Error {
    loop {
        match attempt(backend, &claim("refused")).await {
            Err(error) if error.kind() == ErrorKind::Denied => return error,
            Err(error) => assert!(error.is_retryable(), "{error}"),
            Ok(_) => panic!("the old password is accepted"),
        }
    }
}

#[tokio::test]
async fn a_password_that_was_replaced_is_used_at_the_next_connection() {
    let server = server_with("locks", "hunter1");
    for (protocol, before, after) in
        [(Protocol::Resp2, "hunter1", "hunter2"), (Protocol::Resp3, "hunter2", "hunter3")]
    {
        let secret = Arc::new(Mutex::new(before.to_owned()));
        let known = Arc::clone(&secret);
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        let provide = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let known = known.lock().unwrap().clone();
            async move { Ok::<_, io::Error>(Credentials::new("locks", known)) }
        };
        let builder = RedisBackend::builder(server.url()).protocol(protocol);
        let backend = builder.credentials(provide).build().unwrap();
        let held = claim(format!("held {after}"));
        let _watch = backend.watch(&held.key).await.unwrap();
        granted(&backend, &held).await;
        // RESP2 has a connection more for the watch.
        let connections = if protocol == Protocol::Resp2 { 2 } else { 1 };
        assert_eq!(asked.load(Ordering::Relaxed), connections);

        let rules = ["ACL", "SETUSER", "locks", "resetpass", &format!(">{after}")];
        let _: String = server.client().command(&rules);
        // The open connections stay logged in.
        granted(&backend, &claim(format!("other {after}"))).await;
        kill_clients_of(&server, "locks");
        let error = soon(denied(&backend)).await;
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
        after.clone_into(&mut secret.lock().unwrap());
        let renews = async {
            while !matches!(
                attempt(&backend, &held).await,
                Ok(lock_core::AcquireOutcome::Granted(_))
            ) {}
        };
        soon(renews).await;
    }
}

#[tokio::test]
async fn a_provider_that_fails_is_asked_again() {
    let server = server_with("locks", "hunter2");
    let works = Arc::new(AtomicU32::new(0));
    let failing = Arc::clone(&works);
    let provide = move || {
        let works = failing.load(Ordering::Relaxed) > 0;
        async move {
            match works {
                true => Ok(Credentials::new("locks", "hunter2")),
                false => Err(io::Error::other("the vault is sealed")),
            }
        }
    };
    let backend = RedisBackend::builder(server.url()).credentials(provide).build().unwrap();
    let error: Error = attempt(&backend, &claim("a")).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert_eq!(error.to_string(), "the credential provider failed");
    let source = std::error::Error::source(&error).unwrap();
    assert_eq!(source.to_string(), "the vault is sealed");
    let watch = backend.watch(&claim("a").key).await.unwrap_err();
    assert!(watch.is_retryable(), "{watch}");
    works.store(1, Ordering::Relaxed);
    works_again(&backend).await;
}

#[tokio::test]
async fn a_provider_that_never_answers_or_panics_does_no_more_harm() {
    let server = server_with("locks", "hunter2");
    let turn = Arc::new(AtomicU32::new(0));
    let provide = move || {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        async move {
            match turn {
                0 => std::future::pending().await,
                1 => panic!("a bug of the app"),
                _ => Ok::<_, io::Error>(Credentials::new("locks", "hunter2")),
            }
        }
    };
    let builder = RedisBackend::builder(server.url()).connect_timeout(Duration::from_millis(300));
    let backend = builder.credentials(provide).build().unwrap();
    let error = attempt(&backend, &claim("a")).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("credential provider"), "{error}");
    let panicked = async {
        loop {
            let error = attempt(&backend, &claim("a")).await.unwrap_err();
            assert!(error.is_retryable(), "{error}");
            if error.to_string().contains("panicked") {
                return;
            }
        }
    };
    soon(panicked).await;
    works_again(&backend).await;
}
