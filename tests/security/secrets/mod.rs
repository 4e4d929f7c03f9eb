//! Secrets are planted, all code that writes text runs, and the text is searched for the secrets.
//!
//! Secrets are the credentials in a URL, the tokens of owners, and the values that an app keeps beside a
//! lock. The tests record all text of the process: every event of every level, every panic, and the text of
//! values and errors, with all their sources.

mod drive;
mod parrot;
mod search;
mod tape;

use std::time::Duration;

use lock_core::{Claim, Key, OwnerToken};
use lock_redis::{Builder, Credentials, Notifications, Protocol, RedisBackend};
use lock_redlock::Redlock;
use lock_sync::{Locks, MutexGuard, Owner, PassedOwner};
use lock_tests::{Direction, Proxy, RedisServer};

use self::drive::{drive, drive_locks, drive_quorum, locked};
use self::parrot::{From, MANNERS};
use self::search::Secret;
use crate::monitor::Monitor;

const PROTOCOLS: [Protocol; 3] = [Protocol::Auto, Protocol::Resp2, Protocol::Resp3];

/// Letters and digits, so that servers take it for a name.
const USER: &str = "Tq4ZbN8xWkGm2PfX7s";
const PASSWORD: &str = "Wj6:Rv3%Yh9@Lc5/Kd1?Bz8";
const ENCODED: &str = "Wj6%3ARv3%25Yh9%40Lc5%2FKd1%3FBz8";
const VALUE: &str = "Hn3UyQ9eVtJs6MxCpA4r";

fn credentials() -> Vec<Secret> {
    vec![Secret::new("the user", USER), Secret::new("the password", PASSWORD)]
}

fn url(to: impl std::fmt::Display) -> String {
    format!("redis://{USER}:{ENCODED}@{to}")
}

/// A client whose credentials a provider gives.
fn provided(builder: Builder) -> Builder {
    let provide = || async { Ok::<_, std::io::Error>(Credentials::new(USER, PASSWORD)) };
    builder.credentials(provide)
}

/// A client with a short time limit.
fn hasty(url: impl Into<String>) -> Builder {
    let limit = Duration::from_millis(300);
    RedisBackend::builder(url).command_timeout(limit).connect_timeout(limit)
}

fn server(rules: &str) -> RedisServer {
    RedisServer::builder().user(USER, format!("on \">{PASSWORD}\" {rules}")).start()
}

/// A claim, and the secrets in it.
fn claim(name: &str) -> (Claim, Secret) {
    let owner = OwnerToken::generate().unwrap();
    let text = String::from_utf8(owner.expose().to_vec()).unwrap();
    (Claim::exclusive(Key::new(name).unwrap(), owner), secret_half(&text))
}

/// A whole token, except the part that its tag may show.
fn secret_half(token: &str) -> Secret {
    Secret::new("an owner's token", &token[8..])
}

#[track_caller]
fn assert_unsaid(secrets: &[Secret]) {
    let said = tape::said().clone();
    for secret in secrets {
        if let Some(found) = secret.find(&said) {
            panic!("a secret is shown: {}", found.escape_debug());
        }
    }
}

#[tokio::test]
async fn what_is_said_is_searched() {
    tape::record();
    let make = |text: &str| Secret::new("a control", format!("Xk5Dw{text}Fo2Lb9Rg"));
    let controls = ["Event", "Error", "Shown", "Panic", "Bytes", "Piece", "Never"].map(make);
    let text = |index: usize| {
        format!("Xk5Dw{}Fo2Lb9Rg", ["Event", "Error", "Shown", "Panic", "Bytes", "Piece"][index])
    };
    tracing::trace!(target: "lock_redis::control", said = %text(0));
    let inner = std::io::Error::other(text(1));
    let error = lock_core::Error::with_source(lock_core::ErrorKind::Other, "it failed", inner);
    tracing::debug!(error = &error as &dyn std::error::Error);
    tape::show(&Some(text(2)));
    let panics = std::thread::spawn({
        let text = text(3);
        move || panic!("{text}")
    });
    assert!(panics.join().is_err());
    tape::show(&text(4).as_bytes());
    tape::show(&&text(5)[2..14]);
    let said = tape::said().clone();
    let found: Vec<_> = controls.iter().map(|control| control.find(&said).is_some()).collect();
    assert_eq!(found, [true, true, true, true, true, true, false]);
}

#[tokio::test]
async fn while_all_goes_well_no_secret_is_said() {
    tape::record();
    let server = server("~* &* +@all");
    let watched = Monitor::start(&server);
    let mut secrets = credentials();
    let plain = || RedisBackend::builder(format!("redis://{}", server.addr()));
    let builders = PROTOCOLS.map(|protocol| {
        let by_url = RedisBackend::builder(url(server.addr()));
        [by_url.protocol(protocol), provided(plain()).protocol(protocol)]
    });
    for builder in builders.into_iter().flatten() {
        tape::show(&builder);
        let backend = builder.build().unwrap();
        let (claim, token) = claim("well");
        drive(&backend, &claim, VALUE).await;
        secrets.push(token);
        drive_locks(&Locks::new(backend), VALUE).await;
    }
    let tokens = watched.tokens();
    assert!(tokens.len() > 20, "{} tokens were seen", tokens.len());
    secrets.extend(tokens.iter().map(|token| secret_half(token)));
    assert_unsaid(&secrets);
}

#[tokio::test]
async fn a_refused_login_does_not_show_the_secrets() {
    tape::record();
    let right = server("~* &* +@all");
    let other = RedisServer::builder().user(USER, "on >another ~* &* +@all").start();
    let off = RedisServer::builder().user(USER, format!("off \">{PASSWORD}\" ~* +@all")).start();
    let unknown = RedisServer::builder().password("another").start();
    let quoting =
        RedisServer::builder().password("another").config("rename-command", "HELLO \"\"").start();
    let mut secrets = credentials();
    for server in [&other, &off, &unknown, &quoting] {
        for protocol in PROTOCOLS {
            let backend = hasty(url(server.addr())).protocol(protocol).build().unwrap();
            let (claim, token) = claim("denied");
            drive(&backend, &claim, VALUE).await;
            secrets.push(token);
        }
        let by_provider = provided(hasty(format!("redis://{}", server.addr())));
        let (claim, token) = claim("denied");
        drive(&by_provider.build().unwrap(), &claim, VALUE).await;
        secrets.push(token);
    }
    let socket = format!("redis+unix://{}?user={USER}&pass={ENCODED}x", right.socket().display());
    drive(&hasty(socket).build().unwrap(), &claim("socket").0, VALUE).await;
    drive_locks(&Locks::new(hasty(url(other.addr())).build().unwrap()), VALUE).await;
    assert_unsaid(&secrets);
}

#[tokio::test]
async fn a_refused_command_does_not_show_the_secrets() {
    tape::record();
    let mut secrets = credentials();
    for rules in [
        "~* &* -@all",
        "~* &* +@all -get",
        "~* &* +@all -set",
        "~* +@all resetchannels",
        "~other &* +@all",
        "~* &* +@all -script",
    ] {
        let server = server(rules);
        for protocol in PROTOCOLS {
            for notifications in [Notifications::IfPresent, Notifications::Enable] {
                let builder = hasty(url(server.addr())).notifications(notifications);
                let backend = builder.protocol(protocol).build().unwrap();
                let (claim, token) = claim("denied");
                drive(&backend, &claim, VALUE).await;
                secrets.push(token);
            }
        }
    }
    assert_unsaid(&secrets);
}

#[tokio::test]
async fn a_broken_way_tells_nothing() {
    tape::record();
    let server = server("~* &* +@all");
    let watched = Monitor::start(&server);
    let mut secrets = credentials();
    let ways: [fn(&Proxy); 5] = [
        |proxy| {
            proxy.refuse();
            proxy.cut();
        },
        |proxy| proxy.silence(Direction::ToClient),
        |proxy| proxy.silence(Direction::ToServer),
        Proxy::cut_replies,
        Proxy::cut,
    ];
    let mut runs = Vec::new();
    for break_it in ways {
        for protocol in PROTOCOLS {
            let ((before, one), (after, other)) = (claim("before"), claim("after"));
            secrets.extend([one, other]);
            let server = &server;
            runs.push(async move {
                let proxy = Proxy::before(server);
                let backend = hasty(url(proxy.addr())).protocol(protocol).build().unwrap();
                drive(&backend, &before, VALUE).await;
                let locks = Locks::builder(backend.clone()).wait_limit(Duration::from_millis(200));
                let locks = locks.ttl(Duration::from_secs(1)).build().unwrap();
                let mutex = locks.mutex(proxy.addr().to_string(), ()).unwrap();
                let guard = locked(&mutex).await;
                break_it(&proxy);
                drive(&backend, &after, VALUE).await;
                tape::shown(mutex.lock().await).ok();
                tape::shown(MutexGuard::release(guard).await).ok();
            });
        }
    }
    futures::future::join_all(runs).await;
    // No server listens there.
    let nowhere = lock_tests::Port::reserve();
    drive(&hasty(url(nowhere.addr())).build().unwrap(), &claim("nowhere").0, VALUE).await;
    secrets.extend(watched.tokens().iter().map(|token| secret_half(token)));
    assert_unsaid(&secrets);
}

#[tokio::test]
async fn what_a_server_says_of_a_secret_is_not_repeated() {
    tape::record();
    let mut runs = Vec::new();
    let mut secrets = credentials();
    for manner in MANNERS {
        for from in [From::Greeting, From::Requests] {
            for protocol in PROTOCOLS {
                let addr = parrot::start(manner, from);
                let backend = hasty(url(addr)).protocol(protocol).build().unwrap();
                let (claim, token) = claim("parrot");
                secrets.push(token);
                runs.push(async move { drive(&backend, &claim, VALUE).await });
            }
        }
    }
    futures::future::join_all(runs).await;
    secrets.push(Secret::new("a value", VALUE));
    assert_unsaid(&secrets);
}

#[tokio::test]
async fn a_quorum_does_not_tell_on_its_nodes() {
    tape::record();
    let servers = [server("~* &* +@all"), server("~* &* +@all"), server("~* &* +@all -info")];
    let wrong = RedisServer::builder().user(USER, "on >another ~* &* +@all").start();
    let parrots = [MANNERS[0], MANNERS[1]].map(|manner| parrot::start(manner, From::Requests));
    let watched = Monitor::start(&servers[0]);
    let good: Vec<_> = servers.iter().map(RedisServer::addr).collect();
    let limit = Duration::from_secs(3);
    for (nodes, has_majority) in [
        (good.clone(), true),
        (vec![good[0], wrong.addr(), parrots[0]], false),
        (vec![good[0], good[1], parrots[1]], true),
    ] {
        let patient = |addr| hasty(url(addr)).command_timeout(limit).connect_timeout(limit);
        let nodes = nodes.into_iter().map(|addr| patient(addr).build().unwrap());
        let builder = Redlock::builder().nodes(nodes).node_timeout(Duration::from_secs(2));
        tape::show(&builder);
        let quorum = tape::shown(builder.build().await).unwrap();
        // A busy machine may be too slow for a few requests.
        let tries = if has_majority { 5 } else { 1 };
        assert_eq!(drive_quorum(quorum, tries).await, has_majority);
    }
    let mut secrets = credentials();
    secrets.extend(watched.tokens().iter().map(|token| secret_half(token)));
    assert_unsaid(&secrets);
}

#[tokio::test]
async fn a_lost_lease_and_a_panic_tell_nothing() {
    tape::record();
    let server = server("~* &* +@all");
    let watched = Monitor::start(&server);
    let locks = Locks::builder(RedisBackend::open(url(server.addr())).unwrap());
    let locks = locks.ttl(Duration::from_secs(1)).build().unwrap();
    let mutex = std::sync::Arc::new(locks.mutex("lost", 0).unwrap());
    let guard = mutex.lock().await.unwrap();
    server.cli(&["SET", "lock:{lost}", "another's"]);
    tape::show(&MutexGuard::lease(&guard).lost().await);
    tape::shown(MutexGuard::lease(&guard).check()).ok();
    tape::show(&guard);
    tape::shown(MutexGuard::release(guard).await).ok();
    server.flushall();

    let panics = tokio::spawn({
        let mutex = std::sync::Arc::clone(&mutex);
        async move {
            let guard = mutex.lock().await.unwrap();
            panic!("in the middle of it: {guard:?} of {mutex:?}");
        }
    });
    tape::show(&panics.await.unwrap_err());

    let mut secrets = vec![Secret::new("a value", VALUE)];
    secrets.push(owner_of_a_panic(&locks).await);
    values_and_an_election(&locks, &server).await;
    locks.shutdown().await;
    secrets.extend(credentials());
    secrets.extend(watched.tokens().iter().map(|token| secret_half(token)));
    assert_unsaid(&secrets);
}

/// Shows an owner, parses what is nearly its secret, and panics with its guard. Returns the secret.
async fn owner_of_a_panic(locks: &Locks<RedisBackend>) -> Secret {
    let reentrant = std::sync::Arc::new(locks.reentrant_mutex("again", ()).unwrap());
    let mut owner = Owner::new().unwrap();
    let secret = Secret::new("an owner", owner.pass().expose());
    tape::show(&owner);
    tape::show(&owner.pass());
    {
        let mut guard = reentrant.lock_as(&mut owner).await.unwrap();
        tape::show(&guard);
        let (_, same) = guard.split();
        tape::show(&same);
    }
    let text = owner.pass().expose();
    let slips = [text.clone() + "0", text.to_uppercase(), format!("\"{text}\"")];
    for slip in slips {
        tape::shown(slip.parse::<PassedOwner>()).ok();
        tape::shown(serde_json::from_str::<PassedOwner>(&format!("{slip:?}"))).ok();
    }
    let panics = tokio::spawn(async move {
        let guard = reentrant.lock_as(&mut owner).await.unwrap();
        panic!("as {guard:?}");
    });
    tape::show(&panics.await.unwrap_err());
    secret
}

/// Shows the errors of a cell that has another type or fails, and of a leader that is none any more.
async fn values_and_an_election(locks: &Locks<RedisBackend>, server: &RedisServer) {
    let cell = locks.once_cell::<String, _>("cell").unwrap();
    let failing = cell.get_or_try_init(async || Err::<String, _>(std::io::Error::other("not now")));
    tape::shown(failing.await).ok();
    cell.get_or_init(async || VALUE.to_owned()).await.unwrap();
    // The key has a value of another type.
    tape::shown(locks.once_cell::<u32, _>("cell").unwrap().load().await).ok();
    let election = locks.election("election").unwrap();
    let mut leads = election.campaign(VALUE).await.unwrap();
    tape::show(&leads);
    server.cli(&["DEL", "lock:{election}"]);
    tape::shown(leads.update(VALUE).await).ok();
    tape::shown(leads.resign().await).ok();
}

#[test]
fn a_url_that_makes_no_sense_is_not_repeated() {
    tape::record();
    for url in [
        format!("{USER}:{ENCODED}@redis.example"),
        format!("http://{USER}:{ENCODED}@redis.example"),
        format!("redis://{USER}:{PASSWORD}@redis.example"),
        format!("redis://{USER}:{ENCODED}@redis.example:port"),
        format!("redis://{USER}:{ENCODED}@redis.example:99999"),
        format!("redis://{USER}:{ENCODED}@redis.example/{ENCODED}"),
        format!("redis://{USER}:{ENCODED}@redis.example/0?protocol={ENCODED}"),
        format!("redis://{USER}:{ENCODED}@redis.example/0#{ENCODED}"),
        format!("redis://{USER}:%FF{ENCODED}@redis.example"),
        format!("redis://{USER}:{ENCODED}@"),
        format!("redis+unix://?user={USER}&pass={ENCODED}"),
        format!("redis+unix:///run/sock?user={USER}&pass={ENCODED}&db=none"),
        format!("rediss://{USER}:{ENCODED}@redis.example/x"),
        format!(" redis://{USER}:{ENCODED}@redis.example"),
    ] {
        let builder = RedisBackend::builder(url);
        tape::show(&builder);
        tape::shown(builder.clone().prefix("{").build()).ok();
        tape::shown(builder.build()).ok();
    }
    let key = format!("-----BEGIN PRIVATE KEY-----\n{VALUE}\n-----END PRIVATE KEY-----\n");
    let broken = key.replace("PRIVATE KEY", "CERTIFICATE");
    for pem in [key, broken, VALUE.to_owned()] {
        let builder = RedisBackend::builder("rediss://redis.example").root_certificates(pem);
        tape::show(&builder);
        tape::shown(builder.build()).unwrap_err();
    }
    let mut secrets = credentials();
    secrets.push(Secret::new("a key", VALUE));
    assert_unsaid(&secrets);
}
