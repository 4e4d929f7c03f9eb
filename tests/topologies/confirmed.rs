//! Grants that replicas have confirmed.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use lock_core::{
    Acquire, AcquireOutcome, Backend, CellBackend, Claim, Clock, Error, ErrorKind, Hint, Released,
    Renew, Renewal,
};
use lock_redis::RedisBackend;
use lock_sync::{Locks, MutexGuard, OwnedMutexGuard};
use lock_tests::{Direction, Proxy, RedisCluster, SOON, eventually, eventually_async, soon};
use tokio::runtime::Runtime;

use crate::support::{Set, TIMEOUT, Waiter, claim, granted, long, released, renewed};

pub(crate) const LIMIT: Duration = Duration::from_secs(120);

pub(crate) async fn ask(backend: &RedisBackend, claim: &Claim) -> Result<AcquireOutcome, Error> {
    backend.try_acquire(&Acquire::new(claim.clone(), long())).await
}

/// Asks in vain, and releases the claim: a repetition could still be confirmed.
async fn unconfirmed(backend: &RedisBackend, claim: &Claim) -> Error {
    let error = ask(backend, claim).await.unwrap_err();
    backend.release(claim).await.unwrap();
    error
}

pub(crate) fn says(error: &Error, text: &str) {
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    assert!(error.is_retryable() && error.to_string().contains(text), "{error}");
}

/// One of two replicas lacks the grant. On a busy machine the other one may be late, too.
fn lack(error: &Error) {
    let one_or_two = ["1", "0"].map(|have| format!("{have} of 2 replicas have it"));
    assert!(one_or_two.iter().any(|text| error.to_string().contains(text)), "{error}");
    says(error, "replicas have it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_one_replica_lacks_does_not_count() {
    let set = Set::start(2);
    let backend = set.client();
    let held = claim("held");
    eventually_granted(&backend, &held).await;
    let several = ["a", "b"].map(|name| Acquire::new(claim(name), long()));
    set.stall();
    lack(&unconfirmed(&backend, &claim("a")).await);
    lack(&backend.try_acquire_all(&several).await.unwrap_err());
    join_all(several.iter().map(|request| backend.release(&request.claim))).await;
    let lock = Locks::new(backend.clone()).mutex("c", ()).unwrap();
    assert!(lock.try_lock().await.is_err());
    eventually_async("an unconfirmed grant is released", SOON, async || set.is_free("c")).await;
    match backend.renew(&Renew::new(held.clone(), long())).await {
        Renewal::Unknown(error) => lack(&error),
        other => panic!("{other:?}"),
    }
    // A release is not confirmed.
    released(&backend, &held).await;
    set.pass();
    set.acknowledge();
    eventually_granted(&backend, &held).await;
    renewed(&backend, &held).await;
    released(&backend, &held).await;
    eventually_async("several locks are granted", SOON, async || {
        backend.try_acquire_all(&several).await.is_ok_and(|it| it.is_some())
    })
    .await;
}

/// lock-sync repeats a request whose task has gone, on another runtime, before the first request has an answer. The
/// first one may end without a confirmation only after the repetition was granted. Then the grant stays.
#[test]
fn an_unconfirmed_request_leaves_the_grant_of_its_repetition() {
    let set = Set::start(1);
    // The repetition is confirmed in time on a busy machine, too.
    let patience = 3 * TIMEOUT;
    let builder = set.builder().command_timeout(4 * patience).confirm(1, patience);
    let (backend, lock) = (builder.build().unwrap(), claim("a"));
    let [here, there] = [(); 2].map(|()| Runtime::new().unwrap());
    for runtime in [&here, &there] {
        runtime.block_on(async {
            eventually_granted(&backend, &lock).await;
            released(&backend, &lock).await;
        });
    }
    let mut first = Box::pin(ask(&backend, &lock));
    // The server stands still, so the only poll sends the request and reads no answer.
    set.primary.stop();
    let entered = here.enter();
    assert!(first.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(entered);
    set.primary.cont();
    eventually("the first request is granted", SOON, || !set.is_free("a"));
    there.block_on(async {
        granted(&backend, &lock).await;
        says(&first.await.unwrap_err(), "another runtime");
        assert!(!set.is_free("a"), "the first request has ended the lease of the second");
        renewed(&backend, &lock).await;
    });
}

/// One handle confirms, and the handle from which it was made does not. They share their connections and their watches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_handle_confirms_and_its_parent_does_not() {
    let set = Set::start(1);
    let plain = set.builder().term_quarantine(true).build().unwrap();
    let confirmed = plain.confirming(1, TIMEOUT).unwrap();
    let [held, other] = [claim("held"), claim("other")];
    eventually_granted(&confirmed, &held).await;
    let clients = || {
        let list = set.primary.cli(&["CLIENT", "LIST", "TYPE", "NORMAL"]).text().to_owned();
        list.lines().filter(|line| !line.contains("cmd=client")).count()
    };
    let connections = clients();
    granted(&plain, &other).await;
    assert_eq!(clients(), connections, "the handles do not share their connection");
    let [mut safe, mut quick] = [
        Waiter::queue(&confirmed, claim("held")).await,
        Waiter::queue(&plain, claim("other")).await,
    ];
    set.stall();
    says(&unconfirmed(&confirmed, &claim("a")).await, "0 of 1 replicas have it");
    granted(&plain, &claim("a")).await;
    let waits = || set.primary.commandstats().calls("wait");
    let before = waits();
    released(&plain, &other).await;
    quick.gets_it().await;
    assert_eq!(waits(), before, "a grant that needs no confirmation was confirmed");
    released(&confirmed, &held).await;
    let owner = safe.request.claim.owner;
    safe.hears(Hint::Granted { owner, grant: None }).await;
    says(&confirmed.try_acquire(&safe.request).await.unwrap_err(), "0 of 1 replicas have it");
    set.pass();
    set.acknowledge();
    eventually_granted(&confirmed, &safe.request.claim).await;
    renewed(&confirmed, &safe.request.claim).await;
}

/// A client waits for the replicas on a second connection. The server answers nothing else there meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_requests_are_answered_while_a_grant_waits_for_its_confirmation() {
    // Longer than the test may take.
    let timeout = 4 * SOON;
    let set = Set::start(1);
    let builder = set.builder().command_timeout(2 * timeout);
    let backend = builder.confirm(1, timeout).build().unwrap();
    let held = claim("held");
    eventually_granted(&backend, &held).await;
    let clients_of = |command: &str| -> Vec<String> {
        let list = set.primary.cli(&["CLIENT", "LIST", "TYPE", "NORMAL"]).text();
        let of_command = |line: &&str| line.contains(&format!(" cmd={command} "));
        let ids = list.lines().filter(of_command).filter_map(|line| line.split(' ').next());
        ids.map(str::to_owned).collect()
    };
    set.stall();
    let (client, lock) = (backend.clone(), claim("a"));
    let asking = tokio::spawn(async move { ask(&client, &lock).await });
    let is_waiting = || set.primary.cli(&["INFO", "clients"]).text().contains("blocked_clients:1");
    eventually("the server waits for its replica", SOON, is_waiting);
    let waiting = clients_of("wait");
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    soon(released(&backend, &held)).await;
    assert!(is_waiting() && !asking.is_finished());
    assert_eq!(clients_of("wait"), waiting);
    let scripts = clients_of("evalsha");
    assert!(!scripts.is_empty() && !scripts.contains(&waiting[0]), "{scripts:?}, {waiting:?}");
    set.pass();
    let outcome = soon(asking).await.unwrap();
    assert!(matches!(outcome, Ok(AcquireOutcome::Granted(_))), "{outcome:?}");
}

/// The primary has carried out a write before it refuses to wait for its replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_confirmation_is_refused_is_in_doubt() {
    let set = Set::start(1);
    let (backend, held) = (set.client(), claim("held"));
    eventually_granted(&backend, &held).await;
    let token = granted(&backend, &held).await.tokens.last();
    set.primary.cli(&["ACL", "SETUSER", "default", "-wait"]);
    let in_doubt = |error: &Error| assert!(error.is_retryable(), "{error}");
    in_doubt(&backend.store(&held, token, Some(b"5")).await.unwrap_err());
    in_doubt(&backend.commit(&held, token, b"6").await.unwrap_err());
    set.primary.cli(&["ACL", "SETUSER", "default", "+wait"]);
    let kept = backend.load(&held.key).await.unwrap();
    assert_eq!(kept.map(|cell| cell.value), Some(b"6".to_vec()));
}

#[test]
fn a_handle_that_could_prove_nothing_is_refused_before_anything_is_sent() {
    let builder = || RedisBackend::builder("redis+sentinel://127.0.0.1:1/main");
    let service = builder().build().unwrap();
    assert!(service.confirming(2, TIMEOUT).is_ok());
    assert!(service.confirming_on_disk(2, TIMEOUT).is_ok());
    let bad = [
        service.confirming(0, TIMEOUT),
        service.confirming(1, Duration::from_millis(1)),
        service.confirming(1, Duration::from_secs(60)),
        builder().term_quarantine(false).build().unwrap().confirming(1, TIMEOUT),
        RedisBackend::open("redis://127.0.0.1:1").unwrap().confirming(1, TIMEOUT),
    ];
    for refused in bad {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidConfig);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_and_fewer_replicas_than_counted_do_not_confirm() {
    let set = Set::start(2);
    for counted in [1, 3] {
        let backend = set.builder().confirm(counted, TIMEOUT).build().unwrap();
        says(&unconfirmed(&backend, &claim("a")).await, "2 replicas are attached");
    }
    set.replicas[0].0.kill();
    let backend = set.client();
    eventually_async("a replica is missed", SOON, async || {
        let error = unconfirmed(&backend, &claim("a")).await;
        error.to_string().contains("1 replicas are attached instead of 2")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_counts_once_it_is_confirmed() {
    let set = Set::start(1);
    let backend = set.client();
    let held = claim("a");
    eventually_granted(&backend, &held).await;
    let mut waiter = Waiter::queue(&set.client(), claim("a")).await;
    set.stall();
    released(&backend, &held).await;
    let owner = waiter.request.claim.owner;
    // The message is no grant yet.
    waiter.hears(Hint::Granted { owner, grant: None }).await;
    let asked = waiter.backend.try_acquire(&waiter.request).await;
    says(&asked.unwrap_err(), "0 of 1 replicas have it");
    set.pass();
    set.acknowledge();
    eventually_granted(&waiter.backend, &waiter.request.claim).await;
    released(&waiter.backend, &waiter.request.claim).await;
    // While replicas acknowledge, the message is enough to get the lock.
    eventually_granted(&backend, &held).await;
    let mut waiter = Waiter::queue(&waiter.backend, claim("a")).await;
    released(&backend, &held).await;
    waiter.gets_it().await;
}

pub(crate) async fn eventually_granted(backend: &RedisBackend, claim: &Claim) {
    eventually_async("the claim is granted", SOON, async || {
        matches!(ask(backend, claim).await, Ok(AcquireOutcome::Granted(_)))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_ask_together_share_commits() {
    const TASKS: u64 = 64;
    let set = Set::start(1);
    let locks = Locks::new(set.client());
    let first = locks.mutex("first", ()).unwrap();
    MutexGuard::release(soon(first.lock()).await.unwrap()).await.unwrap();
    let before = set.primary.commandstats();
    let tasks = (0..TASKS).map(|number| {
        let lock = locks.mutex(number.to_string(), ()).unwrap();
        tokio::spawn(async move { MutexGuard::release(lock.lock().await.unwrap()).await.unwrap() })
    });
    for task in tasks.collect::<Vec<_>>() {
        soon(task).await.unwrap();
    }
    let waits = set.primary.commandstats().since(&before).calls("wait");
    assert!((1..TASKS / 2).contains(&waits), "{waits} commits for {TASKS} grants");
}

/// Through an outage of the replication a guard stays valid, and its lease is renewed soon after. A task that waits
/// gets the lock soon after, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_and_waiters_go_on_once_replicas_acknowledge_again() {
    let set = Set::start(1);
    let [here, there] = [(); 2].map(|()| Locks::new(set.client()));
    let guard = soon(Arc::new(here.mutex("held", ()).unwrap()).lock_owned()).await.unwrap();
    set.stall();
    let lock = Arc::new(there.mutex("wanted", ()).unwrap());
    let before = set.primary.commandstats();
    let waiting = tokio::spawn(async move { lock.lock_owned().await });
    tokio::task::block_in_place(|| {
        eventually("several attempts are not confirmed", LIMIT, || {
            set.primary.commandstats().since(&before).calls("wait") >= 5
        });
    });
    assert!(OwnedMutexGuard::lease(&guard).is_valid() && !waiting.is_finished());
    set.pass();
    let wanted = soon(waiting).await.unwrap().unwrap();
    assert!(OwnedMutexGuard::lease(&guard).is_valid(), "the lease was not renewed");
    OwnedMutexGuard::release(guard).await.unwrap();
    OwnedMutexGuard::release(wanted).await.unwrap();
}

/// While a slot moves key by key, a confirmed lease in it is renewed at the server that has it, and released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmed_lease_is_renewed_and_released_in_every_state_of_a_move() {
    const LOCK: &str = "lock:{a}";
    let cluster = RedisCluster::start(3, 3);
    let builder = RedisBackend::builder(cluster.url()).command_timeout(4 * TIMEOUT);
    let backend = builder.confirm(1, TIMEOUT).build().unwrap();
    for releases_at in 0..5 {
        let held = claim("a");
        eventually_granted(&backend, &held).await;
        let moving = cluster.begin_move(LOCK, (cluster.owner_of(LOCK) + 1) % 3);
        let (mut step, mut is_released) = (0, false);
        loop {
            if step < releases_at && !is_released {
                soon(renewed(&backend, &held)).await;
            } else if !is_released {
                let answer = soon(released(&backend, &held)).await;
                assert!(matches!(answer, Released::Freed { .. }), "{answer:?} at {step}");
                is_released = true;
            }
            step += 1;
            if moving.step() == 0 {
                break;
            }
        }
        moving.finish();
        if !is_released {
            soon(renewed(&backend, &held)).await;
            assert!(matches!(released(&backend, &held).await, Released::Freed { .. }));
        }
    }
}

/// The marker and the question to the replicas go out together, once replicas were found to acknowledge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_costs_one_round_trip() {
    const LATE: Duration = Duration::from_millis(200);
    let set = Set::start(1);
    let proxy = Proxy::before(&set.primary);
    let builder = RedisBackend::builder(proxy.url()).command_timeout(4 * TIMEOUT);
    let backend = builder.confirm(1, TIMEOUT).build().unwrap();
    let held = claim("a");
    eventually_granted(&backend, &held).await;
    proxy.delay(Direction::ToServer, LATE);
    let mut took: Vec<Duration> = Vec::new();
    // On a busy machine a renewal may take longer, but not each of several.
    while took.len() < 5 && took.last().is_none_or(|last| *last >= 3 * LATE) {
        let since = Clock::boot().now();
        renewed(&backend, &held).await;
        took.push(Clock::boot().now().saturating_duration_since(since));
    }
    // One for the renewal, and one for the commit.
    assert!(took.iter().all(|it| *it >= 2 * LATE), "{took:?}");
    assert!(took.last().is_some_and(|last| *last < 3 * LATE), "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_on_disk_if_it_has_to_be_or_the_server_is_too_old() {
    let set = Set::start(1);
    let confirmed = set.builder().confirm(1, TIMEOUT).confirm_on_disk(true).build().unwrap();
    // No server writes an append-only file here.
    let held = claim("a");
    let error = ask(&confirmed, &held).await.unwrap_err();
    let is_known =
        matches!(set.primary.cli(&["COMMAND", "INFO", "WAITAOF"]).array(), [it] if !it.is_nil());
    assert_eq!(error.kind() == ErrorKind::Unsupported, !is_known, "{error}");
    assert!(set.is_free("a"), "a grant stays that no repetition can confirm: {error}");
    if is_known {
        for server in [&set.primary, &set.replicas[0].0] {
            assert_eq!(server.cli(&["CONFIG", "SET", "appendonly", "yes"]).text(), "OK");
        }
        eventually_granted(&confirmed, &held).await;
    }
}
