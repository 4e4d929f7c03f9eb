//! Which servers the nodes are, and when they vote.

use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{Acquire, Backend, ErrorKind, Membership, QuorumNode, Terms, Ttl};
use lock_redlock::{Redlock, Voting};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::support::{Cluster, Quorum, claim, granted, node, until};

const TTL: Ttl = Ttl::DEFAULT;

/// How long a client watches a node before it vouches for it: the longest lease, and the drift.
const QUARANTINE: Duration = Duration::from_millis(60_602);

/// The terms of a client of so many nodes that have no names.
fn terms(nodes: usize) -> Terms {
    let names: Vec<_> = (1..=nodes).map(|number| number.to_string()).collect();
    Terms::new(Membership::of(names.iter().map(String::as_str)), TTL)
}

async fn is_refused(quorum: &Quorum) {
    let error = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
}

#[tokio::test(start_paused = true)]
async fn unknown_nodes_are_watched_for_a_whole_lease() {
    let cluster = Cluster::new(3);
    let quorum = cluster.join().await;
    let seen = Instant::now();
    is_refused(&quorum).await;
    let [status, ..] = &quorum.status().await[..] else { panic!("there are three") };
    assert_eq!(status.voting, Voting::KeptOut { at_least: QUARANTINE });

    // A later client has not watched them for so long.
    sleep(Duration::from_secs(30)).await;
    let later = cluster.join().await;
    is_refused(&later).await;

    sleep(QUARANTINE - seen.elapsed() - Duration::from_millis(1)).await;
    is_refused(&quorum).await;
    sleep(Duration::from_millis(2)).await;
    granted(&quorum, &claim("a"), TTL).await;
    // It has vouched for all.
    granted(&later, &claim("b"), TTL).await;
    assert!(later.status().await.iter().all(|status| status.voting == Voting::Yes));
    granted(&cluster.join().await, &claim("c"), TTL).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_forgot_is_quarantined_until_its_leases_are_over() {
    let cluster = Cluster::of(3).await;
    let (holder, other) = (cluster.join().await, cluster.join().await);
    // Held by two of three, one of which forgets it.
    node(&holder, 0).faults().cut();
    granted(&holder, &claim("a"), TTL).await;
    cluster.stores[1].forget();
    let attempt = other.try_acquire(&Acquire::new(claim("a"), TTL)).await;
    // Without the quarantine that would be a second holder.
    assert!(!matches!(attempt, Ok(lock_core::AcquireOutcome::Granted(_))), "{attempt:?}");
    assert!(matches!(other.status().await[1].voting, Voting::KeptOut { .. }));
    sleep(QUARANTINE).await;
    granted(&other, &claim("a"), TTL).await;
    assert_eq!(other.status().await[1].voting, Voting::Yes);
}

#[tokio::test(start_paused = true)]
async fn without_quarantine_a_node_that_forgot_makes_two_holders() {
    let cluster = Cluster::of(3).await;
    let join = async || cluster.builder().without_quarantine().build().await.unwrap();
    let (holder, other) = (join().await, join().await);
    node(&holder, 0).faults().cut();
    let first = granted(&holder, &claim("a"), TTL).await;
    cluster.stores[1].forget();
    let second = granted(&other, &claim("a"), TTL).await;
    // Of the two, the later has the higher token.
    assert!(second.tokens.first() > first.tokens.last());
}

#[tokio::test(start_paused = true)]
async fn a_restart_begins_a_quarantine_anew() {
    let cluster = Cluster::new(3);
    let quorum = cluster.join().await;
    sleep(QUARANTINE / 2).await;
    cluster.stores.iter().for_each(MemoryBackend::restart);
    sleep(QUARANTINE / 2 + Duration::from_secs(1)).await;
    // What was vouched for was another run.
    is_refused(&quorum).await;
    sleep(QUARANTINE).await;
    granted(&quorum, &claim("a"), TTL).await;
}

#[tokio::test(start_paused = true)]
async fn no_client_vouches_after_the_last_handle_is_gone() {
    let cluster = Cluster::new(1);
    let quorum = cluster.join().await;
    drop(quorum.clone());
    sleep(QUARANTINE / 2).await;
    drop(quorum);
    sleep(QUARANTINE).await;
    assert_eq!(cluster.stores[0].standing(&terms(1)).await.unwrap().max_ttl, None);
}

#[tokio::test(start_paused = true)]
async fn a_new_deployment_need_not_wait() {
    let cluster = Cluster::new(3);
    let quorum = cluster.join().await;
    node(&quorum, 2).faults().cut();
    let error = quorum.init().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 of 3 nodes are vouched for, 3 are needed: 3: the connection to the store is cut"
    );
    assert!(error.is_retryable());
    node(&quorum, 2).faults().heal();
    quorum.init().await.unwrap();
    quorum.init().await.unwrap();
    assert!(quorum.status().await.iter().all(|status| status.voting == Voting::Yes));
    granted(&quorum, &claim("a"), TTL).await;
}

#[tokio::test(start_paused = true)]
async fn longer_leases_are_made_known_to_nodes_that_vote() {
    let cluster = Cluster::of(3).await;
    let long = Ttl::new(Duration::from_secs(600)).unwrap();
    let quorum = cluster.builder().max_ttl(long).build().await.unwrap();
    granted(&quorum, &claim("a"), long).await;
    let short = cluster.join().await;
    granted(&short, &claim("b"), TTL).await;
    assert!(short.try_acquire(&Acquire::new(claim("c"), long)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_majority_is_enough_to_start() {
    let cluster = Cluster::of(5).await;
    let nodes: Vec<_> = cluster.stores.iter().map(MemoryBackend::client).collect();
    let build = || Redlock::builder().nodes(nodes.clone()).on_runtime(Handle::current()).build();
    nodes[0].faults().cut();
    let _gate = nodes[3].faults().hold_requests();
    let quorum = build().await.unwrap();
    let voting: Vec<_> = quorum.status().await.iter().map(|status| status.voting).collect();
    assert_eq!(voting, [Voting::No, Voting::Yes, Voting::Yes, Voting::No, Voting::Yes]);
    granted(&quorum, &claim("a"), TTL).await;

    nodes[1].faults().cut();
    let error = build().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 of 5 nodes answered, 3 are needed: \
         1: the connection to the store is cut; \
         2: the connection to the store is cut; \
         4: no answer within 1s"
    );
    // Those that come later vote.
    nodes.iter().for_each(|node| node.faults().heal());
    granted(&quorum, &claim("b"), TTL).await;
    until(|| cluster.leases() == 3 + 5).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_has_one_vote() {
    let [a, b] = [MemoryBackend::new(), MemoryBackend::new()];
    let builder = Redlock::builder().on_runtime(Handle::current());
    let twice = builder.node("a", a.client()).node("b", b.client()).node("c", a.client());
    let error = twice.build().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert_eq!(error.to_string(), "the nodes a and c are the same server, which has one vote");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_found_to_be_another_later_has_one_vote() {
    let [a, b] = [MemoryBackend::new(), MemoryBackend::new()];
    let again = a.client();
    again.faults().cut();
    let builder = Redlock::builder().on_runtime(Handle::current());
    let nodes = builder.node("a", a.client()).node("b", b.client()).node("c", again.clone());
    let quorum = nodes.build().await.unwrap();
    let terms = Terms::new(Membership::of(["a", "b", "c"]), TTL);
    for store in [&a, &b] {
        let standing = store.standing(&terms).await.unwrap();
        assert!(store.vouch(&standing.quarantine, Ttl::MAX).await.unwrap());
    }
    again.faults().heal();
    node(&quorum, 1).faults().cut();
    // It has answered now, and would make a majority.
    let error = quorum.try_acquire(&Acquire::new(claim("a"), TTL)).await.unwrap_err();
    let names_both = "c: the nodes a and c are the same server, which has one vote";
    assert!(error.to_string().contains(names_both), "{error}");
    assert_eq!(quorum.status().await[2].voting, Voting::No);
    node(&quorum, 1).faults().heal();
    granted(&quorum, &claim("a"), TTL).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_broke_may_lead_to_another_server() {
    let cluster = Cluster::of(3).await;
    let quorum = cluster.join().await;
    let standings = || node(&quorum, 0).stats().standings;
    let before = standings();
    granted(&quorum, &claim("a"), TTL).await;
    assert_eq!(standings(), before);
    node(&quorum, 0).faults().on(Verb::Vote).fail_next(1, ErrorKind::Unreachable);
    granted(&quorum, &claim("b"), TTL).await;
    assert_eq!(standings(), before);
    granted(&quorum, &claim("c"), TTL).await;
    assert_eq!(standings(), before + 1);
}

#[tokio::test]
async fn what_is_no_quorum_is_refused() {
    let build = async |nodes: usize, any: bool| {
        let builder = Redlock::builder().nodes((0..nodes).map(|_| MemoryBackend::new()));
        let builder = if any { builder.allow_any_number() } else { builder };
        builder.build().await.map(drop).map_err(|error| (error.kind(), error.to_string()))
    };
    for nodes in [3, 5, 7, 9, 31] {
        assert_eq!(build(nodes, false).await, Ok(()));
    }
    for nodes in [1, 2, 4] {
        let (kind, message) = build(nodes, false).await.unwrap_err();
        assert_eq!(kind, ErrorKind::InvalidConfig);
        assert!(message.contains("allow_any_number"), "{message}");
        assert_eq!(build(nodes, true).await, Ok(()));
    }
    for nodes in [0, 32] {
        assert!(build(nodes, true).await.is_err());
    }
    let same = Redlock::builder().node("a", MemoryBackend::new()).node("b", MemoryBackend::new());
    let error = same.node("a", MemoryBackend::new()).build().await.unwrap_err();
    assert_eq!(error.to_string(), "there are two nodes with the name a");
}
