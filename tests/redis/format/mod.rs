//! The format in which locks are stored: how it treats a later version, and the meaning of each field.

mod later;

use std::num::NonZeroU32;
use std::time::{SystemTime, UNIX_EPOCH};

use lock_core::{
    Acquire, AcquireOutcome, Backend, Ballot, Claim, ErrorKind, FencingToken, InspectBackend,
    Inspection, Mode, OwnerToken, QuorumNode, Released, Renew, Renewal,
};
use lock_redis::RedisBackend;
use lock_tests::resp;

use crate::support::{Server, Waiter, attempt, claim, granted, long, open, soon, state_after};

const LOCK: &str = "lock:{a}";
const STATE: &str = "lock:{a}:state";
/// An owner of the other version, and its name in the state of this version.
const OTHER: &str = "0123456789abcdef0123456789abcdef";
const NAMED: &str = "0123456789abcdef";
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

fn floor() -> FencingToken {
    FencingToken::floor(SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
}

/// The last token of a grant from a minute ago, with a `-` after its clock.
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
                    AcquireOutcome::Busy { .. }
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
    // A repeated request gets the answer of the first one, from the quick script and from the full one.
    assert_eq!(granted(&one, &held).await.tokens, grant.tokens);
    let watch = one.watch(&held.key).await.unwrap();
    assert_eq!(granted(&one, &held).await.tokens, grant.tokens);
    drop(watch);
    assert!(matches!(attempt(&other, &claim("a")).await.unwrap(), AcquireOutcome::Busy { .. }));
    assert!(matches!(one.release(&held).await.unwrap(), Released::Freed { .. }));
}

/// The digits of the clock and the digit after them.
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

/// Zeros instead of a clock, or a clock before 2020, from which no token can come.
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

/// Values that look like a state at first sight.
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
            // Other programs may have written the value: a script gives it no time to live.
            assert!(odd.contains('-') || raw.command::<i64>(&["PTTL", STATE]) == -1, "{odd}");
        }
    }
}

/// A script checks the length of a state, its beginning and its sign. Damage elsewhere does not outlive a grant.
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
        let AcquireOutcome::Granted(grant) = backend.try_acquire(&request).await.unwrap() else {
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
        // The holder has reserved more tokens since its grant.
        (NAMED, " g123456", Some(123_456)),
        // Another owner had the lock: a foreign client has it now.
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

/// A lock that an owner of this library holds, whose state names an inbox and a token, and says that clients
/// listen.
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
    // The owner asks for more tokens, by the script that reads and rewrites the state.
    let renew = Renew::new(held.clone(), long()).reserving(8);
    assert!(matches!(one.renew(&renew).await, Renewal::Renewed { tokens: Some(_), .. }));
    let after = raw.command::<String>(&["GET", STATE]);
    assert!(after.starts_with('w') && after.ends_with(" l g77"), "{after}");
    assert_eq!(granted(&one, &held).await.tokens.first().get(), 77);
    assert!(grant.tokens.first().get() > 77);
    // That inbox hears of the first waiting claim, if the state still names it.
    raw.command::<()>(&["SET", STATE, &format!("w{state} iab l g77"), "PX", "3600000"]);
    let waiter = Waiter::queue(&other, claim("a")).await;
    assert_eq!(heard(&mut ears), ["lock:inbox:ab", &format!("wanted {LOCK}")]);
    waiter.release().await;
    // All listeners hear of the release.
    assert!(matches!(one.release(&held).await.unwrap(), Released::Freed { told: 1.. }));
    assert_eq!(heard(&mut ears), ["lock:{a}:released@0", "released"]);
}

/// The flag sends clients to the script that looks at the queue, and goes when the queue is empty.
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

/// A subscriber that is no client of this library.
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

/// A range ends with the token of its own grant, whatever the previous state said.
#[tokio::test]
async fn a_range_begins_after_what_the_state_gave_out() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    let latest = floor().get() - 40;
    raw.command::<()>(&["SET", STATE, &format!("{} z7", state_after(latest))]);
    let request = Acquire::new(claim("a"), long()).reserving(NonZeroU32::MAX);
    let AcquireOutcome::Granted(grant) = soon(backend.try_acquire(&request)).await.unwrap() else {
        panic!("not granted");
    };
    // At most as many as there are in ten milliseconds.
    let most = grant.tokens.last().get() - 39_999;
    assert_eq!(grant.tokens.first().get(), most.max(latest + 1));
    let renew = Renew::new(Claim::exclusive(request.claim.key, request.claim.owner), long());
    let Renewal::Renewed { tokens: Some(more), .. } = backend.renew(&renew.reserving(8)).await
    else {
        panic!("no further tokens");
    };
    assert!(more.first() > grant.tokens.last());
}
