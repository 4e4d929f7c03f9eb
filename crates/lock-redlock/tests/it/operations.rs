//! Repeated requests for one claim, callers that drop their request, and runtimes that stand still.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use futures::executor::block_on;
use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{Acquire, AcquireOutcome, Backend, InspectBackend, Ttl};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::sleep;

use crate::support::{Cluster, Quorum, claim, granted, node, of_three, until};

const TTL: Ttl = Ttl::DEFAULT;

/// Polls a future once. It must not be ready.
async fn begin(future: &mut (impl Future<Output = impl Send> + Unpin)) {
    poll_fn(|context| {
        assert!(std::pin::Pin::new(&mut *future).poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
}

fn votes(quorum: &Quorum) -> u64 {
    quorum.nodes().map(|(_, node)| node.stats().votes).sum()
}

/// The status of a node is read while requests look at the node.
#[test]
fn asking_for_the_status_stops_no_request() {
    const ROUNDS: usize = 20_000;
    let (done, over) = std::sync::mpsc::channel();
    let quorum = blocking(async { of_three().await.1 });
    let asks = quorum.clone();
    let asking = thread::spawn(move || {
        blocking(async {
            for _ in 0..ROUNDS {
                asks.status().await;
            }
        });
    });
    thread::spawn(move || {
        blocking(async {
            for _ in 0..ROUNDS {
                let held = claim("a");
                granted(&quorum, &held, Ttl::DEFAULT).await;
                quorum.release(&held).await.unwrap();
            }
        });
        asking.join().unwrap();
        done.send(()).unwrap();
    });
    over.recv_timeout(Duration::from_secs(60)).expect("both go on");
}

fn blocking<F: Future>(work: F) -> F::Output {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(work)
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_shares_the_votes_of_the_first() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    for (_, node) in quorum.nodes() {
        node.faults().delay_requests(Duration::from_millis(10));
    }
    let held = claim("a");
    let grants = futures::future::join_all([(); 3].map(|()| granted(&quorum, &held, TTL))).await;
    assert!(grants.iter().all(|grant| *grant == grants[0]), "{grants:?}");
    assert_eq!(votes(&quorum), 3);
}

/// It is dated from its own time, so it asks for itself.
#[tokio::test(start_paused = true)]
async fn a_repeated_request_for_a_longer_lease_gets_a_longer_lease() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    for (_, node) in quorum.nodes() {
        node.faults().delay_requests(Duration::from_millis(10));
    }
    let (held, longer) = (claim("a"), Ttl::new(2 * TTL.duration()).unwrap());
    let (short, long) = tokio::join!(granted(&quorum, &held, TTL), granted(&quorum, &held, longer));
    assert_eq!(short.tokens, long.tokens);
    assert!(long.valid_until > short.valid_until + TTL.duration() / 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_dropped_gives_its_votes_back() {
    let cluster = Cluster::of(5).await;
    let quorum = cluster.join().await;
    let gates: Vec<_> =
        quorum.nodes().map(|(_, node)| node.faults().on(Verb::Vote).hold_requests()).collect();
    let request = Acquire::new(claim("a"), TTL);
    {
        let mut dropped = pin!(quorum.try_acquire(&request));
        begin(&mut dropped).await;
    }
    // The votes come when the caller is gone.
    gates.iter().for_each(|gate| gate.open());
    until(|| quorum.nodes().all(|(_, node)| node.stats().releases > 0)).await;
    until(|| cluster.leases() == 0).await;
}

/// Code that drops a future may be anywhere, also in a destructor of its own. The thread of the quorum goes on with the
/// votes that are under way.
#[tokio::test]
async fn a_request_that_is_dropped_starts_no_task() {
    let (stores, quorum) = of_three().await;
    let hold = |(_, node): (_, &MemoryBackend)| node.faults().on(Verb::Vote).hold_replies();
    let gates: Vec<_> = quorum.nodes().map(hold).collect();
    let request = Acquire::new(claim("a"), TTL);
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let mut dropped = Box::pin(quorum.try_acquire(&request));
    begin(&mut dropped).await;
    let before = tasks();
    drop(dropped);
    assert_eq!(tasks(), before);
    gates.iter().for_each(|gate| gate.open());
    until(|| stores.iter().all(|store| store.live_leases() == 0)).await;
}

/// The caller of the first request is gone, and with it the right to ask.
#[tokio::test(start_paused = true)]
async fn a_repeated_request_goes_on_if_the_first_is_dropped() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    for (_, node) in quorum.nodes() {
        node.faults().delay_requests(Duration::from_millis(10));
    }
    let request = Acquire::new(claim("a"), TTL);
    let repeated = {
        let mut dropped = pin!(quorum.try_acquire(&request));
        begin(&mut dropped).await;
        let (quorum, request) = (quorum.clone(), request.clone());
        let repeated = tokio::spawn(async move { quorum.try_acquire(&request).await });
        tokio::task::yield_now().await;
        repeated
    };
    let mut attempt = repeated.await.unwrap();
    while let Ok(AcquireOutcome::Busy { retry_after }) = attempt {
        // The nodes still have to release the votes of the first.
        sleep(retry_after.unwrap()).await;
        attempt = quorum.try_acquire(&request).await;
    }
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(cluster.leases(), 3);
}

/// A quorum with a thread of its own, and a runtime on which its caller runs.
fn elsewhere() -> (Vec<MemoryBackend>, Arc<Quorum>, Runtime) {
    let (nodes, quorum) = block_on(of_three());
    (nodes, Arc::new(quorum), Builder::new_current_thread().enable_all().build().unwrap())
}

/// A future that was polled on this runtime is not polled again, as its runtime stands still.
#[test]
fn a_repeated_request_does_not_wait_for_a_runtime_that_stands_still() {
    let (_nodes, quorum, still) = elsewhere();
    let gates = [0, 1, 2].map(|index| node(&quorum, index).faults().on(Verb::Vote).hold_requests());
    let request = Acquire::new(claim("a"), TTL);
    let mut first = Box::pin(quorum.try_acquire(&request));
    still.block_on(begin(&mut first));
    gates.iter().for_each(|gate| gate.open());
    let other = Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(async {
        while !matches!(quorum.try_acquire(&request).await, Ok(AcquireOutcome::Granted(_))) {
            sleep(Duration::from_millis(5)).await;
        }
    });
    drop(first);
}

/// It has stopped before the last node has answered the release.
#[test]
fn a_release_goes_on_if_the_runtime_of_its_caller_stands_still() {
    let (nodes, quorum, still) = elsewhere();
    let held = claim("a");
    still.block_on(granted(&quorum, &held, TTL));
    let gate = node(&quorum, 2).faults().on(Verb::Release).hold_requests();
    still.block_on(async {
        quorum.release(&held).await.unwrap();
        gate.arrived(1).await;
    });
    gate.open();
    for _ in 0..10_000 {
        if nodes.iter().all(|node| node.live_leases() == 0) {
            drop(still);
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("a lease was left after ten seconds");
}

/// Each round finds other rivals, as if clients came and went.
#[tokio::test(start_paused = true)]
async fn a_request_among_ever_new_rivals_ends_soon() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let trip = Duration::from_millis(100);
    quorum.nodes().for_each(|(_, node)| node.faults().delay_requests(trip));
    // The quorum learns how far away the nodes are.
    let before = claim("b");
    granted(&quorum, &before, TTL).await;
    quorum.release(&before).await.unwrap();
    node(&quorum, 1).faults().cut();
    let store = cluster.stores[0].clone();
    let rivals = tokio::spawn(async move {
        loop {
            let rival = claim("a");
            let attempt = store.try_acquire(&Acquire::new(rival.clone(), TTL)).await;
            assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
            sleep(trip / 2).await;
            store.release(&rival).await.unwrap();
        }
    });
    for _ in 0..20 {
        let began = tokio::time::Instant::now();
        let attempt = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await;
        assert!(!matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
        // A second, and the last round with its releases.
        let took = began.elapsed();
        assert!(took <= Duration::from_secs(1) + 3 * trip, "{took:?}");
    }
    rivals.abort();
}

/// Each round finds other rivals, and no time ends the request.
#[tokio::test(start_paused = true)]
async fn a_request_has_few_rounds_however_long_votes_stay_split() {
    const ROUNDS: u64 = 8;
    let cluster = Cluster::of(3).await;
    let rivals = cluster.stores[..2].to_vec();
    let rivals = tokio::spawn(async move {
        loop {
            for store in &rivals {
                store.force_release(&claim("a").key).await.unwrap();
                let attempt = store.try_acquire(&Acquire::new(claim("a"), TTL)).await;
                assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
            }
            sleep(Duration::from_millis(1)).await;
        }
    });
    for _ in 0..20 {
        // A new client does not know how near the nodes are, so each round asks all nodes.
        let builder = cluster.builder().node_timeout(Duration::from_secs(60));
        let quorum = builder.build().await.unwrap();
        let trip = Duration::from_millis(10);
        quorum.nodes().for_each(|(_, node)| node.faults().delay_requests(trip));
        let attempt = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await;
        assert!(matches!(attempt, Ok(AcquireOutcome::Busy { .. })), "{attempt:?}");
        let stats: Vec<_> = quorum.nodes().map(|(_, node)| node.stats()).collect();
        let votes: Vec<_> = stats.iter().map(|stats| stats.votes).collect();
        // A favourite keeps the vote of the last node, and asks the nodes of its rivals again.
        assert_eq!(votes[..2], [ROUNDS; 2]);
        assert!(votes[2] <= ROUNDS && stats[2].releases <= ROUNDS, "{stats:?}");
    }
    rivals.abort();
}
