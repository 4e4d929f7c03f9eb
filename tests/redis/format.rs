//! The format in which locks are stored: what a later version of it is to this one, and what each field says.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{SystemTime, UNIX_EPOCH};

use lock_core::{
    Acquire, Attempt, Backend, Ballot, Claim, Convert, ConvertBackend, Error, ErrorKind,
    FencingToken, InspectBackend, Inspection, Mode, OwnerToken, PermitBackend, QuorumNode,
    Released, Renew, Renewal, Resize,
};
use lock_redis::RedisBackend;
use lock_tests::resp;

use crate::support::{Client, Server, Waiter, attempt, claim, granted, long, soon, state_after};

const LOCK: &str = "lock:{a}";
const STATE: &str = "lock:{a}:state";
/// An owner of the other version, and how the state of this version names it.
const OTHER: &str = "0123456789abcdef0123456789abcdef";
const NAMED: &str = "0123456789abcdef";
/// How this version shows that a lock is shared.
const SHARED: &str = "*shared                         ";

fn open(server: &Server) -> RedisBackend {
    RedisBackend::open(server.url()).unwrap()
}

/// Every key: its type, its value and how long it lives, in ms.
fn dump(raw: &mut Client) -> BTreeMap<String, (String, Vec<u8>, i64)> {
    let keys = raw.command::<Vec<String>>(&["KEYS", "*"]).into_iter();
    let keys = keys.map(|key| {
        let kind = raw.command(&["TYPE", &key]);
        let value = raw.command(&["DUMP", &key]);
        let left = raw.command(&["PTTL", &key]);
        (key, (kind, value, left))
    });
    keys.collect()
}

/// The keys are what they were before, and live no longer.
fn unchanged(raw: &mut Client, before: &BTreeMap<String, (String, Vec<u8>, i64)>, after: &str) {
    let now = dump(raw);
    assert!(now.keys().eq(before.keys()), "{after}: {:?}", now.keys());
    for (key, (kind, value, left)) in before {
        let (kind_now, value_now, left_now) = &now[key];
        assert_eq!((kind_now, value_now), (kind, value), "{after}: {key}");
        assert!(left_now <= left && left_now.signum() == left.signum(), "{after}: {key}");
    }
}

/// What a server of the other version may have at the keys of a lock that is free, held or waited for.
fn scenes() -> Vec<(&'static str, Vec<Vec<String>>)> {
    let words = |text: &str| text.split('|').map(str::to_owned).collect::<Vec<_>>();
    let state = |text: &str| words(&format!("SET|{STATE}|{text}|PX|3600000"));
    let lock = |text: &str| words(&format!("SET|{LOCK}|{text}|PX|60000"));
    let holders = words(&format!("ZADD|{LOCK}:holders|99999999999999|s:{OTHER}"));
    let grants = words(&format!("HSET|{LOCK}:grants|s:{OTHER}|1 1"));
    let queue = words(&format!("RPUSH|{LOCK}:queue|x:{OTHER}"));
    let places = words(&format!("HSET|{LOCK}:places|x:{OTHER}|99999999999999 0 - 1000 1 ab"));
    let limit = words(&format!("SET|{LOCK}:limit|2 2 open"));
    vec![
        ("free", vec![state("v2 free")]),
        ("free, with a letter alone", vec![state("v")]),
        ("held", vec![state("v9999999999999999-0123456789abcdef"), lock(OTHER)]),
        ("held and marked", vec![state("v2"), lock(&format!("{OTHER}w"))]),
        ("held in some other way", vec![state("v2 x"), lock("v2:somebody")]),
        ("shared", vec![state("v2 s"), lock(SHARED), holders, grants]),
        ("waited for", vec![state("v2 w"), lock(OTHER), queue.clone(), places.clone()]),
        ("free and waited for", vec![state("v2 w"), queue, places]),
        ("a semaphore", vec![state("v2 p"), limit]),
    ]
}

fn is_other_version(error: &Error, what: &str) {
    assert_eq!(error.kind(), ErrorKind::ForeignKey, "{what}: {error}");
    assert!(error.to_string().contains("LOCKVERSION"), "{what}: {error}");
    assert!(error.to_string().contains("another version"), "{what}: {error}");
    assert!(!error.is_retryable(), "{what}: {error}");
}

fn modes() -> [Mode; 6] {
    [
        Mode::Exclusive,
        Mode::Shared,
        Mode::Upgradable,
        Mode::Permits { take: 1, of: 2 },
        Mode::Permits { take: 0, of: 3 },
        Mode::Joint { group: OwnerToken::generate().unwrap() },
    ]
}

/// Asks for the lock in every way there is.
async fn asks(backend: &RedisBackend) -> Vec<(String, Result<String, Error>)> {
    let mut outcomes = Vec::new();
    let mut note = |what: String, outcome| outcomes.push((what, outcome));
    for mode in modes() {
        let request = Acquire::new(claim("a").in_mode(mode), long());
        for request in [request.clone(), request.queued()] {
            let outcome = backend.try_acquire(&request).await;
            note(
                format!("{mode:?}, queued: {}", request.queue),
                outcome.map(|it| format!("{it:?}")),
            );
        }
        if !matches!(mode, Mode::Permits { .. }) {
            let request = Acquire::new(claim("a").in_mode(mode), long());
            let ballot = Ballot::new(request, floor());
            for ballot in [ballot.clone(), ballot.guarded()] {
                let outcome = backend.vote(&ballot).await.map(|it| format!("{it:?}"));
                note(format!("a vote, guarded: {}, {mode:?}", ballot.guarded), outcome);
            }
        }
    }
    for (from, mode) in [(Mode::Upgradable, Mode::Exclusive), (Mode::Exclusive, Mode::Shared)] {
        let request = Convert::new(claim("a").in_mode(from), mode, long());
        let outcome = backend.convert(&request).await.map(|it| format!("{it:?}"));
        note(format!("from {from:?} to {mode:?}"), outcome);
    }
    for claims in [[claim("a"), claim("b")], [claim("b"), claim("a")]] {
        let requests = claims.map(|claim| Acquire::new(claim, long()));
        let outcome = backend.acquire_together(&requests).await;
        note("together".to_owned(), outcome.map(|it| format!("{it:?}")));
    }
    outcomes
}

/// Looks at permits, and changes how many there are.
async fn counts(backend: &RedisBackend) -> Vec<(&'static str, Result<String, Error>)> {
    let key = claim("a").key;
    let shown = |resized| format!("{resized:?}");
    vec![
        ("permits", backend.permits(&key, 2).await.map(|it| format!("{it:?}"))),
        ("add", backend.resize(&key, 2, Resize::Add(1)).await.map(shown)),
        ("remove", backend.resize(&key, 2, Resize::Remove(1)).await.map(shown)),
        ("close", backend.close(&key, 2).await.map(|()| String::new())),
        ("inspect", backend.inspect(&key).await.map(|it| format!("{it:?}"))),
        ("force", backend.force_release(&key).await.map(|it| it.to_string())),
    ]
}

fn floor() -> FencingToken {
    FencingToken::floor(SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
}

/// Renews and releases what it does not hold.
async fn holds_nothing(backend: &RedisBackend, what: &str) {
    for mode in modes() {
        let lost = claim("a").in_mode(mode);
        for tokens in [0, 8] {
            let renewal = backend.renew(&Renew::new(lost.clone(), long()).reserving(tokens)).await;
            assert!(matches!(renewal, Renewal::Lost), "{what}: {mode:?}: {renewal:?}");
        }
        let released = backend.release(&lost).await.unwrap();
        assert_eq!(released, Released::NotHeld, "{what}: {mode:?}");
        if matches!(mode, Mode::Permits { .. }) {
            assert_eq!(backend.forget(&lost).await.unwrap(), Released::NotHeld, "{what}");
        }
        let confirmed = backend.confirm(&lost, floor()).await;
        assert!(!matches!(confirmed, Ok(true)), "{what}: {mode:?}");
    }
    let next = Acquire::new(claim("a"), long()).queued();
    match backend.exchange(&claim("a"), &next).await {
        Ok((Released::NotHeld, None)) => {}
        other => panic!("{what}: {other:?}"),
    }
}

#[tokio::test]
async fn a_lock_of_a_later_version_is_left_as_it_is_and_said_to_be_one() {
    let server = Server::start();
    let (plain, watching) = (open(&server), open(&server));
    let mut raw = server.client();
    let _watch = watching.watch(&claim("a").key).await.unwrap();
    // What a guarded vote notes of the server itself is no part of the lock.
    let standing = plain.standing().await.unwrap();
    assert!(plain.vouch(&standing.quarantine, long()).await.unwrap());
    for (scene, commands) in scenes() {
        for command in &commands {
            let words = command.iter().map(String::as_str).collect::<Vec<_>>();
            raw.command::<redis::Value>(&words);
        }
        let before = dump(&mut raw);
        for backend in [&plain, &watching] {
            for (what, outcome) in asks(backend).await {
                is_other_version(&outcome.expect_err(&format!("{scene}: {what}")), &what);
                unchanged(&mut raw, &before, &format!("{scene}: {what}"));
            }
            for (what, outcome) in counts(backend).await {
                is_other_version(&outcome.expect_err(&format!("{scene}: {what}")), what);
            }
            unchanged(&mut raw, &before, scene);
            holds_nothing(backend, scene).await;
            unchanged(&mut raw, &before, scene);
        }
        // One that begins to watch asks to be told of releases.
        drop(open(&server).watch(&claim("a").key).await);
        unchanged(&mut raw, &before, scene);
        for key in before.keys().filter(|key| key.starts_with(LOCK)) {
            raw.command::<()>(&["DEL", key]);
        }
    }
}

/// A client of a later version joins while a lease of this version is held: it may write the state anew.
#[tokio::test]
async fn a_lease_whose_state_becomes_one_of_a_later_version_harms_no_holder_after_it() {
    let server = Server::start();
    for watches in [false, true] {
        let backend = open(&server);
        let mut raw = server.client();
        let held = claim("a");
        let _watch = if watches { Some(backend.watch(&held.key).await.unwrap()) } else { None };
        granted(&backend, &held).await;
        raw.command::<()>(&["SET", STATE, "v2 theirs", "PX", "3600000"]);
        // The lease is its owner's still, so both may prolong or end it. What they must not do is to write a state.
        let renewal = backend.renew(&Renew::new(held.clone(), long())).await;
        assert!(!matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
        assert_eq!(raw.command::<String>(&["GET", STATE]), "v2 theirs");
        // Then the lease ends, and an owner of the other version has the lock.
        raw.command::<()>(&["SET", LOCK, OTHER, "PX", "60000"]);
        let before = dump(&mut raw);
        holds_nothing(&backend, "after its lease").await;
        let renewal = backend.renew(&Renew::new(held.clone(), long())).await;
        assert!(matches!(renewal, Renewal::Lost), "{renewal:?}");
        assert_eq!(backend.release(&held).await.unwrap(), Released::NotHeld);
        unchanged(&mut raw, &before, "a lease that is over");
        raw.command::<()>(&["DEL", LOCK, STATE]);
    }
}

/// The last token that was given out by a grant of a minute ago, with a `-` after its clock.
fn past() -> u64 {
    floor().get() / 4 * 4 - 60 * 4_000_000
}

#[tokio::test]
async fn fields_that_are_not_known_are_passed_over() {
    let server = Server::start();
    let (plain, watching) = (open(&server), open(&server));
    let mut raw = server.client();
    let _watch = watching.watch(&claim("a").key).await.unwrap();
    for fields in [" z7", " z", " z7 y1,2 x=3", " Zw g12 z7", " z7 l", " iab z7"] {
        for backend in [&plain, &watching] {
            for mode in modes().into_iter().filter(|mode| !matches!(mode, Mode::Permits { .. })) {
                let latest = past();
                raw.command::<()>(&["SET", STATE, &format!("{}{fields}", state_after(latest))]);
                let held = claim("a").in_mode(mode);
                let grant = granted(backend, &held).await;
                assert!(grant.tokens.first().get() > latest, "{fields}: {mode:?}");
                assert!(matches!(
                    attempt(&open(&server), &claim("a")).await.unwrap(),
                    Attempt::Busy { .. }
                ));
                let after = raw.command::<String>(&["GET", STATE]);
                assert!(!after.contains(" z") && !after.contains(" Z"), "{fields}: {after}");
                let renewal = backend.renew(&Renew::new(held.clone(), long())).await;
                assert!(matches!(renewal, Renewal::Renewed { .. }), "{fields}: {renewal:?}");
                backend.release(&held).await.unwrap();
                raw.command::<()>(&["DEL", LOCK]);
            }
        }
    }
}

#[tokio::test]
async fn a_lease_whose_state_has_fields_that_are_not_known_is_its_owners() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let mut raw = server.client();
    let held = claim("a");
    let grant = granted(&one, &held).await;
    raw.command::<()>(&["APPEND", STATE, " z7"]);
    // A request that is repeated is answered as it was, by the quick script and by the full one.
    assert_eq!(granted(&one, &held).await.tokens, grant.tokens);
    let watch = one.watch(&held.key).await.unwrap();
    assert_eq!(granted(&one, &held).await.tokens, grant.tokens);
    drop(watch);
    assert!(matches!(attempt(&other, &claim("a")).await.unwrap(), Attempt::Busy { .. }));
    assert!(matches!(one.release(&held).await.unwrap(), Released::Freed { .. }));
}

/// The digits of the clock and the one after them.
#[tokio::test]
async fn the_highest_token_is_four_times_the_clock_less_the_digit() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    // So far ahead that the next token is the one after it.
    let ahead = floor().get() + 4 * 3_600_000_000;
    for latest in ahead..ahead + 4 {
        for watches in [false, true] {
            raw.command::<()>(&["SET", STATE, &state_after(latest)]);
            let held = claim("a");
            let _watch = if watches { Some(backend.watch(&held.key).await.unwrap()) } else { None };
            assert_eq!(granted(&backend, &held).await.tokens.first().get(), latest + 1);
            backend.release(&held).await.unwrap();
        }
    }
}

/// Zeros instead of a clock, or one before 2020, from which no token can be.
#[tokio::test]
async fn a_state_of_no_grant_says_nothing_of_tokens() {
    let server = Server::start();
    let mut raw = server.client();
    for clock in ["0000000000000000", "1111111111111111", "1577836800000000"] {
        for flag in ["", "w"] {
            let (backend, held) = (open(&server), claim("a"));
            raw.command::<()>(&["SET", STATE, &format!("{flag}{clock}-{:016}", 0)]);
            let before = floor().get() - 4;
            let token = granted(&backend, &held).await.tokens.first().get();
            assert!(token >= before && token <= floor().get(), "{token}");
            backend.release(&held).await.unwrap();
        }
    }
}

/// Values that look like a state to one that does not look closely.
#[tokio::test]
async fn what_is_nearly_a_state_is_none() {
    let server = Server::start();
    let (plain, watching) = (open(&server), open(&server));
    let mut raw = server.client();
    let _watch = watching.watch(&claim("a").key).await.unwrap();
    let good = state_after(past());
    granted(&plain, &claim("b")).await;
    for odd in [
        "1".repeat(16) + &" ".repeat(20),
        good[..32].to_owned(),
        good.replace('-', "x"),
        format!("{}4{NAMED}", &good[..16]),
        format!("0{good}"),
        format!(" {good}"),
    ] {
        raw.command::<()>(&["SET", STATE, &odd]);
        for backend in [&plain, &watching] {
            let error = attempt(backend, &claim("a")).await.expect_err(&odd);
            assert_eq!(error.kind(), ErrorKind::ForeignKey, "{odd}: {error}");
            let request = Acquire::new(claim("a"), long());
            let error = backend.vote(&Ballot::new(request, floor())).await.expect_err(&odd);
            assert_eq!(error.kind(), ErrorKind::ForeignKey, "{odd}: {error}");
            assert!(!raw.command::<bool>(&["EXISTS", LOCK]), "{odd}");
            assert_eq!(raw.command::<String>(&["GET", STATE]), odd);
        }
    }
}

/// A script looks at the length of a state, how it begins and its sign. Damage elsewhere does not outlive a grant.
#[tokio::test]
async fn a_damaged_state_is_replaced_by_the_next_grant() {
    let server = Server::start();
    let mut raw = server.client();
    let good = state_after(past());
    let odd_owner = format!("{}-{}", &good[..16], NAMED.replace('0', "g"));
    let odd_clock = format!("{}y{}", &good[..12], &good[13..]);
    for damaged in [odd_owner, odd_clock] {
        let backend = open(&server);
        raw.command::<()>(&["SET", STATE, &damaged]);
        let (held, before) = (claim("a"), floor());
        let request = Acquire::new(held.clone(), long()).reserving(8.try_into().unwrap());
        let Attempt::Granted(grant) = backend.try_acquire(&request).await.unwrap() else {
            panic!("the lock is free")
        };
        assert!(grant.tokens.first() >= before, "{damaged}: {grant:?}");
        backend.release(&held).await.unwrap();
        let state = raw.command::<String>(&["GET", STATE]);
        assert!(state[..16].bytes().all(|byte| byte.is_ascii_digit()), "{state}");
        assert!(held.owner.expose().starts_with(&state.as_bytes()[17..]), "{state}");
    }
}

async fn holder(backend: &RedisBackend) -> Inspection {
    backend.inspect(&claim("a").key).await.unwrap()
}

#[tokio::test]
async fn the_state_names_the_owner_and_its_token() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    let latest = past();
    let state =
        |owner: &str, fields: &str| format!("{}{owner}{fields}", &state_after(latest)[..17]);
    for (owner, fields, token) in [
        (NAMED, "", Some(latest)),
        // The holder has reserved more since it was granted the lock.
        (NAMED, " g123456", Some(123_456)),
        // Another owner had the lock: a client of another kind has it now.
        ("fedcba9876543210", "", None),
    ] {
        for mark in ["", "w"] {
            raw.command::<()>(&["SET", LOCK, &format!("{OTHER}{mark}"), "PX", "60000"]);
            raw.command::<()>(&["SET", STATE, &state(owner, fields)]);
            let holders = holder(&backend).await.holders;
            let [holder] = holders.as_slice() else { panic!("{holders:?}") };
            assert_eq!(holder.token.map(FencingToken::get), token, "{owner}{fields}{mark}");
        }
    }
}

/// A lock that an owner of ours holds, whose state names an inbox and a token, and says that clients listen.
#[tokio::test]
async fn inbox_listeners_and_token_of_a_grant_outlast_its_renewal() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let mut raw = server.client();
    let mut ears = ears(&server, &["lock:inbox:ab", "lock:{a}:released@0"]);
    let held = claim("a");
    let grant = granted(&one, &held).await;
    let state = raw.command::<String>(&["GET", STATE]);
    raw.command::<()>(&["SET", STATE, &format!("w{state} iab l g77"), "PX", "3600000"]);
    raw.command::<()>(&["SETRANGE", LOCK, "32", "w"]);
    // It asks for more tokens, by the script that reads the state and writes it again.
    let renew = Renew::new(held.clone(), long()).reserving(8);
    assert!(matches!(one.renew(&renew).await, Renewal::Renewed { tokens: Some(_), .. }));
    let after = raw.command::<String>(&["GET", STATE]);
    assert!(after.starts_with('w') && after.ends_with(" l g77"), "{after}");
    assert_eq!(granted(&one, &held).await.tokens.first().get(), 77);
    assert!(grant.tokens.first().get() > 77);
    // The first claim that waits is told to that inbox, if the state names one still.
    raw.command::<()>(&["SET", STATE, &format!("w{state} iab l g77"), "PX", "3600000"]);
    let waiter = Waiter::queue(&other, claim("a")).await;
    assert_eq!(heard(&mut ears), ["lock:inbox:ab", &format!("wanted {LOCK}")]);
    waiter.release().await;
    // The release is told to all that listen.
    assert!(matches!(one.release(&held).await.unwrap(), Released::Freed { contended: true }));
    assert_eq!(heard(&mut ears), ["lock:{a}:released@0", "released"]);
}

/// The flag sends clients to the script that looks at the queue, and goes when there is none.
#[tokio::test]
async fn the_flag_stays_while_clients_wait_or_listen_and_no_longer() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    let latest = past();
    for (fields, heard, stays) in [("", false, false), (" l", true, true), (" l", false, false)] {
        let ears = heard.then(|| ears(&server, &["lock:{a}:released@0"]));
        raw.command::<()>(&["SET", STATE, &format!("w{}{fields}", state_after(latest))]);
        let held = claim("a");
        assert!(granted(&backend, &held).await.tokens.first().get() > latest);
        let is_marked = raw.command::<usize>(&["STRLEN", LOCK]) == 33;
        assert_eq!(is_marked, !fields.is_empty(), "{fields}");
        backend.release(&held).await.unwrap();
        let after = raw.command::<String>(&["GET", STATE]);
        assert_eq!((after.starts_with('w'), after.ends_with(" l")), (stays, stays), "{after}");
        drop(ears);
        raw.command::<()>(&["DEL", STATE]);
    }
}

/// A subscriber that is no client of the library.
fn ears(server: &Server, channels: &[&str]) -> resp::Client {
    let addr = ([127, 0, 0, 1], server.port()).into();
    let mut ears = resp::Client::connect(addr, lock_tests::SOON).unwrap();
    ears.send(&[&["SUBSCRIBE"], channels].concat()).unwrap();
    for _ in channels {
        ears.receive().unwrap();
    }
    ears
}

/// The channel and the text of the next message.
fn heard(ears: &mut resp::Client) -> [String; 2] {
    let message = ears.receive().unwrap();
    [1, 2].map(|at| message.array()[at].text())
}

/// A range ends with the token of its own grant, whatever the state said before.
#[tokio::test]
async fn a_range_begins_after_what_the_state_gave_out() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    let latest = floor().get() - 40;
    raw.command::<()>(&["SET", STATE, &format!("{} z7", state_after(latest))]);
    let request = Acquire::new(claim("a"), long()).reserving(NonZeroU32::MAX);
    let Attempt::Granted(grant) = soon(backend.try_acquire(&request)).await.unwrap() else {
        panic!("not granted");
    };
    // No more than there are in ten milliseconds.
    let most = grant.tokens.last().get() - 39_999;
    assert_eq!(grant.tokens.first().get(), most.max(latest + 1));
    let renew = Renew::new(Claim::exclusive(request.claim.key, request.claim.owner), long());
    let Renewal::Renewed { tokens: Some(more), .. } = backend.renew(&renew.reserving(8)).await
    else {
        panic!("no further tokens");
    };
    assert!(more.first() > grant.tokens.last());
}
