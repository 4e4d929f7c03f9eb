//! Votes for a quorum: their tokens, the owner in the way, and the confirmation.

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::{
    Acquire, Backend, Ballot, Claim, ErrorKind, FencingToken, Grant, Key, Membership, Mode,
    OwnerTag, OwnerToken, QuorumNode, Terms, Vote,
};
use lock_redis::RedisBackend;

use crate::support::{
    Server, Waiter, attempt, calls, claim, claim_of, granted, long, millis, open, state_after,
};

const LOCK: &str = "lock:{a}";
const FENCE: &str = "lock:{a}:state";
const HOUR: u64 = 3600 * 4_000_000;
/// The highest number that a double distinguishes from the next.
const MOST: u64 = (1 << 53) - 1;

fn token(number: u64) -> FencingToken {
    FencingToken::new(number)
}

/// The time of a client's clock.
fn now() -> u64 {
    FencingToken::floor(SystemTime::now().duration_since(UNIX_EPOCH).unwrap()).get()
}

fn ballot(claim: &Claim, floor: u64) -> Ballot {
    Ballot::new(Acquire::new(claim.clone(), long()), token(floor))
}

async fn voted(backend: &RedisBackend, ballot: &Ballot) -> Grant {
    match backend.vote(ballot).await.unwrap() {
        Vote::Granted(grant) => grant,
        other => panic!("expected a vote, got {other:?}"),
    }
}

/// The tokens of a vote for this many.
async fn numbers(backend: &RedisBackend, claim: &Claim, floor: u64, count: u32) -> (u64, u64) {
    let mut ballot = ballot(claim, floor);
    ballot.request.tokens = NonZeroU32::new(count).unwrap();
    let range = voted(backend, &ballot).await.tokens;
    (range.first().get(), range.last().get())
}

async fn refused(backend: &RedisBackend, claim: &Claim) -> (Option<OwnerTag>, Option<Duration>) {
    match backend.vote(&ballot(claim, now())).await.unwrap() {
        Vote::Busy { holder, retry_after } => (holder, retry_after),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[tokio::test]
async fn tokens_end_with_the_floor_and_never_go_back() {
    let server = Server::start();
    let backend = open(&server);
    let take = async |floor, count| {
        let claim = claim("a");
        let numbers = numbers(&backend, &claim, floor, count).await;
        backend.release(&claim).await.unwrap();
        numbers
    };
    let floor = now();
    // Nothing is known of earlier tokens, so there is no range.
    assert_eq!(take(floor, 50).await, (floor, floor));
    assert_eq!(take(floor + 10, 4).await, (floor + 7, floor + 10));
    assert_eq!(take(floor + 12, 50).await, (floor + 11, floor + 12));
    for behind in [0, floor, floor + 12] {
        let (first, last) = take(behind, 50).await;
        assert!(first == last && first > floor + 12, "{behind}: {first} {last}");
    }
    assert_eq!(take(0, 50).await, (floor + 16, floor + 16));
    // The server's own numbers go on above them.
    let own = granted(&backend, &claim("a")).await.tokens;
    assert!(own.first().get() > floor + 16);
}

#[tokio::test]
async fn a_floor_is_bounded_and_what_is_forgotten_never_comes_again() {
    let server = Server::start();
    let (backend, mut raw) = (open(&server), server.client());
    for (wild, name) in [(u64::MAX, "a"), (MOST, "b"), (now() + 2 * HOUR, "c")] {
        let before = now();
        let (first, last) = numbers(&backend, &claim(name), wild, 5).await;
        assert!(first == last && (before + HOUR - 4..=now() + HOUR).contains(&last), "{last}");
    }
    // The state is kept until the clock has caught up, and an hour more.
    let keep: u64 = raw.command(&["PTTL", FENCE]);
    assert!(keep > 2 * 3_600_000, "{keep}");
    let (_, last) = numbers(&backend, &claim("d"), now() - 2 * HOUR, 1).await;
    assert!(last > now() - HOUR - 40_000_000 && last <= now() - HOUR, "{last}");
}

#[tokio::test]
async fn numbers_are_exact_up_to_the_last() {
    let server = Server::start();
    let (backend, mut raw) = (open(&server), server.client());
    for latest in [MOST - 3, MOST - 2] {
        raw.command::<()>(&["DEL", LOCK]);
        raw.command::<()>(&["SET", FENCE, &state_after(latest)]);
        let held = claim("a");
        assert_eq!(numbers(&backend, &held, latest, 9).await, (latest + 1, latest + 1));
        for (number, is_confirmed) in [(latest, false), (latest + 1, true), (MOST, true)] {
            assert_eq!(backend.confirm(&held, token(number)).await.unwrap(), is_confirmed);
        }
        let state = raw.command::<String>(&["GET", FENCE]);
        assert!(state.starts_with(&state_after(MOST)[..17]), "{state}");
        assert!(state.ends_with(&format!(" g{}", latest + 1)), "{state}");
        backend.release(&held).await.unwrap();
        let error = backend.vote(&ballot(&claim("a"), now())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ForeignKey, "{error}");
        assert!(error.to_string().contains("run out"), "{error}");
    }
    let error = backend.confirm(&claim("a"), token(MOST + 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

#[tokio::test]
async fn a_token_is_confirmed_in_every_mode_and_changes_nothing_else() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let group = OwnerToken::from_bytes([9; 16]);
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Upgradable, Mode::Joint { group }] {
        let watch = one.watch(&Key::new("a").unwrap()).await.unwrap();
        let held = claim("a").in_mode(mode);
        let floor = now();
        let (_, last) = numbers(&one, &held, floor, 3).await;
        let raised = token(last + 1_000_000);
        assert!(other.confirm(&held, raised).await.unwrap(), "{mode:?}");
        assert!(other.confirm(&held, raised).await.unwrap(), "{mode:?}: once more");
        assert!(!other.confirm(&held, token(last)).await.unwrap(), "{mode:?}: it went on");
        assert!(!other.confirm(&claim("a").in_mode(mode), raised).await.unwrap(), "{mode:?}");
        assert_eq!(numbers(&other, &held, now(), 3).await.1, last, "{mode:?}: its own tokens");
        one.release(&held).await.unwrap();
        assert!(!other.confirm(&held, raised).await.unwrap(), "{mode:?}: it is over");
        // Above the clock by a quarter of a second, which the next grant takes into account.
        let next = claim("a");
        assert_eq!(numbers(&other, &next, 0, 3).await, (raised.get() + 1, raised.get() + 1));
        other.release(&next).await.unwrap();
        server.client().command::<()>(&["DEL", FENCE]);
        drop(watch);
    }
}

/// Once for the quick script, and once for the full one, which serves a lock that clients watch.
#[tokio::test]
async fn a_repeated_vote_returns_its_own_tokens_and_not_those_of_a_confirmed_holder() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    for is_watched in [false, true] {
        let key = Key::new("a").unwrap();
        let watch = if is_watched { Some(one.watch(&key).await.unwrap()) } else { None };
        let earlier = claim("a");
        let (_, last) = numbers(&one, &earlier, now(), 3).await;
        assert!(one.confirm(&earlier, token(last + 1)).await.unwrap());
        // Its lease is over.
        server.client().command::<()>(&["DEL", LOCK]);
        let next = claim("a");
        let granted = numbers(&other, &next, now(), 3).await;
        assert!(granted.0 > last + 1, "watched: {is_watched}");
        let repeated = numbers(&other, &next, now(), 3).await;
        assert_eq!(repeated.1, granted.1, "watched: {is_watched}");
        other.release(&next).await.unwrap();
        drop(watch);
    }
}

/// The quick script decides as long as no claim waits: it keeps the flag of the state, and the mark of the lock.
#[tokio::test]
async fn a_lock_that_clients_watch_is_voted_for_in_one_call_and_every_release_is_heard() {
    let server = Server::start();
    let (one, other, mut raw) = (open(&server), open(&server), server.client());
    let mut watch = other.watch(&Key::new("a").unwrap()).await.unwrap();
    // There is no state yet that names a token.
    let first = claim("a");
    let mut last = numbers(&one, &first, now(), 1).await.1;
    one.release(&first).await.unwrap();
    assert_eq!(crate::support::soon(watch.next()).await, Some(lock_core::Hint::Released));
    for voter in [&one, &other, &one, &other] {
        let held = claim("a");
        let before = calls(&mut raw, "evalsha");
        let (low, high) = numbers(voter, &held, now(), 3).await;
        assert!(low > last && high == low + 2, "{last} {low} {high}");
        last = high;
        assert_eq!(refused(&one, &claim("a")).await.0, Some(held.owner.tag()));
        assert_eq!(calls(&mut raw, "evalsha"), before + 2);
        let lock = raw.command::<String>(&["GET", LOCK]);
        assert!(lock.len() == 33 && lock.ends_with('w'), "{lock}");
        let state = raw.command::<String>(&["GET", FENCE]);
        assert!(state.starts_with('w') && state.ends_with(" l"), "{state}");
        assert_eq!(state.contains(" i"), std::ptr::eq(voter, &other), "{state}");
        voter.release(&held).await.unwrap();
        assert_eq!(crate::support::soon(watch.next()).await, Some(lock_core::Hint::Released));
    }
    // A claim that waits is served before a ballot.
    let held = claim("a");
    voted(&one, &ballot(&held, now())).await;
    let waiter = Waiter::queue(&other, claim("a")).await;
    one.release(&held).await.unwrap();
    assert_eq!(refused(&one, &claim("a")).await.0, Some(waiter.claim().owner.tag()));
}

#[tokio::test]
async fn what_was_confirmed_is_kept_until_the_clock_has_caught_up() {
    let server = Server::start();
    let (backend, mut raw) = (open(&server), server.client());
    let mut kept = || raw.command::<u64>(&["PTTL", FENCE]);
    let held = claim("a");
    voted(&backend, &ballot(&held, now())).await;
    // Below the clock, the state is kept for as long as the lease, and an hour more, as before.
    let before = kept();
    assert!(backend.confirm(&held, token(now() - 1)).await.unwrap());
    let after = kept();
    assert!(after > 3_600_000 && after.abs_diff(before) < 5_000, "{before} {after}");
    assert!(backend.confirm(&held, token(now() + HOUR)).await.unwrap());
    let after = kept();
    assert!(after.abs_diff(before + 3_600_000) < 5_000, "{before} {after}");
}

#[tokio::test]
async fn a_holder_that_watches_hears_after_a_token_was_confirmed() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let held = claim("a");
    let mut watch = holder.watch(&held.key).await.unwrap();
    let grant = voted(&holder, &ballot(&held, now())).await;
    assert!(holder.confirm(&held, token(grant.tokens.last().get() + 5)).await.unwrap());
    let _waiter = Waiter::queue(&other, claim("a")).await;
    assert_eq!(crate::support::soon(watch.next()).await, Some(lock_core::Hint::Contended));
}

#[tokio::test]
async fn a_refusal_names_the_owner_of_the_longest_lease() {
    let server = Server::start();
    let backend = open(&server);
    let (short, last) = (claim("a").in_mode(Mode::Shared), claim("a").in_mode(Mode::Upgradable));
    for (reader, ttl) in [(&short, millis(20_000)), (&last, long())] {
        let ballot = Ballot::new(Acquire::new(reader.clone(), ttl), token(now()));
        voted(&backend, &ballot).await;
    }
    let (holder, left) = refused(&backend, &claim("a")).await;
    assert_eq!(holder, Some(last.owner.tag()));
    assert!(left.is_some_and(|left| left > Duration::from_secs(50)));
}

#[tokio::test]
async fn votes_respect_the_queue_and_take_no_place_in_it() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let held = claim("a");
    granted(&holder, &held).await;
    let waiter = Waiter::queue(&other, claim("a")).await;
    let watch = holder.watch(&held.key).await.unwrap();
    let mut late = ballot(&claim("a"), now());
    late.request = late.request.queued();
    assert!(matches!(holder.vote(&late).await.unwrap(), Vote::Busy { .. }));
    server.client().command::<()>(&["DEL", LOCK]);
    // The first claim in the queue gets the lock, in the step that refuses the vote.
    let Vote::Busy { holder: first, .. } = holder.vote(&late).await.unwrap() else { panic!() };
    assert_eq!(first, Some(waiter.claim().owner.tag()));
    waiter.asks_and_has().await;
    assert!(!server.client().command::<bool>(&["EXISTS", "lock:{a}:queue"]));
    drop(watch);
}

#[tokio::test]
async fn a_vote_gives_up_the_place_that_its_claim_had() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    granted(&holder, &claim("a")).await;
    let waiter = Waiter::queue(&other, claim("a")).await;
    assert!(matches!(other.vote(&ballot(waiter.claim(), now())).await.unwrap(), Vote::Busy { .. }));
    assert!(!server.client().command::<bool>(&["EXISTS", "lock:{a}:queue"]));
}

#[tokio::test]
async fn foreign_locks_are_in_the_way_without_a_name() {
    let server = Server::start();
    let (backend, mut raw) = (open(&server), server.client());
    let key = Key::raw("job").unwrap();
    for foreign in
        ["redsync", "0123456789abcdef0123456789abcdeg", "*0123456789abcdef0123456789abcdef"]
    {
        raw.command::<()>(&["SET", "job", foreign, "PX", "60000"]);
        for mode in [Mode::Exclusive, Mode::Shared] {
            let (holder, left) = refused(&backend, &claim_of(key.clone()).in_mode(mode)).await;
            assert_eq!(holder, None, "{foreign}");
            assert!(left.is_some_and(|left| left > Duration::from_secs(50)));
        }
    }
    raw.command::<()>(&["SET", "job", "for ever"]);
    assert_eq!(refused(&backend, &claim_of(key.clone())).await, (None, None));
    raw.command::<()>(&["DEL", "job"]);
    voted(&backend, &ballot(&claim_of(key), now())).await;
    assert!(!raw.command::<bool>(&["SET", "job", "redsync", "NX"]));
}

#[tokio::test]
async fn votes_go_on_when_the_server_has_forgotten_the_scripts() {
    let server = Server::start();
    let backend = open(&server);
    let held = claim("a");
    let first = voted(&backend, &ballot(&held, now())).await;
    server.client().command::<()>(&["SCRIPT", "FLUSH"]);
    assert_eq!(voted(&backend, &ballot(&held, now())).await.tokens, first.tokens);
    server.client().command::<()>(&["SCRIPT", "FLUSH"]);
    assert!(backend.confirm(&held, first.tokens.last()).await.unwrap());
}

#[tokio::test]
async fn nothing_is_half_granted_for_want_of_memory() {
    let server = Server::start();
    let (backend, mut raw) = (open(&server), server.client());
    let held = claim("b");
    voted(&backend, &ballot(&held, now())).await;
    raw.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    for mode in [Mode::Exclusive, Mode::Shared] {
        let error = backend.vote(&ballot(&claim("a").in_mode(mode), now())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    }
    assert!(!raw.command::<bool>(&["EXISTS", LOCK]));
    // A look at the standing, too, is refused before the server writes anything.
    let terms = Terms::new(Membership::of(["a", "b", "c"]), long());
    let error = backend.standing(&terms).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    raw.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(!raw.command::<bool>(&["EXISTS", "lock:node@0"]));
    assert!(matches!(
        attempt(&backend, &claim("a")).await.unwrap(),
        lock_core::AcquireOutcome::Granted(_)
    ));
}
