//! Slots that move from primary to primary.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Hint, Released};
use lock_redis::{Builder, Notifications, RedisBackend};
use lock_tests::{ClusterNode, RedisCluster, RedisServer, SOON, eventually_async, soon};

use crate::support::{Waiter, claim, granted, long, released, renewed};

const LOCK: &str = "lock:{a}";

fn client(cluster: &RedisCluster) -> RedisBackend {
    RedisBackend::open(cluster.url()).unwrap()
}

fn other_than(owner: usize) -> usize {
    (owner + 1) % 3
}

#[tokio::test]
async fn a_lease_is_renewed_and_released_in_every_state_of_a_move() {
    let cluster = RedisCluster::start(3, 0);
    let backend = client(&cluster);
    for releases_at in 0..5 {
        let held = claim("a");
        granted(&backend, &held).await;
        let moving = cluster.begin_move(LOCK, other_than(cluster.owner_of(LOCK)));
        let mut step = 0;
        let mut is_released = false;
        loop {
            if step < releases_at && !is_released {
                renewed(&backend, &held).await;
            } else if !is_released {
                let answer = released(&backend, &held).await;
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
            renewed(&backend, &held).await;
            assert!(matches!(released(&backend, &held).await, Released::Freed { .. }));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_follow_a_slot_and_are_served_in_order() {
    waiters_follow(|cluster, to| cluster.move_slot(LOCK, to)).await;
}

/// On servers that move slots key by key alone, this is the test above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_follow_a_slot_that_moves_in_one_step() {
    waiters_follow(at_once).await;
}

/// Moves the slot in one step if the servers can. The way is printed.
fn at_once(cluster: &RedisCluster, to: usize) {
    if cluster.move_slot_at_once(LOCK, to) {
        println!("the slot moves in one step");
    } else {
        println!("these servers move slots key by key alone");
        cluster.move_slot(LOCK, to);
    }
}

/// The waiters' watches follow the slot, and say that they may have missed hints.
async fn waiters_follow(moves: impl FnOnce(&RedisCluster, usize)) {
    let cluster = RedisCluster::start(3, 0);
    let clients = [(); 3].map(|()| client(&cluster));
    let held = claim("a");
    granted(&clients[0], &held).await;
    let mut first = Waiter::queue(&clients[1], claim("a")).await;
    let mut second = Waiter::queue(&clients[2], claim("a")).await;
    tokio::task::block_in_place(|| moves(&cluster, other_than(cluster.owner_of(LOCK))));
    tokio::join!(first.hears(Hint::Resync), second.hears(Hint::Resync));
    for waiter in [&first, &second] {
        assert!(matches!(waiter.ask().await, AcquireOutcome::Queued { .. }));
    }
    // The inbox is the one at the new server, so the grant is pushed. If the client gets another inbox only now, it says so,
    // and the waiter asks again.
    released(&clients[0], &held).await;
    let heard = soon(async {
        loop {
            match first.watch.next().await.unwrap() {
                Hint::Granted { grant: Some(_), .. } => break,
                Hint::Resync if matches!(first.ask().await, AcquireOutcome::Granted(_)) => break,
                _ => {}
            }
        }
    });
    heard.await;
    renewed(&clients[1], &first.request.claim).await;
    released(&clients[1], &first.request.claim).await;
    second.gets_it().await;
}

/// The release comes before the waiters' clients know of the move: the first one keeps its turn.
#[tokio::test]
async fn a_waiter_keeps_its_turn_although_its_client_does_not_know_of_the_move() {
    let cluster = RedisCluster::start(3, 0);
    let clients = [(); 3].map(|()| client(&cluster));
    let held = claim("a");
    granted(&clients[0], &held).await;
    let first = Waiter::queue(&clients[1], claim("a")).await;
    let second = Waiter::queue(&clients[2], claim("a")).await;
    cluster.move_slot(LOCK, other_than(cluster.owner_of(LOCK)));
    released(&clients[0], &held).await;
    let overtakes = matches!(second.ask().await, AcquireOutcome::Granted(_));
    assert!(!overtakes, "the first waiter lost its turn");
    assert!(
        matches!(first.ask().await, AcquireOutcome::Granted(_)),
        "the first waiter lost its turn"
    );
}

/// Contenders take the lock in turn while its slot goes round. There is never more than one holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_holder_at_a_time_while_a_slot_goes_round() {
    let cluster = RedisCluster::start(3, 0);
    let (is_held, highest, grants, is_over) =
        (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let contend = async || {
        let backend = client(&cluster);
        while !is_over.load(Ordering::SeqCst) {
            let claim = claim("a");
            let request = Acquire::new(claim.clone(), long());
            match backend.try_acquire(&request).await {
                Ok(AcquireOutcome::Granted(grant)) => {
                    assert!(!is_held.swap(true, Ordering::SeqCst), "there are two holders");
                    let token = grant.tokens.first().get();
                    assert!(highest.swap(token, Ordering::SeqCst) < token);
                    renewed(&backend, &claim).await;
                    grants.fetch_add(1, Ordering::SeqCst);
                    assert!(is_held.swap(false, Ordering::SeqCst));
                    released(&backend, &claim).await;
                }
                Ok(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    let moves = async {
        for round in 0..4 {
            let enough = grants.load(Ordering::SeqCst) + 20;
            let are_there = async || grants.load(Ordering::SeqCst) >= enough;
            eventually_async("the lock changes hands", SOON, are_there).await;
            let to = other_than(cluster.owner_of(LOCK));
            tokio::task::block_in_place(|| match round % 2 {
                0 => cluster.move_slot(LOCK, to),
                _ => at_once(&cluster, to),
            });
        }
        is_over.store(true, Ordering::SeqCst);
    };
    tokio::join!(contend(), contend(), contend(), moves);
}

/// Watches of every kind follow a slot. Clients that hear no messages hear the events of the key at its new server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_with_each_source_of_hints_follow_a_slot() {
    let cluster = RedisCluster::start(3, 0);
    let quiet = |setup: fn(Builder) -> Builder| {
        let builder = RedisBackend::builder(cluster.url()).release_messages(false);
        setup(builder.notifications(Notifications::Off)).build().unwrap()
    };
    let watchers = [
        client(&cluster),
        quiet(|it| it.notifications(Notifications::Enable)),
        quiet(|it| it.tracking(true)),
    ];
    let holder = client(&cluster);
    let mut watches = Vec::new();
    for watcher in &watchers {
        watches.push(watcher.watch(&claim("a").key).await.unwrap());
    }
    for _ in 0..2 {
        let to = other_than(cluster.owner_of(LOCK));
        tokio::task::block_in_place(|| cluster.move_slot(LOCK, to));
        let held = claim("a");
        granted(&holder, &held).await;
        for watch in &mut watches {
            soon(async { while watch.next().await.unwrap() != Hint::Resync {} }).await;
        }
        released(&holder, &held).await;
        for watch in &mut watches {
            soon(async { while watch.next().await.unwrap() != Hint::Released {} }).await;
        }
    }
}

/// The slot of a name without braces. To ask the server for thousands of names takes seconds.
fn slot_of(name: &str) -> u16 {
    let crc = name.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % 16_384
}

#[tokio::test]
async fn several_locks_are_taken_in_one_step_only_if_they_share_a_slot() {
    let cluster = RedisCluster::start(3, 0);
    let backend = client(&cluster);
    let far = ["a", "b"].map(|name| Acquire::new(claim(name), long()));
    assert_eq!(backend.try_acquire_all(&far).await.unwrap(), None);
    let locks = lock_sync::Locks::new(backend.clone());
    let guards = soon(locks.lock_all(["a", "b"])).await.unwrap();
    drop(guards);

    // A key has the slot of the name between its braces.
    let beside = |other: &str| {
        let slot = cluster.slot_of(other);
        let mut names = (0..).map(|number| number.to_string());
        let name = names.find(|name| slot_of(name) == slot).unwrap();
        assert_eq!(cluster.slot_of(&name), slot);
        name
    };
    let [near, others] = [["c", &beside("c")], ["d", &beside("d")]]
        .map(|names| names.map(|name| Acquire::new(claim(name), long())));
    let together = async |requests: &[Acquire]| {
        let attempts = backend.try_acquire_all(requests).await.unwrap();
        attempts.expect("the locks share a slot")
    };
    let is_granted = |attempt: &AcquireOutcome| matches!(attempt, AcquireOutcome::Granted(_));
    assert!(together(&near).await.iter().all(is_granted));
    for request in &near {
        released(&backend, &request.claim).await;
    }
    // By now the server knows the script.
    let before = called(&servers(&cluster));
    assert!(together(&near).await.iter().all(is_granted));
    assert_eq!(called(&servers(&cluster)) - before, 1, "the locks took several steps");
    // One of two is held, so none is taken.
    granted(&backend, &claim("d")).await;
    assert!(!together(&others).await.iter().any(is_granted));
    granted(&backend, &others[1].claim).await;
}

/// One of the locks cannot be taken while its slot moves. The caller that gives up keeps none of them, and the caller
/// that waits gets all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_locks_are_taken_all_or_none_while_the_slot_of_one_moves() {
    let cluster = RedisCluster::start(3, 0);
    let [here, there, other] = [(); 3].map(|()| {
        let brief = RedisBackend::builder(cluster.url()).command_timeout(SOON / 10);
        lock_sync::Locks::new(brief.build().unwrap())
    });
    // The other lock is taken first, and its slot stays. Both locks were held before, so their slots have keys.
    let far = |name: &String| cluster.slot_of(name) != cluster.slot_of("a");
    let first = (0..).map(|number| format!("0{number}")).find(far).unwrap();
    let names = [&*first, "a"];
    soon(here.lock_all(names)).await.unwrap().release().await.unwrap();
    let moving = cluster.begin_move(LOCK, other_than(cluster.owner_of(LOCK)));
    let is_free = async |name: &str| other.mutex(name, ()).unwrap().try_lock().await.is_ok();
    let refused = here.try_lock_all(names).await;
    assert!(refused.is_err(), "the test proves nothing: a lock was taken in a slot that moves");
    assert!(soon(here.lock_all_timeout(names, SOON / 20)).await.is_err());
    eventually_async("no lock is kept", SOON, async || is_free(&first).await).await;
    let waiting = tokio::spawn(async move {
        let guard = there.lock_all(["a", &*first]).await.unwrap();
        (guard, first)
    });
    while moving.step() > 0 {
        assert!(!waiting.is_finished());
    }
    moving.finish();
    let (guard, first) = soon(waiting).await.unwrap();
    assert!(!is_free(&first).await && !is_free("a").await);
    drop(guard);
    for name in [&*first, "a"] {
        eventually_async("the lock is free", SOON, async || is_free(name).await).await;
    }
}

fn servers(cluster: &RedisCluster) -> Vec<&RedisServer> {
    cluster.nodes().iter().map(ClusterNode::server).collect()
}

/// How many scripts the clients have called at all servers.
fn called(servers: &[&RedisServer]) -> u64 {
    servers.iter().map(|server| server.commandstats().calls("evalsha")).sum()
}

/// The move of a slot does not disturb a waiter for a lock in another slot of the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_a_move_does_not_touch_asks_at_most_once_more() {
    let cluster = RedisCluster::start(3, 0);
    let servers = servers(&cluster);
    let owner = cluster.owner_of(LOCK);
    let is_beside = |name: &String| cluster.owner_of(&format!("lock:{{{name}}}")) == owner;
    let name = (0..).map(|number| format!("b{number}")).find(is_beside).unwrap();
    let (holder, waiting) = (client(&cluster), client(&cluster));
    let [moved, held] = ["a", &name].map(claim);
    granted(&holder, &moved).await;
    granted(&holder, &held).await;
    let mut waiter = Waiter::queue(&waiting, claim(&name)).await;
    let before = called(&servers);
    let moving = cluster.begin_move(LOCK, other_than(owner));
    while moving.step() > 0 {
        assert!(matches!(waiter.ask().await, AcquireOutcome::Queued { .. }));
    }
    assert!(matches!(waiter.ask().await, AcquireOutcome::Queued { .. }));
    let asked = called(&servers) - before;
    moving.finish();
    // The client of the waiter learns that a slot has moved.
    renewed(&waiting, &moved).await;
    released(&holder, &held).await;
    // No other hint comes before the grant: none that makes the waiter ask.
    waiter.hears_its_grant().await.expect("the waiter had a reason to ask");
    // No request was sent twice.
    assert!(asked <= 4, "{asked} calls");
}

/// How many scripts clients call for some hand-overs, from one client to another and back. A turn whose message comes
/// late on a busy machine does not count.
async fn calls_of_hand_overs(url: String, servers: &[&RedisServer]) -> u64 {
    const TURNS: usize = 20;
    let client = || RedisBackend::builder(url.as_str()).term_quarantine(true).build().unwrap();
    let mut waiters = Vec::new();
    for _ in 0..2 {
        let (backend, request) = (client(), Acquire::new(claim("a"), long()).queued());
        let watch = backend.watch(&request.claim.key).await.unwrap();
        waiters.push(Waiter { backend, request, watch });
    }
    granted(&waiters[1].backend, &waiters[1].request.claim).await;
    let mut costs = Vec::new();
    for turn in 0..4 * TURNS {
        let before = called(servers);
        let (next, holder) = (turn % 2, (turn + 1) % 2);
        waiters[next].request = Acquire::new(claim("a"), long()).queued();
        assert!(matches!(waiters[next].ask().await, AcquireOutcome::Queued { .. }));
        released(&waiters[holder].backend, &waiters[holder].request.claim).await;
        let asks = waiters[next].waits_for_its_grant().await;
        // At first the servers do not know all scripts.
        if turn >= TURNS && !asks {
            costs.push(called(servers) - before);
        }
        if costs.len() == TURNS {
            return costs.into_iter().sum();
        }
    }
    panic!("only {} messages came in time", costs.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_costs_in_a_cluster_what_it_costs_at_one_server() {
    let (server, cluster) = (RedisServer::start(), RedisCluster::start(3, 0));
    let at_one = calls_of_hand_overs(server.url(), &[&server]).await;
    let servers = servers(&cluster);
    assert_eq!(calls_of_hand_overs(cluster.url(), &servers).await, at_one);
}
