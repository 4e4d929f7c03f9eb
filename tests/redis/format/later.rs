//! How this version treats a lock that a later version stored.

use std::collections::BTreeMap;

use lock_core::{
    Acquire, Backend, Ballot, Convert, ConvertBackend, Error, ErrorKind, InspectBackend,
    Membership, Mode, PermitBackend, QuorumNode, Released, Renew, Renewal, Resize, Terms,
};
use lock_redis::RedisBackend;

use super::{LOCK, OTHER, STATE, floor, modes, open};
use crate::support::{Client, Server, claim, granted, long};

/// The value of a shared lock in this version.
const SHARED: &str = "*shared                         ";

/// Every key: its type, its value and its rest of life, in ms.
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

/// The keys are unchanged, and live no longer. The state of a free lock may have lost its time to live.
fn unchanged(raw: &mut Client, before: &BTreeMap<String, (String, Vec<u8>, i64)>, after: &str) {
    let now = dump(raw);
    assert!(now.keys().eq(before.keys()), "{after}: {:?}", now.keys());
    for (key, (kind, value, left)) in before {
        let (kind_now, value_now, left_now) = &now[key];
        assert_eq!((kind_now, value_now), (kind, value), "{after}: {key}");
        let stays = *left_now == -1 && key == STATE && !before.contains_key(LOCK);
        let as_long = left_now <= left && left_now.signum() == left.signum();
        assert!(as_long || stays, "{after}: {key}");
    }
}

/// The possible keys of a server of the other version, for a lock that is free, held or waited for.
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
        ("held in some other way", vec![state("v2 x"), lock("v2:another")]),
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

fn terms() -> Terms {
    Terms::new(Membership::of(["a", "b", "c"]), long())
}

/// Requests the lock in every possible way.
async fn asks(backend: &RedisBackend) -> Vec<(String, Result<String, Error>)> {
    let standing = backend.standing(&terms()).await.unwrap();
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
            for ballot in [ballot.clone(), ballot.expecting(standing.clone())] {
                let outcome = backend.vote(&ballot).await.map(|it| format!("{it:?}"));
                note(format!("a vote for {:?}, {mode:?}", ballot.expects), outcome);
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
        let outcome = backend.try_acquire_all(&requests).await;
        note("together".to_owned(), outcome.map(|it| format!("{it:?}")));
    }
    outcomes
}

/// Reads the number of permits, and changes it.
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

/// Renews and releases leases that are not held.
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
    match backend.release_and_requeue(&claim("a"), &next).await {
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
    // The record of the standing belongs to the server and not to the lock.
    let standing = plain.standing(&terms()).await.unwrap();
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
        // A client that starts to watch asks for messages of releases.
        drop(open(&server).watch(&claim("a").key).await);
        unchanged(&mut raw, &before, scene);
        for key in before.keys().filter(|key| key.starts_with(LOCK)) {
            raw.command::<()>(&["DEL", key]);
        }
    }
}

/// A client of a later version joins while a lease of this version is held: it may rewrite the state.
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
        // The lease still belongs to its owner, so both versions may prolong or end it. But this version must not
        // write a state.
        let renewal = backend.renew(&Renew::new(held.clone(), long())).await;
        assert!(!matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
        assert_eq!(raw.command::<String>(&["GET", STATE]), "v2 theirs");
        // Then the lease ends, and an owner of the other version gets the lock.
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
