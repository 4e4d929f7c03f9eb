//! Contenders who share out the votes of the nodes that answer.

use std::time::{Duration, Instant};

use lock_core::{Acquire, AcquireOutcome, Backend, Ttl};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::support::{Cluster, Quorum, claim, node};

/// A round that waits for the silent node keeps the votes of four nodes in one another's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contenders_take_turns_while_a_node_is_silent() {
    const TURNS: usize = 100;
    let cluster = Cluster::of(5).await;
    let mut tasks = JoinSet::new();
    let begin = Instant::now();
    for number in 0..3 {
        let limit = Duration::from_millis(400);
        let quorum = cluster.builder().node_timeout(limit).build().await.unwrap();
        for (index, (_, node)) in quorum.nodes().enumerate() {
            let steps = (index + number) % 5;
            node.faults().delay_requests(Duration::from_micros(100) * steps as u32);
        }
        tasks.spawn(async move {
            take_turn(&quorum).await;
            let _gate = node(&quorum, 1).faults().hold_requests();
            for _ in 0..TURNS {
                take_turn(&quorum).await;
            }
        });
    }
    tasks.join_all().await;
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

async fn take_turn(quorum: &Quorum) {
    let request = Acquire::new(claim("a"), Ttl::new(Duration::from_secs(1)).unwrap());
    while !matches!(quorum.try_acquire(&request).await, Ok(AcquireOutcome::Granted(_))) {
        sleep(Duration::from_millis(2)).await;
    }
    quorum.release(&request.claim).await.unwrap();
}
