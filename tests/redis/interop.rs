//! Other clients of a key, and other values at it.

use lock_core::{
    AcquireOutcome, Backend, Convert, ConvertBackend, ErrorKind, Key, Mode, Released, Renew,
    Renewal,
};
use lock_redis::RedisBackend;

use crate::support::{Server, attempt, claim, claim_of, granted, long, refused};

const KEY: &str = "jobs:nightly";
/// The release of redis-py, redsync and node-redlock.
const COMPARE_AND_DELETE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

#[tokio::test]
async fn a_plain_set_excludes_us() {
    let server = Server::start();
    let (ours, mut theirs) = (RedisBackend::open(server.url()).unwrap(), server.client());
    let claim = claim_of(Key::raw(KEY).unwrap());

    theirs.command::<()>(&["SET", KEY, "theirs", "NX", "PX", "60000"]);
    let left = refused(&ours, &claim).await.unwrap();
    assert!(left.as_millis() <= 60_000 && left.as_millis() > 50_000, "{left:?}");
    assert_eq!(ours.release(&claim).await.unwrap(), Released::NotHeld);
    assert!(matches!(ours.renew(&Renew::new(claim.clone(), long())).await, Renewal::Lost));
    assert_eq!(theirs.command::<String>(&["GET", KEY]), "theirs");

    theirs.command::<()>(&["EVAL", COMPARE_AND_DELETE, "1", KEY, "theirs"]);
    granted(&ours, &claim).await;
}

#[tokio::test]
async fn we_exclude_a_plain_set() {
    let server = Server::start();
    let (ours, mut theirs) = (RedisBackend::open(server.url()).unwrap(), server.client());
    let claim = claim_of(Key::raw(KEY).unwrap());
    let set = ["SET", KEY, "theirs", "NX", "PX", "60000"];

    granted(&ours, &claim).await;
    assert_eq!(theirs.command::<Option<String>>(&set), None);
    assert_eq!(theirs.command::<i64>(&["EVAL", COMPARE_AND_DELETE, "1", KEY, "theirs"]), 0);
    assert!(matches!(
        ours.renew(&Renew::new(claim.clone(), long())).await,
        Renewal::Renewed { .. }
    ));

    ours.release(&claim).await.unwrap();
    assert_eq!(theirs.command::<Option<String>>(&set).as_deref(), Some("OK"));
}

#[tokio::test]
async fn the_key_holds_the_owners_digits_and_a_time_to_live() {
    let server = Server::start();
    let (ours, mut theirs) = (RedisBackend::open(server.url()).unwrap(), server.client());
    let claim = claim("orders/42");
    granted(&ours, &claim).await;
    assert_eq!(theirs.command::<Vec<u8>>(&["GET", "lock:{orders/42}"]), claim.owner.expose());
    let left = theirs.command::<u64>(&["PTTL", "lock:{orders/42}"]);
    assert!(left <= 60_000 && left > 50_000, "{left}");
}

#[tokio::test]
async fn a_value_without_a_time_to_live_is_a_holder_for_ever() {
    let server = Server::start();
    let (ours, mut theirs) = (RedisBackend::open(server.url()).unwrap(), server.client());
    let claim = claim_of(Key::raw(KEY).unwrap());
    theirs.command::<()>(&["SET", KEY, "theirs"]);
    assert_eq!(refused(&ours, &claim).await, None);
    assert_eq!(theirs.command::<String>(&["GET", KEY]), "theirs");
}

#[tokio::test]
async fn what_is_not_a_lock_is_an_error_and_stays() {
    let server = Server::start();
    let (ours, mut theirs) = (RedisBackend::open(server.url()).unwrap(), server.client());
    let claim = claim_of(Key::raw(KEY).unwrap());
    theirs.command::<()>(&["RPUSH", KEY, "a", "b"]);

    let error = attempt(&ours, &claim).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignKey);
    assert!(error.to_string().contains("127.0.0.1:"), "{error}");
    assert!(!error.is_retryable());
    assert_eq!(ours.release(&claim).await.unwrap(), Released::NotHeld);
    assert!(matches!(ours.renew(&Renew::new(claim.clone(), long())).await, Renewal::Lost));
    assert_eq!(theirs.command::<u64>(&["LLEN", KEY]), 2);
    assert_eq!(theirs.command::<u64>(&["DBSIZE"]), 1);
}

#[tokio::test]
async fn odd_names_are_carried_and_stay_under_the_prefix() {
    let server = Server::start();
    let ours = RedisBackend::builder(server.url()).prefix("app:").build().unwrap();
    let other = RedisBackend::builder(server.url()).prefix("app:").build().unwrap();
    let names = [
        &b""[..],
        b"\0",
        b"\r\n",
        b" ",
        b"{",
        b"}",
        b"{}",
        b"}{",
        b"a}b{c}",
        b"\xff\xfe",
        b"%",
        b"%00",
        "gr\u{fc}n".as_bytes(),
        &[b'{'; 512],
    ];
    let claims: Vec<_> = names.iter().map(claim).collect();
    for mine in &claims {
        granted(&ours, mine).await;
    }
    for name in names {
        assert!(refused(&other, &claim(name)).await.is_some());
    }
    let mut theirs = server.client();
    let keys = theirs.command::<Vec<Vec<u8>>>(&["KEYS", "*"]);
    assert_eq!(keys.len(), 2 * names.len());
    assert!(keys.iter().all(|key| key.starts_with(b"app:{")));
    for mine in &claims {
        assert!(matches!(ours.release(mine).await.unwrap(), Released::Freed { .. }));
    }
}

#[tokio::test]
async fn exact_keys_are_exact() {
    let server = Server::start();
    let (ours, mut theirs) = (RedisBackend::open(server.url()).unwrap(), server.client());
    for key in [&b"\0\r\n\xff"[..], b"{}x", b"}{", b"{user}:1", b"{user}:2", b" "] {
        granted(&ours, &claim_of(Key::raw(key).unwrap())).await;
        assert!(theirs.raw::<bool, _>(&[b"EXISTS", key]), "{}", key.escape_ascii());
    }
}

#[tokio::test]
async fn a_name_and_its_exact_key_are_one_lock() {
    let server = Server::start();
    let ours = RedisBackend::open(server.url()).unwrap();
    let (named, exact) = (claim("a"), claim_of(Key::raw("lock:{a}").unwrap()));
    let first = granted(&ours, &named).await;
    refused(&ours, &exact).await;
    ours.release(&named).await.unwrap();
    assert!(granted(&ours, &exact).await.tokens.first() > first.tokens.last());
    assert_eq!(server.client().command::<u64>(&["DBSIZE"]), 2);
}

#[tokio::test]
async fn databases_are_apart() {
    let server = Server::start();
    let zero = RedisBackend::open(format!("{}/0", server.url())).unwrap();
    let one = RedisBackend::open(format!("{}/1", server.url())).unwrap();
    let other_one = RedisBackend::open(format!("{}/1", server.url())).unwrap();
    granted(&zero, &claim("a")).await;
    granted(&one, &claim("a")).await;
    refused(&other_one, &claim("a")).await;
}

#[tokio::test]
async fn what_no_store_could_grant_is_refused_before_anything_is_sent() {
    let nowhere = RedisBackend::open("redis://127.0.0.1:1").unwrap();
    let reader = claim("a").in_mode(Mode::Shared);
    let request = Convert::new(reader, Mode::Exclusive, long());
    let error = nowhere.convert(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[tokio::test]
async fn a_request_to_be_queued_is_refused_like_any_other() {
    let server = Server::start();
    let ours = RedisBackend::open(server.url()).unwrap();
    granted(&ours, &claim("a")).await;
    let request = lock_core::Acquire::new(claim("a"), long()).queued();
    assert!(matches!(ours.try_acquire(&request).await.unwrap(), AcquireOutcome::Busy { .. }));
}
