//! A lock that is held, or asked for, while servers fail.

use std::time::{Duration, Instant};

use lock_core::ErrorKind;
use lock_sync::{LockError, LossReason, OwnedMutexGuard, TryLockError};
use lock_tests::{Direction, RedisServer, eventually_async};

use crate::support::{Client, LEASE, LONG, MAX_TTL, NODE_TIMEOUT, Nodes, SLACK, SOON, soon};

#[tokio::test]
async fn a_lock_outlives_a_minority() {
    let nodes = Nodes::new(5).await;
    let (here, there) = nodes.pair().await;
    let guard = soon(here.mutex().lock_owned()).await.unwrap();
    nodes.servers()[1].kill();
    nodes.servers()[4].stop();
    // Renewed more than once meanwhile, by the three that are left.
    let lost = tokio::time::timeout(LEASE * 2, OwnedMutexGuard::lease(&guard).lost()).await;
    assert!(lost.is_err(), "{lost:?}");
    assert!(OwnedMutexGuard::lease(&guard).is_valid());
    assert!(matches!(there.try_lock().await, Err(TryLockError::WouldBlock)));
    let begin = Instant::now();
    OwnedMutexGuard::release(guard).await.unwrap();
    OwnedMutexGuard::release(soon(there.mutex().lock_owned()).await.unwrap()).await.unwrap();
    assert!(begin.elapsed() < SLACK, "{:?}", begin.elapsed());
    nodes.servers()[4].cont();
    // It hears of both releases now.
    nodes.until_held_on(&[]).await;
}

#[tokio::test]
async fn a_majority_that_dies_ends_the_lock_at_its_deadline() {
    let nodes = Nodes::new(3).await;
    let (here, there) = nodes.pair().await;
    let guard = soon(here.mutex().lock_owned()).await.unwrap();
    let begin = Instant::now();
    nodes.servers()[..2].iter().for_each(RedisServer::kill);
    let lost = soon(OwnedMutexGuard::lease(&guard).lost()).await;
    assert_eq!(lost.reason(), LossReason::Expired);
    assert!(!OwnedMutexGuard::lease(&guard).is_valid() && here.locks.mutex("other", ()).is_ok());
    assert!(begin.elapsed() < LEASE + SLACK);

    // The error says at once what is wrong with which server.
    nodes.until_held_on(&[]).await;
    let begin = Instant::now();
    let Err(TryLockError::Backend(error)) = there.try_lock().await else { panic!("no quorum") };
    assert!(begin.elapsed() < NODE_TIMEOUT + SLACK / 2);
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    for (name, way) in [("1: ", &there.ways[0]), ("2: ", &there.ways[1])] {
        let (error, port) = (error.to_string(), way.addr().port().to_string());
        assert!(error.contains(name) && error.contains(&port), "{error}");
    }
    let waiting = there.mutex().lock_owned_timeout(LEASE / 2).await;
    assert!(matches!(waiting, Err(LockError::Timeout { source: Some(_) })), "{waiting:?}");

    // They have forgotten everything, and are quarantined for as long as the longest lease.
    let begin = Instant::now();
    nodes.servers()[..2].iter().for_each(RedisServer::restart);
    let next = soon(there.mutex().lock_owned_timeout(SOON)).await.unwrap();
    assert!(
        OwnedMutexGuard::lease(&next).fencing_token()
            > OwnedMutexGuard::lease(&guard).fencing_token()
    );
    let took = begin.elapsed();
    assert!(took + SLACK / 6 > MAX_TTL && took < MAX_TTL + SLACK, "{took:?}");
}

#[tokio::test]
async fn a_lock_outlives_a_pause_of_all_servers_that_is_shorter_than_its_lease() {
    // After the pause, a busy machine has more than a second for a renewal. A node may take longer than the pause.
    let (lease, timeout) = (3 * LEASE, 3 * NODE_TIMEOUT);
    let nodes = Nodes::with(3, lease, |server| server).await;
    let client = async || {
        let patient = |quorum: lock_redlock::Builder<_>| quorum.node_timeout(timeout);
        Client::with(&nodes, patient, |locks| locks.ttl(lease)).await
    };
    let (here, there) = (client().await, client().await);
    let guard = soon(here.mutex().lock_owned()).await.unwrap();
    nodes.servers().iter().for_each(RedisServer::stop);
    let lost = tokio::time::timeout(lease / 3, OwnedMutexGuard::lease(&guard).lost()).await;
    nodes.servers().iter().for_each(RedisServer::cont);
    assert!(lost.is_err(), "{lost:?}");
    let lost = tokio::time::timeout(lease * 2, OwnedMutexGuard::lease(&guard).lost()).await;
    assert!(lost.is_err() && OwnedMutexGuard::lease(&guard).is_valid(), "{lost:?}");
    assert!(matches!(there.try_lock().await, Err(TryLockError::WouldBlock)));
}

#[tokio::test]
async fn a_pause_of_a_majority_that_is_longer_than_the_lease_ends_it() {
    let nodes = Nodes::new(3).await;
    let (here, there) = nodes.pair().await;
    let guard = soon(here.mutex().lock_owned()).await.unwrap();
    let paused = &nodes.servers()[1..];
    paused.iter().for_each(RedisServer::stop);
    assert_eq!(soon(OwnedMutexGuard::lease(&guard).lost()).await.reason(), LossReason::Expired);
    paused.iter().for_each(RedisServer::cont);
    // The servers have kept their data, so none is quarantined.
    let begin = Instant::now();
    let next = soon(there.mutex().lock_owned_timeout(SOON)).await.unwrap();
    assert!(begin.elapsed() < SLACK, "{:?}", begin.elapsed());
    assert!(
        OwnedMutexGuard::lease(&next).fencing_token()
            > OwnedMutexGuard::lease(&guard).fencing_token()
    );
}

/// Two clients with leases that outlast the test, and connections to all servers.
async fn lasting(nodes: &Nodes) -> (Client, Client) {
    let client = async || {
        let client = Client::with(nodes, |quorum| quorum, |locks| locks.ttl(LONG)).await;
        OwnedMutexGuard::release(soon(client.mutex().lock_owned()).await.unwrap()).await.unwrap();
        client
    };
    let pair = (client().await, client().await);
    nodes.until_held_on(&[]).await;
    pair
}

#[tokio::test]
async fn a_request_that_was_given_up_leaves_no_ghost() {
    let nodes = Nodes::long(3).await;
    let (here, there) = lasting(&nodes).await;
    nodes.servers().iter().for_each(RedisServer::stop);
    let refused = here.mutex().lock_owned_timeout(NODE_TIMEOUT * 2).await;
    assert!(matches!(refused, Err(LockError::Timeout { source: Some(_) })), "{refused:?}");
    let mut dropped = Box::pin(here.mutex().lock_owned());
    assert!(tokio::time::timeout(NODE_TIMEOUT / 2, &mut dropped).await.is_err());
    drop(dropped);
    // What waits in the buffers is done now.
    nodes.servers().iter().for_each(RedisServer::cont);
    nodes.until_held_on(&[]).await;
    OwnedMutexGuard::release(soon(there.mutex().lock_owned()).await.unwrap()).await.unwrap();
}

/// A node that a client asks for this lock as long as nothing fails.
async fn asked_first(nodes: &Nodes, client: &Client) -> usize {
    let turn = async || {
        OwnedMutexGuard::release(soon(client.mutex().lock_owned()).await.unwrap()).await.unwrap()
    };
    // Of the first answers the client learns how far away the nodes are.
    turn().await;
    nodes.until_held_on(&[]).await;
    let before: Vec<_> = nodes.servers().iter().map(RedisServer::commandstats).collect();
    turn().await;
    let asked = |node: &usize| {
        nodes.servers()[*node].commandstats().since(&before[*node]).calls("evalsha") > 0
    };
    (0..before.len()).find(asked).expect("a majority was asked")
}

#[tokio::test]
async fn a_release_does_not_overtake_its_request() {
    for direction in [Direction::ToServer, Direction::ToClient] {
        let nodes = Nodes::long(3).await;
        let (here, there) = lasting(&nodes).await;
        let slow = asked_first(&nodes, &here).await;
        let (way, slow) = (&here.ways[slow], &nodes.servers()[slow]);
        let before = slow.commandstats();
        way.silence(direction);
        let guard = soon(here.mutex().lock_owned()).await.unwrap();
        OwnedMutexGuard::release(guard).await.unwrap();
        way.pass();
        // Both have come, and in this order.
        let came = async || slow.commandstats().since(&before).calls("evalsha") >= 2;
        eventually_async("both have come", SOON, came).await;
        nodes.until_held_on(&[]).await;
        OwnedMutexGuard::release(soon(there.mutex().lock_owned()).await.unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn servers_that_are_slow_do_not_hold_up_the_others() {
    const ROUNDS: u32 = 40;
    let nodes = Nodes::new(5).await;
    let (here, _there) = nodes.pair().await;
    // More than they are given.
    for way in &here.ways[3..] {
        way.delay(Direction::ToServer, NODE_TIMEOUT * 2);
    }
    let begin = Instant::now();
    for _ in 0..ROUNDS {
        OwnedMutexGuard::release(soon(here.mutex().lock_owned()).await.unwrap()).await.unwrap();
    }
    assert!(begin.elapsed() < NODE_TIMEOUT * ROUNDS / 2, "{:?}", begin.elapsed());
    nodes.until_held_on(&[]).await;
}

#[tokio::test]
async fn a_grant_that_comes_when_its_lease_is_over_is_none() {
    let nodes = Nodes::new(3).await;
    let patient = |quorum: lock_redlock::Builder<_>| quorum.node_timeout(SOON);
    let lease = Duration::from_secs(1);
    let here = Client::with(&nodes, patient, |locks| locks.ttl(lease)).await;
    OwnedMutexGuard::release(soon(here.mutex().lock_owned()).await.unwrap()).await.unwrap();
    for way in &here.ways[1..] {
        way.delay(Direction::ToClient, lease * 2);
    }
    let Err(TryLockError::Backend(error)) = here.try_lock().await else { panic!("it is over") };
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    here.ways.iter().for_each(lock_tests::Proxy::pass);
    nodes.until_held_on(&[]).await;
}
