//! Servers that have all restarted, and clients that do not stay long enough to vouch for them.

use std::time::Instant;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Key, OwnerToken, Ttl};
use lock_redis::RedisBackend;
use lock_redlock::Redlock;
use tokio::time::timeout;

use crate::support::{MAX_TTL, Nodes, SLACK, SOON, soon};

/// A client that asks once and goes away, as a cron job does.
async fn passes_by(nodes: &Nodes, fallback: bool) -> bool {
    let backends = nodes.servers().iter().map(|it| RedisBackend::open(it.url()).unwrap());
    let mut builder = Redlock::builder().nodes(backends).max_ttl(Ttl::new(MAX_TTL).unwrap());
    if !fallback {
        builder = builder.without_clock_fallback();
    }
    // Too few servers may answer yet.
    let Ok(quorum) = builder.build().await else { return false };
    let claim = Claim::exclusive(Key::new("cron").unwrap(), OwnerToken::generate().unwrap());
    let request = Acquire::new(claim.clone(), Ttl::new(MAX_TTL).unwrap());
    let is_granted = matches!(quorum.try_acquire(&request).await, Ok(AcquireOutcome::Granted(_)));
    if is_granted {
        // A node may be late.
        while quorum.release(&claim).await.is_err() {}
    }
    is_granted
}

#[tokio::test]
async fn short_lived_clients_get_locks_again_after_all_servers_have_restarted() {
    let nodes = Nodes::with(3, MAX_TTL, |server| server).await;
    // A client whose requests are late on a busy machine gets no lock, and the next client does.
    soon(async { while !passes_by(&nodes, true).await {} }).await;
    for server in nodes.servers() {
        server.kill();
    }
    let began = Instant::now();
    for server in nodes.servers() {
        server.restart();
    }
    let waiting = async { while !passes_by(&nodes, true).await {} };
    timeout(2 * SOON, waiting).await.expect("a client gets the lock");
    // The clock of the servers ends the quarantine: no client stays for the time of a lease.
    assert!(began.elapsed() >= 2 * MAX_TTL, "{:?}", began.elapsed());
    assert!(began.elapsed() < 2 * MAX_TTL + SLACK, "{:?}", began.elapsed());
}

#[tokio::test]
async fn without_the_fallback_no_short_lived_client_gets_a_lock() {
    let nodes = Nodes::with(3, MAX_TTL, |server| server).await;
    for server in nodes.servers() {
        server.restart();
    }
    let began = Instant::now();
    while began.elapsed() < 3 * MAX_TTL {
        assert!(!passes_by(&nodes, false).await);
    }
    // Another client, which would end it.
    assert!(!passes_by(&nodes, true).await);
}
