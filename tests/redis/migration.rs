//! Locks whose slot a cluster moves from one node to another.
//!
//! The library does not route requests. So each test has a client of the node that the slot leaves, and a client of
//! the node that gets it, as one client that follows redirections has both. These servers answer `TRYAGAIN` to a
//! script that names several keys of which some are absent, from version 7 on.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Contention, ErrorKind, FencingToken, Hint, Mode,
    Released, Renew, Renewal,
};
use lock_redis::RedisBackend;
use lock_sync::{LockError, Locks, MutexGuard};
use lock_tests::{SOON, eventually_async};

use crate::support::{Cluster, Waiter, attempt, claim, granted, long, millis, soon};

const LOCK: &str = "lock:{a}";
const STATE: &str = "lock:{a}:state";
const QUEUE: &str = "lock:{a}:queue";
const PLACES: &str = "lock:{a}:places";

async fn renewed(backend: &RedisBackend, claim: &Claim) {
    let renewal = backend.renew(&Renew::new(claim.clone(), long())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
}

/// A renewal that tells nothing about the lease, and does not say that it is lost.
async fn not_told(backend: &RedisBackend, claim: &Claim) -> ErrorKind {
    match backend.renew(&Renew::new(claim.clone(), long())).await {
        Renewal::Unknown(error) => error.kind(),
        other => panic!("{other:?}"),
    }
}

async fn freed(backend: &RedisBackend, claim: &Claim) {
    let released = backend.release(claim).await.unwrap();
    assert!(matches!(released, Released::Freed { .. }), "{released:?}");
}

/// Other owners ask both nodes, and get nothing.
async fn no_other_gets_in(clients: [&RedisBackend; 2]) {
    for backend in clients {
        for mode in [Mode::Exclusive, Mode::Shared] {
            match attempt(backend, &claim("a").in_mode(mode)).await {
                Ok(AcquireOutcome::Granted(grant)) => panic!("there is a second holder: {grant:?}"),
                Ok(_) => {}
                Err(error) => {
                    let expected = [ErrorKind::NotReady, ErrorKind::Unsupported];
                    assert!(expected.contains(&error.kind()), "{error}");
                }
            }
        }
    }
}

/// A new owner takes the lock at the target and releases it. Returns its token.
async fn passes(target: &RedisBackend) -> FencingToken {
    let next = claim("a");
    let token = granted(target, &next).await.tokens.first();
    freed(target, &next).await;
    token
}

#[tokio::test]
async fn a_lease_is_renewed_and_released_at_the_source_while_its_key_is_there() {
    for (cluster, moves_state) in Cluster::start_two(LOCK).into_iter().zip([true, false]) {
        let (source, target) = cluster.clients().await;
        let held = claim("a");
        let token = granted(&source, &held).await.tokens.last();
        cluster.begin();
        if moves_state {
            cluster.move_keys(&[STATE]);
        }
        renewed(&source, &held).await;
        no_other_gets_in([&source, &target]).await;
        renewed(&source, &held).await;
        freed(&source, &held).await;
        assert!(!cluster.source.has(LOCK) && !cluster.target.has(LOCK));
        // The keys are in two places now, or in none. No node can tell whether the lock is free.
        no_other_gets_in([&source, &target]).await;
        assert!(!cluster.source.has(LOCK) && !cluster.target.has(LOCK));
        cluster.finish();
        assert!(passes(&target).await > token);
    }
}

#[tokio::test]
async fn a_lease_is_renewed_and_released_at_the_target_once_its_key_is_there() {
    for (cluster, keys) in Cluster::start_two(LOCK).into_iter().zip([&[LOCK][..], &[LOCK, STATE]]) {
        let (source, target) = cluster.clients().await;
        let held = claim("a");
        let token = granted(&source, &held).await.tokens.last();
        cluster.begin();
        cluster.move_keys(keys);
        // At the source the lease is not over: the key is only absent there.
        not_told(&source, &held).await;
        source.release(&held).await.unwrap_err();
        renewed(&target, &held).await;
        no_other_gets_in([&source, &target]).await;
        renewed(&target, &held).await;
        freed(&target, &held).await;
        no_other_gets_in([&source, &target]).await;
        assert!(!cluster.source.has(LOCK) && !cluster.target.has(LOCK));
        cluster.finish();
        assert!(passes(&target).await > token);
    }
}

/// The holder's client watches the lock, so it asks by scripts that name absent keys.
#[tokio::test]
async fn a_lease_that_is_watched_is_renewed_and_released_by_its_key_alone() {
    let cluster = Cluster::start(LOCK);
    let (source, target) = cluster.clients().await;
    let held = claim("a");
    let mut watches = Vec::new();
    for backend in [&source, &target] {
        watches.push(backend.watch(&held.key).await.unwrap());
    }
    granted(&source, &held).await;
    cluster.begin();
    let before = cluster.source.said_try_again();
    renewed(&source, &held).await;
    assert!(cluster.source.said_try_again() > before, "the keys that are missing were not missed");
    cluster.move_keys(&[LOCK, STATE]);
    let before = cluster.target.said_try_again();
    renewed(&target, &held).await;
    assert!(cluster.target.said_try_again() > before, "the keys that are missing were not missed");
    // A request for further tokens needs the state as well.
    let renewal = target.renew(&Renew::new(held.clone(), long()).reserving(8)).await;
    assert!(matches!(renewal, Renewal::Renewed { tokens: None, .. }), "{renewal:?}");
    no_other_gets_in([&source, &target]).await;
    freed(&target, &held).await;
    assert_eq!(soon(watches[1].next()).await, Some(Hint::Released));
    cluster.finish();
    passes(&target).await;
}

/// Two claims in the queue of a lock that was released while its slot was moved. They have to be served after that.
async fn served_after(cluster: &Cluster, line: [Waiter; 2], held: FencingToken) {
    let (source, target) = cluster.clients().await;
    for waiter in &line {
        let error = waiter.ask().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    }
    no_other_gets_in([&source, &target]).await;
    cluster.finish();
    // Their clients ask for these claims at the node that serves the slot now. The claims still have their places.
    let [first, second] = line.map(|waiter| waiter.request);
    let first = waiter_at(&target, first).await;
    let grant = first.asks_and_has().await;
    assert_eq!(grant.contention, Contention::Contended);
    assert!(grant.tokens.first() > held);
    let mut second = waiter_at(&cluster.at_target().await.build().unwrap(), second).await;
    assert!(matches!(second.ask().await.unwrap(), AcquireOutcome::Queued { .. }));
    no_other_gets_in([&source, &target]).await;
    first.release().await;
    let next = second.gets_it().await;
    assert!(next.tokens.first() > grant.tokens.last());
    no_other_gets_in([&source, &target]).await;
    second.release().await;
}

async fn waiter_at(backend: &RedisBackend, request: Acquire) -> Waiter {
    let watch = backend.watch(&request.claim.key).await.unwrap();
    Waiter { backend: backend.clone(), request, watch }
}

/// A cluster on which a client that hears of the lock holds it, and two claims wait for it.
async fn contended(cluster: &Cluster) -> (RedisBackend, Claim, [Waiter; 2], FencingToken) {
    let (holder, other) =
        (cluster.at_source().build().unwrap(), cluster.at_source().build().unwrap());
    let held = claim("a");
    let mut watch = holder.watch(&held.key).await.unwrap();
    let token = granted(&holder, &held).await.tokens.last();
    let line = [Waiter::queue(&holder, claim("a")).await, Waiter::queue(&other, claim("a")).await];
    assert_eq!(soon(watch.next()).await, Some(Hint::Contended));
    (holder, held, line, token)
}

#[tokio::test]
async fn a_lock_that_claims_wait_for_is_released_at_the_source_and_they_get_it_after_the_move() {
    let cluster = Cluster::start(LOCK);
    let (holder, held, mut line, token) = contended(&cluster).await;
    cluster.begin();
    cluster.move_keys(&[QUEUE, PLACES]);
    renewed(&holder, &held).await;
    no_other_gets_in([&holder, &cluster.at_target().await.build().unwrap()]).await;
    renewed(&holder, &held).await;
    freed(&holder, &held).await;
    // The claims cannot be served now. Their clients hear that the lock is free, and have to ask.
    while line[1].hint().await != Hint::Released {}
    assert!(!cluster.source.has(LOCK) && !cluster.target.has(LOCK));
    served_after(&cluster, line, token).await;
}

#[tokio::test]
async fn a_lock_that_claims_wait_for_is_released_at_the_target_and_they_get_it_after_the_move() {
    for (cluster, requeues) in Cluster::start_two(LOCK).into_iter().zip([false, true]) {
        let (holder, held, line, token) = contended(&cluster).await;
        let target = cluster.at_target().await.build().unwrap();
        let _watch = target.watch(&held.key).await.unwrap();
        cluster.begin();
        cluster.move_keys(&[LOCK, STATE]);
        not_told(&holder, &held).await;
        holder.release(&held).await.unwrap_err();
        renewed(&target, &held).await;
        no_other_gets_in([&holder, &target]).await;
        renewed(&target, &held).await;
        if requeues {
            let next = Acquire::new(claim("a"), long()).queued();
            let (released, attempt) = target.release_and_requeue(&held, &next).await.unwrap();
            assert!(matches!(released, Released::Freed { .. }), "{released:?}");
            assert_eq!(attempt, None, "a place in a queue that is elsewhere");
        } else {
            freed(&target, &held).await;
        }
        assert!(!cluster.source.has(LOCK) && !cluster.target.has(LOCK));
        served_after(&cluster, line, token).await;
    }
}

#[tokio::test]
async fn a_lock_that_is_shared_cannot_be_renewed_meanwhile_and_is_not_lost() {
    let cluster = Cluster::start(LOCK);
    let (source, target) = cluster.clients().await;
    let held = claim("a").in_mode(Mode::Shared);
    granted(&source, &held).await;
    cluster.begin();
    cluster.move_keys(&[LOCK, STATE]);
    assert_eq!(not_told(&target, &held).await, ErrorKind::NotReady);
    assert_eq!(target.release(&held).await.unwrap_err().kind(), ErrorKind::NotReady);
    let error = attempt(&target, &claim("a")).await;
    assert!(matches!(error, Ok(AcquireOutcome::Busy { .. }) | Err(_)), "{error:?}");
    cluster.finish();
    renewed(&target, &held).await;
    assert!(matches!(attempt(&target, &claim("a")).await.unwrap(), AcquireOutcome::Busy { .. }));
    freed(&target, &held).await;
    passes(&target).await;
}

/// A free lock leaves its state behind. Both nodes answer that they cannot tell.
#[tokio::test]
async fn a_free_lock_is_not_to_be_had_before_all_its_keys_are_in_one_place() {
    for (cluster, moves_state) in Cluster::start_two(LOCK).into_iter().zip([false, true]) {
        let (source, target) = cluster.clients().await;
        let before = passes(&source).await;
        cluster.begin();
        if moves_state {
            cluster.move_keys(&[STATE]);
        }
        for backend in [&source, &target] {
            for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits { take: 1, of: 2 }] {
                let error = attempt(backend, &claim("a").in_mode(mode)).await.unwrap_err();
                // The source has no key of the lock at all once the state is moved, and redirects its clients.
                let sent_on = moves_state && std::ptr::eq(backend, &source);
                let kind = if sent_on { ErrorKind::Unsupported } else { ErrorKind::NotReady };
                assert_eq!(error.kind(), kind, "{mode:?}: {error}");
                assert_eq!(error.is_retryable(), !sent_on);
            }
        }
        assert!(!cluster.source.has(LOCK) && !cluster.target.has(LOCK));
        cluster.finish();
        assert!(passes(&target).await > before);
    }
}

#[tokio::test]
async fn a_claim_that_waits_for_a_lock_gets_it_when_the_move_is_over() {
    let cluster = Cluster::start(LOCK);
    let (source, target) = cluster.clients().await;
    let before = passes(&source).await;
    cluster.begin();
    let brief = Locks::new(cluster.at_target().await.build().unwrap());
    let patient = Locks::new(target.clone());
    let [brief, patient] = [brief, patient].map(|locks| locks.mutex("a", ()).unwrap());
    // A limit that ends before the move does is obeyed, and the error names the reason.
    let limit = std::time::Duration::from_secs(2);
    match soon(brief.lock_timeout(limit)).await.unwrap_err() {
        LockError::Timeout { source: Some(error) } => assert_eq!(error.kind(), ErrorKind::NotReady),
        other => panic!("{other:?}"),
    }
    assert!(!cluster.source.has(LOCK) && !cluster.target.has(LOCK));
    let asked = cluster.target.said_try_again();
    let (guard, ()) = tokio::join!(patient.lock_timeout(SOON), async {
        let again = async || cluster.target.said_try_again() >= asked + 3;
        eventually_async("the lock was asked for several times", SOON, again).await;
        cluster.finish();
    });
    let guard = guard.unwrap();
    assert!(MutexGuard::lease(&guard).fencing_token() > before);
    no_other_gets_in([&source, &target]).await;
    MutexGuard::release(guard).await.unwrap();
    drop(soon(brief.lock()).await.unwrap());
}

#[tokio::test]
async fn a_lock_that_is_moved_cannot_be_watched_for_now_and_others_can() {
    let cluster = Cluster::start(LOCK);
    let (source, target) = cluster.clients().await;
    let other = cluster.at_source().build().unwrap();
    passes(&source).await;
    let elsewhere = claim("b");
    let mut watch = source.watch(&elsewhere.key).await.unwrap();
    granted(&other, &elsewhere).await;
    cluster.begin();
    for _ in 0..3 {
        let error = source.watch(&claim("a").key).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    }
    freed(&other, &elsewhere).await;
    assert_eq!(soon(watch.next()).await, Some(Hint::Released), "the watch was interrupted");
    // A watch that begins now is admitted.
    let mut watch = source.watch(&elsewhere.key).await.unwrap();
    cluster.finish();
    let mut moved = target.watch(&claim("a").key).await.unwrap();
    passes(&cluster.at_target().await.build().unwrap()).await;
    assert_eq!(soon(moved.next()).await, Some(Hint::Released));
    passes_elsewhere(&other).await;
    assert_eq!(soon(watch.next()).await, Some(Hint::Released));
}

async fn passes_elsewhere(backend: &RedisBackend) {
    let next = claim("b");
    granted(backend, &next).await;
    freed(backend, &next).await;
}

/// One contender: it sends each request to the source, and then to the target if the source cannot serve it.
struct Contender<'a> {
    clients: [RedisBackend; 2],
    race: &'a Race,
}

#[derive(Default)]
struct Race {
    is_held: AtomicBool,
    highest: AtomicU64,
    grants: AtomicU32,
    asks: AtomicU32,
    is_over: AtomicBool,
}

impl Contender<'_> {
    async fn run(&self) {
        while !self.race.is_over.load(Ordering::SeqCst) {
            for backend in &self.clients {
                let claim = claim("a");
                self.race.asks.fetch_add(1, Ordering::SeqCst);
                if let Ok(AcquireOutcome::Granted(grant)) = attempt(backend, &claim).await {
                    self.hold(&claim, grant.tokens.first().get()).await;
                }
            }
        }
    }

    async fn hold(&self, claim: &Claim, token: u64) {
        let Race { is_held, highest, grants, .. } = self.race;
        assert!(!is_held.swap(true, Ordering::SeqCst), "there are two holders");
        let before = highest.swap(token, Ordering::SeqCst);
        assert!(token > before, "{token} after {before}");
        self.until(async |backend| match backend.renew(&Renew::new(claim.clone(), long())).await {
            Renewal::Renewed { .. } => true,
            Renewal::Unknown(_) => false,
            other => panic!("{other:?}"),
        })
        .await;
        grants.fetch_add(1, Ordering::SeqCst);
        assert!(is_held.swap(false, Ordering::SeqCst));
        self.until(async |backend| match backend.release(claim).await {
            Ok(Released::Freed { .. }) => true,
            Ok(other) => panic!("{other:?}"),
            Err(_) => false,
        })
        .await;
    }

    /// Asks both nodes in turn until one has answered. A key may be moved between the two requests.
    async fn until(&self, ask: impl AsyncFn(&RedisBackend) -> bool) {
        let mut turns = self.clients.iter().cycle();
        soon(async { while !ask(turns.next().unwrap()).await {} }).await;
    }
}

#[tokio::test]
async fn there_is_one_holder_at_a_time_throughout_a_move() {
    let cluster = Cluster::start(LOCK);
    let race = Race::default();
    let mut contenders = Vec::new();
    for _ in 0..3 {
        let (source, target) = cluster.clients().await;
        contenders.push(Contender { clients: [source, target], race: &race });
    }
    let more = async |counter: &AtomicU32, more: u32| {
        let enough = counter.load(Ordering::SeqCst) + more;
        let are_there = async || counter.load(Ordering::SeqCst) >= enough;
        eventually_async("the race goes on", SOON, are_there).await;
    };
    let moves = async {
        more(&race.grants, 50).await;
        cluster.begin();
        while let Some(key) = cluster.rest().first() {
            more(&race.asks, 10).await;
            cluster.move_if_there(key);
        }
        more(&race.asks, 10).await;
        cluster.finish();
        more(&race.grants, 50).await;
        race.is_over.store(true, Ordering::SeqCst);
    };
    tokio::join!(futures::future::join_all(contenders.iter().map(Contender::run)), moves);
    assert!(!cluster.source.has(LOCK));
}

/// A renewal that would shorten the lease may be late. Only a script that names all keys can tell.
#[tokio::test]
async fn no_renewal_shortens_a_lease_while_its_slot_is_moved() {
    for (cluster, terms) in Cluster::start_two(LOCK).into_iter().zip([false, true]) {
        let source = cluster.at_source().term_quarantine(terms).build().unwrap();
        let held = claim("a");
        granted(&source, &held).await;
        cluster.begin();
        let renewal = source.renew(&Renew::new(held.clone(), millis(20_000))).await;
        assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
        let left = cluster.source.server.cli(&["PTTL", LOCK]).int();
        assert!(left > 40_000, "{left}");
        renewed(&source, &held).await;
    }
}
