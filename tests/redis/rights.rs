//! Users with fewer rights.

use std::time::Duration;

use lock_core::{
    Acquire, Backend, Ballot, CellBackend, Committed, ErrorKind, FencingToken, Hint, Key,
    Membership, Mode, Quarantine, QuorumNode, Released, Renew, Renewal, Terms, Vote,
};
use lock_redis::{Builder, Notifications, Protocol, RedisBackend};

use crate::support::{Server, Waiter, attempt, claim, granted, long, open, soon};

/// The rules in the docs of the crate, on one line.
pub(crate) const LEAST: &str = "resetkeys ~lock:* resetchannels &lock:* &__keyspace@*__:lock:* -@all \
    +evalsha +script|load +get +getrange +set +setrange +del +exists +pttl +pexpire +time +publish \
    +subscribe +unsubscribe +llen +lindex +lrange +lpop +lpush +rpush +lrem +hget +hset +hdel +hmget \
    +hincrby +zadd +zrem +zscore +zcard +zcount +zrange +zrevrange +zrangebyscore";

/// The rules without some of them.
fn without(missing: &[&str]) -> String {
    let rules = LEAST.split_whitespace().filter(|rule| !missing.contains(rule));
    rules.collect::<Vec<_>>().join(" ")
}

/// Gives a user these rights and no others.
fn give(server: &Server, rules: &str) {
    let mut words = vec!["ACL", "SETUSER", "locks", "reset", "on", ">hunter2"];
    words.extend(rules.split_whitespace());
    server.client().command::<()>(&words);
}

/// Makes `locks:hunter2` a user with the rights in the docs.
pub(crate) fn give_least(server: &Server) {
    give(server, LEAST);
}

/// As above, with the right to list locks.
pub(crate) fn give_least_to_list(server: &Server) {
    give(server, &format!("{LEAST} +scan"));
}

/// As [`give_least`], for a server that is a node of a quorum.
pub(crate) fn give_least_of_a_node(server: &Server) {
    give(server, &of_a_node());
}

pub(crate) fn of_a_node() -> String {
    format!("{LEAST} +info")
}

pub(crate) fn user(server: &Server, rules: &str) -> Builder {
    give(server, rules);
    RedisBackend::builder(format!("redis://locks:hunter2@127.0.0.1:{}", server.port()))
}

fn key() -> Key {
    Key::new("a").unwrap()
}

/// Takes, renews and releases.
async fn works(backend: &RedisBackend) -> Released {
    let claim = claim("a");
    granted(backend, &claim).await;
    assert!(matches!(
        backend.renew(&Renew::new(claim.clone(), long())).await,
        Renewal::Renewed { .. }
    ));
    backend.release(&claim).await.unwrap()
}

#[tokio::test]
async fn the_least_rights_of_the_docs_are_enough() {
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    let docs = include_str!("../../crates/lock-redis/src/acl.md");
    let docs: Vec<_> = docs.split_whitespace().collect();
    let rules: Vec<_> = LEAST.split_whitespace().collect();
    assert!(docs.windows(rules.len()).any(|words| words == rules), "the docs name other rules");
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        for release_messages in [true, false] {
            let builder = user(&server, LEAST).protocol(protocol);
            let backend = builder.release_messages(release_messages).build().unwrap();
            let mut watch = backend.watch(&key()).await.unwrap();
            works(&backend).await;
            assert_eq!(soon(watch.next()).await, Some(Hint::Released));
        }
    }
}

#[tokio::test]
async fn without_the_right_to_publish_a_release_still_releases() {
    let server = Server::start();
    let silent = user(&server, &without(&["+publish"])).build().unwrap();
    let watch = silent.watch(&key()).await.unwrap();
    assert_eq!(works(&silent).await, Released::Freed { told: 0 });
    assert!(!server.client().command::<bool>(&["EXISTS", "lock:{a}"]));
    drop(watch);
}

/// A server may refuse any command to a user, in the middle of a script.
#[tokio::test]
async fn a_commit_whose_release_is_refused_is_in_doubt() {
    for (right, waits) in [("del", false), ("lpop", true), ("hdel", true), ("pexpire", true)] {
        let server = Server::start();
        let backend = user(&server, LEAST).build().unwrap();
        let held = claim("a");
        let token = granted(&backend, &held).await.tokens.first();
        let other = open(&server);
        let waiter = match waits {
            true => Some(Waiter::queue(&other, claim("a")).await),
            false => None,
        };
        let rule =
            |rule: String| server.client().command::<()>(&["ACL", "SETUSER", "locks", &rule]);
        rule(format!("-{right}"));
        let refused = backend.commit(&held, token, b"1").await.err();
        assert_eq!(other.load(&key()).await.unwrap().unwrap().value, b"1", "{right}");
        rule(format!("+{right}"));
        // Another script may release the lease without this right.
        assert!(refused.is_some() || waits, "{right}");
        if let Some(error) = refused {
            assert_eq!(error.kind(), ErrorKind::NotReady, "{right}: {error}");
            // A repetition finishes the commit.
            let done = backend.commit(&held, token, b"1").await.unwrap();
            assert!(matches!(done, Committed::Done { .. }), "{right}: {done:?}");
        }
        if let Some(waiter) = waiter {
            waiter.asks_until_it_has(Duration::ZERO).await;
        }
    }
}

#[tokio::test]
async fn without_config_watching_goes_on_unless_notifications_are_required() {
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    for mode in [Notifications::IfPresent, Notifications::Enable, Notifications::Require] {
        let builder = user(&server, LEAST).release_messages(false).notifications(mode);
        let backend = builder.build().unwrap();
        let watch = backend.watch(&key()).await;
        works(&backend).await;
        if mode == Notifications::Require {
            assert_eq!(watch.unwrap_err().kind(), ErrorKind::Unsupported);
        } else {
            assert_eq!(soon(watch.unwrap().next()).await, Some(Hint::Released), "{mode:?}");
        }
    }
}

#[tokio::test]
async fn what_may_be_heard_is_heard() {
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    for missing in ["&lock:*", "&__keyspace@*__:lock:*"] {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let backend = user(&server, &without(&[missing])).protocol(protocol).build().unwrap();
            let other = Key::new("b").unwrap();
            let mut watches =
                futures::future::join_all([&key(), &other].map(|key| backend.watch(key))).await;
            works(&backend).await;
            let watch = watches[0].as_mut().unwrap();
            // Without the channel of releases the script cannot publish either.
            assert_eq!(soon(watch.next()).await, Some(Hint::Released), "{missing}");
            assert!(watches[1].is_ok());
        }
    }
}

#[tokio::test]
async fn without_any_channel_watching_is_denied_and_locking_works() {
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    let deaf = [without(&["&lock:*", "&__keyspace@*__:lock:*"]), without(&["+subscribe"])];
    for rules in deaf {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let backend = user(&server, &rules).protocol(protocol).build().unwrap();
            let error = backend.watch(&key()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
            assert_eq!(works(&backend).await, Released::Freed { told: 0 });
        }
    }
}

#[tokio::test]
async fn a_missing_right_is_named_and_grants_nothing_by_half() {
    let server = Server::start();
    let (alone, shared) = (claim("a"), claim("a").in_mode(Mode::Shared));
    let needed = ["+evalsha", "+set", "+time"].map(|right| (right, &alone));
    let of_others =
        ["+get", "+getrange", "+exists", "+setrange", "+pexpire"].map(|right| (right, &shared));
    for (missing, claim) in needed.into_iter().chain(of_others) {
        let backend = user(&server, &without(&[missing])).build().unwrap();
        let error = attempt(&backend, claim).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{missing}: {error}");
        assert!(!error.is_retryable());
        assert!(!server.client().command::<bool>(&["EXISTS", "lock:{a}"]), "{missing}");
    }
    let elsewhere = user(&server, LEAST).prefix("other:").build().unwrap();
    assert_eq!(attempt(&elsewhere, &claim("a")).await.unwrap_err().kind(), ErrorKind::Denied);
}

#[tokio::test]
async fn without_info_a_server_votes_and_cannot_be_quarantined() {
    let server = Server::start();
    let backend = user(&server, LEAST).build().unwrap();
    let ballot = Ballot::new(Acquire::new(claim("a"), long()), FencingToken::new(0));
    let Vote::Granted(grant) = backend.vote(&ballot).await.unwrap() else { panic!("no vote") };
    let terms = Terms::new(Membership::of(["a", "b", "c"]), long());
    assert!(backend.confirm(&ballot.request.claim, grant.tokens.last()).await.unwrap());
    for error in [
        backend.standing(&terms).await.unwrap_err(),
        backend.admit(&terms).await.unwrap_err(),
        backend.vouch(&Quarantine::new("x"), long()).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("INFO"), "{error}");
    }
    assert!(!server.client().command::<bool>(&["EXISTS", "lock:node@0"]));
    let report = backend.check().await.unwrap();
    assert_eq!(report.with_code("unfit-as-node").count(), 1, "{report}");

    let able = user(&server, &of_a_node()).build().unwrap();
    assert!(able.standing(&terms).await.unwrap().max_ttl.is_none());
    let report = able.check().await.unwrap();
    assert_eq!(report.with_code("unfit-as-node").count(), 0, "{report}");
}

#[tokio::test]
async fn without_info_no_server_sits_out_and_none_grants() {
    let server = Server::start();
    let poor = user(&server, LEAST).data_quarantine(long()).build().unwrap();
    for error in [attempt(&poor, &claim("a")).await.unwrap_err(), poor.init().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("INFO"), "{error}");
    }
    assert!(!server.client().command::<bool>(&["EXISTS", "lock:{a}", "lock:data@0"]));

    let able = user(&server, &of_a_node()).data_quarantine(long()).build().unwrap();
    assert!(attempt(&able, &claim("a")).await.unwrap_err().retry_after().is_some());
    able.init().await.unwrap();
    works(&able).await;
}

#[tokio::test]
async fn wrong_credentials_are_denied_without_telling_them() {
    let server = Server::with(&["--requirepass", "correct"]);
    for protocol in [Protocol::Resp2, Protocol::Resp3, Protocol::Auto] {
        for credentials in ["", ":hunter2@", "hunter1:hunter2@"] {
            let url = format!("redis://{credentials}127.0.0.1:{}", server.port());
            let backend = RedisBackend::builder(url).protocol(protocol).build().unwrap();
            let error = attempt(&backend, &claim("a")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Denied, "{protocol:?} {credentials}: {error}");
            let watch = backend.watch(&key()).await.unwrap_err();
            assert_eq!(watch.kind(), ErrorKind::Denied, "{watch}");
            let shown = format!("{error} {error:?} {watch:?} {backend:?}");
            assert!(!shown.contains("hunter"), "{shown}");
        }
    }
    let backend =
        RedisBackend::open(format!("redis://:correct@127.0.0.1:{}", server.port())).unwrap();
    works(&backend).await;
}

#[tokio::test]
async fn a_server_that_quotes_what_it_does_not_know_gives_no_secret_away() {
    let server = Server::with(&["--rename-command", "HELLO", "", "--requirepass", "hunter2"]);
    let url = format!("redis://:hunter2@127.0.0.1:{}", server.port());
    let resp3 = RedisBackend::builder(url.clone()).protocol(Protocol::Resp3).build().unwrap();
    let error = attempt(&resp3, &claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error} {error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");

    // Without a setting, the client finds out that RESP2 works.
    let auto = RedisBackend::open(url).unwrap();
    let mut watch = auto.watch(&key()).await.unwrap();
    works(&auto).await;
    assert_eq!(soon(watch.next()).await, Some(Hint::Released));

    let renamed = ["--rename-command", "EVALSHA", "", "--rename-command", "EVAL", ""];
    let server = Server::with(&renamed);
    let backend = RedisBackend::open(server.url()).unwrap();
    let claim = claim("a");
    let error = attempt(&backend, &claim).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error} {error:?}");
    let owner = String::from_utf8(claim.owner.expose().to_vec()).unwrap();
    assert!(!format!("{error} {error:?}").contains(&owner[..8]), "{error:?}");
}
