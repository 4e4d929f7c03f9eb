//! Servers and networks that fail.

use std::time::{Duration, Instant};

use lock_core::{Acquire, AcquireOutcome, Backend, Error, ErrorKind, Released, Renew, Renewal};
use lock_redis::{Builder, Protocol, RedisBackend};

use lock_tests::Direction;

use crate::support::{
    Server, attempt, claim, granted, long, millis, proxy_before, refused, sever, silence, soon,
};

fn hasty(url: String) -> Builder {
    let timeout = Duration::from_millis(600);
    RedisBackend::builder(url).command_timeout(timeout).connect_timeout(timeout)
}

/// Tries until there is an answer. Every error before it must be retryable.
async fn answered(backend: &RedisBackend, claim: &lock_core::Claim) -> AcquireOutcome {
    soon(async {
        loop {
            match attempt(backend, claim).await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
}

fn unknown(renewal: Renewal) -> Error {
    match renewal {
        Renewal::Unknown(error) => error,
        other => panic!("expected no answer to rely on, got {other:?}"),
    }
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_loaded_again() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let mut raw = server.client();
    let claim = claim("a");
    for _ in 0..3 {
        raw.command::<()>(&["SCRIPT", "FLUSH"]);
        granted(&backend, &claim).await;
        raw.command::<()>(&["SCRIPT", "FLUSH"]);
        assert!(matches!(
            backend.renew(&Renew::new(claim.clone(), long())).await,
            Renewal::Renewed { .. }
        ));
        raw.command::<()>(&["SCRIPT", "FLUSH"]);
        assert!(matches!(backend.release(&claim).await.unwrap(), Released::Freed { .. }));
    }
}

#[tokio::test]
async fn many_requests_find_the_scripts_gone_at_once() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    granted(&backend, &claim("first")).await;
    server.client().command::<()>(&["SCRIPT", "FLUSH"]);
    let claims: Vec<_> = (0..200).map(|number| claim(format!("{number}"))).collect();
    let requests = claims.iter().map(|claim| attempt(&backend, claim));
    for outcome in futures::future::join_all(requests).await {
        assert!(matches!(outcome.unwrap(), AcquireOutcome::Granted(_)));
    }
}

#[tokio::test]
async fn a_killed_connection_is_replaced() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let backend = RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
        let held = claim(format!("{protocol:?}"));
        granted(&backend, &held).await;
        for _ in 0..5 {
            let killed = server.client().command::<u64>(&["CLIENT", "KILL", "SKIPME", "yes"]);
            assert!(killed >= 1);
            assert!(matches!(answered(&backend, &held).await, AcquireOutcome::Granted(_)));
        }
        assert!(matches!(backend.release(&held).await.unwrap(), Released::Freed { .. }));
    }
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let held = claim("a");
    granted(&backend, &held).await;
    server.kill();
    let error = soon(async {
        loop {
            // The end of the connection may still be on its way.
            match backend.renew(&Renew::new(held.clone(), long())).await {
                Renewal::Unknown(error) => return error,
                Renewal::Renewed { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    server.restart();
    assert!(matches!(answered(&backend, &claim("b")).await, AcquireOutcome::Granted(_)));
    assert!(matches!(backend.renew(&Renew::new(held.clone(), long())).await, Renewal::Lost));
}

#[tokio::test]
async fn an_unreachable_server_is_said_to_be_quickly() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    server.kill();
    let begin = Instant::now();
    for _ in 0..100 {
        let error = attempt(&backend, &claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(error.to_string().contains("127.0.0.1:"), "{error}");
    }
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    let watch = backend.watch(&claim("a").key).await.unwrap_err();
    assert_eq!(watch.kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn many_requests_share_one_attempt_to_connect() {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let backend = RedisBackend::open(proxy.url()).unwrap();
    let claims: Vec<_> = (0..100).map(|number| claim(format!("{number}"))).collect();
    for connections in 1..4 {
        let requests = claims.iter().map(|claim| answered(&backend, claim));
        for answer in futures::future::join_all(requests).await {
            assert!(matches!(answer, AcquireOutcome::Granted(_)));
        }
        assert_eq!(proxy.connections(), connections);
        sever(&proxy);
        // The next round begins on a connection that is known to be broken.
        soon(async {
            while attempt(&backend, &claims[0]).await.is_ok() {
                tokio::task::yield_now().await;
                if proxy.connections() > connections {
                    break;
                }
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_given_up() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let proxy = proxy_before(&server);
        let backend = hasty(proxy.url()).protocol(protocol).build().unwrap();
        let held = claim(format!("{protocol:?}"));
        granted(&backend, &held).await;

        silence(&proxy);
        let begin = Instant::now();
        for _ in 0..3 {
            let error = unknown(backend.renew(&Renew::new(held.clone(), long())).await);
            assert_eq!(error.kind(), ErrorKind::Timeout);
            assert!(error.is_retryable());
        }
        assert!(begin.elapsed() >= Duration::from_millis(3 * 600));
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());

        // The old connection was closed, although neither side reported a break.
        sever(&proxy);
        soon(async {
            while !matches!(
                backend.renew(&Renew::new(held.clone(), long())).await,
                Renewal::Renewed { .. }
            ) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert!(proxy.connections() > 1);
    }
}

#[tokio::test]
async fn a_silent_peer_is_given_up_although_the_network_never_says_so() {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let backend = hasty(proxy.url()).build().unwrap();
    granted(&backend, &claim("a")).await;
    silence(&proxy);
    soon(async {
        // A new connection is tried while the old one is still there.
        while proxy.connections() == 1 {
            let error = attempt(&backend, &claim("b")).await.unwrap_err();
            assert!(error.is_retryable(), "{error:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_short_pause_of_the_server_costs_one_request_and_no_connection() {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let backend = hasty(proxy.url()).build().unwrap();
    let held = claim("a");
    granted(&backend, &held).await;
    silence(&proxy);
    assert_eq!(
        unknown(backend.renew(&Renew::new(held.clone(), long())).await).kind(),
        ErrorKind::Timeout
    );
    proxy.pass();
    // The late reply is not taken for the reply to the next request.
    assert!(matches!(answered(&backend, &held).await, AcquireOutcome::Granted(_)));
    assert!(refused(&backend, &claim("a")).await.is_some());
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn requests_that_wait_in_the_same_silence_cost_no_connection() {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let backend = hasty(proxy.url()).build().unwrap();
    let claims: Vec<_> = (0..50).map(|number| claim(format!("{number}"))).collect();
    granted(&backend, &claims[0]).await;
    silence(&proxy);
    let requests = claims.iter().map(|claim| attempt(&backend, claim));
    for outcome in futures::future::join_all(requests).await {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Timeout);
    }
    proxy.pass();
    assert!(matches!(answered(&backend, &claims[0]).await, AcquireOutcome::Granted(_)));
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn a_paused_server_answers_later() {
    let server = Server::start();
    let backend = hasty(server.url()).build().unwrap();
    granted(&backend, &claim("first")).await;
    server.client().command::<()>(&["CLIENT", "PAUSE", "10000", "WRITE"]);
    let late = claim("a");
    let error = attempt(&backend, &late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    server.client().command::<()>(&["CLIENT", "UNPAUSE"]);
    // The owner finds out what became of the request.
    assert!(matches!(answered(&backend, &late).await, AcquireOutcome::Granted(_)));
    assert!(refused(&backend, &claim("a")).await.is_some());
    assert!(matches!(backend.release(&late).await.unwrap(), Released::Freed { .. }));
}

#[tokio::test]
async fn a_replica_and_a_master_without_replicas_are_not_ready() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let held = claim("a");
    granted(&backend, &held).await;
    let mut raw = server.client();

    // Before version 7 that does not stop a script.
    if server.version() >= 7 {
        raw.command::<()>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
        let error = attempt(&backend, &claim("b")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
        assert_eq!(backend.release(&held).await.unwrap_err().kind(), ErrorKind::NotReady);
        raw.command::<()>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    }

    raw.command::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = attempt(&backend, &claim("b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    assert!(unknown(backend.renew(&Renew::new(held.clone(), long())).await).is_retryable());
    raw.command::<()>(&["REPLICAOF", "NO", "ONE"]);
    assert!(matches!(answered(&backend, &held).await, AcquireOutcome::Granted(_)));
}

#[tokio::test]
async fn a_connection_to_a_replica_is_given_up_but_not_without_end() {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let backend = RedisBackend::open(proxy.url()).unwrap();
    server.client().command::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    for _ in 0..300 {
        assert!(attempt(&backend, &claim("a")).await.unwrap_err().is_retryable());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Another server may be behind the address by now; but a caller waits between two looks.
    assert!((2..60).contains(&proxy.connections()), "{}", proxy.connections());
}

#[tokio::test]
async fn a_server_that_cannot_save_is_not_ready() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let held = claim("a");
    granted(&backend, &held).await;
    // A folder where the file should be.
    std::fs::create_dir(server.folder().join("dump.rdb")).unwrap();
    let mut raw = server.client();
    raw.command::<()>(&["CONFIG", "SET", "save", "3600 1"]);
    raw.command::<()>(&["BGSAVE"]);
    soon(async {
        while !raw.command::<String>(&["INFO", "persistence"]).contains("bgsave_status:err") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let error = attempt(&backend, &claim("b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    assert_eq!(
        unknown(backend.renew(&Renew::new(held.clone(), long())).await).kind(),
        ErrorKind::NotReady
    );
    raw.command::<()>(&["CONFIG", "SET", "save", ""]);
    granted(&backend, &claim("b")).await;
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_script_is_not_ready() {
    let server = Server::with(&["--lua-time-limit", "20"]);
    let backend = RedisBackend::open(server.url()).unwrap();
    granted(&backend, &claim("first")).await;
    let url = server.url();
    let endless = std::thread::spawn(move || {
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut connection)
    });
    let error = soon(async {
        loop {
            if let Err(error) = attempt(&backend, &claim("a")).await {
                return error;
            }
        }
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    server.client().command::<()>(&["SCRIPT", "KILL"]);
    assert!(endless.join().unwrap().is_err());
    assert!(matches!(answered(&backend, &claim("b")).await, AcquireOutcome::Granted(_)));
}

#[tokio::test]
async fn a_server_that_takes_no_more_connections_is_not_ready() {
    let server = Server::start();
    let mut raw = server.client();
    raw.command::<()>(&["CONFIG", "SET", "maxclients", "1"]);
    for protocol in [Protocol::Resp2, Protocol::Resp3, Protocol::Auto] {
        let backend = RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
        let error = attempt(&backend, &claim("a")).await.unwrap_err();
        assert!(error.is_retryable(), "{protocol:?}: {error:?}");
    }
    raw.command::<()>(&["CONFIG", "SET", "maxclients", "100"]);
    granted(&RedisBackend::open(server.url()).unwrap(), &claim("a")).await;
}

#[tokio::test]
async fn the_owner_finds_out_what_became_of_a_request_whose_reply_was_lost() {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let backend = hasty(proxy.url()).build().unwrap();
    let other = RedisBackend::open(server.url()).unwrap();
    let first = granted(&backend, &claim("first")).await;
    let mine = claim("a");
    proxy.silence(Direction::ToClient);
    assert!(attempt(&backend, &mine).await.unwrap_err().is_retryable());
    // The lock was granted all the same.
    assert!(refused(&other, &claim("a")).await.is_some());
    sever(&proxy);
    let AcquireOutcome::Granted(grant) = answered(&backend, &mine).await else { panic!() };
    assert!(grant.tokens.first() > first.tokens.first());
    assert_eq!(granted(&backend, &mine).await.tokens, grant.tokens);
}

#[tokio::test]
async fn a_repeated_grant_is_dated_by_the_later_of_both_ends() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let mine = claim("a");
    let brief = Acquire::new(mine.clone(), millis(5_000));
    let AcquireOutcome::Granted(first) = backend.try_acquire(&brief).await.unwrap() else {
        panic!()
    };
    let extended = granted(&backend, &mine).await;
    let AcquireOutcome::Granted(again) = backend.try_acquire(&brief).await.unwrap() else {
        panic!()
    };
    assert!(extended.tokens == first.tokens && again.tokens == first.tokens);
    assert!(extended.valid_until > first.valid_until + Duration::from_secs(50));
    // To the millisecond, in which the server counts the rest of a lease.
    let apart = again.valid_until.saturating_duration_since(extended.valid_until);
    let lost = extended.valid_until.saturating_duration_since(again.valid_until);
    assert!(apart.max(lost) < Duration::from_secs(5), "{apart:?} {lost:?}");
}
