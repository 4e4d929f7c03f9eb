//! The members of a quorum, and several clients that ask it at one moment.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, ErrorKind, Key, OwnerToken, Ttl};
use lock_redis::RedisBackend;
use lock_redlock::Redlock;
use lock_sync::{LockError, Locks, OwnedMutexGuard, TryLockError};
use lock_tests::{Proxy, RedisServer};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{Client, LEASE, LONG, NODE_TIMEOUT, Nodes, SOON, soon};

/// Waits for contenders, on a busy machine too. A vote that stays behind would hold them up for longer.
async fn all<T: 'static>(contenders: JoinSet<T>) -> Vec<T> {
    timeout(SOON * 3, contenders.join_all()).await.expect("the contenders have ended")
}

#[tokio::test]
async fn a_server_by_two_names_is_refused() {
    let nodes = Nodes::new(3).await;
    let [a, b, _] = nodes.servers() else { panic!("there are three") };
    // Another address, and nothing that shows where it leads.
    let other_way = Proxy::before(a);
    let open = |url: String| RedisBackend::open(url).unwrap();
    let error = Redlock::builder()
        .node("a", open(a.url()))
        .node("b", open(b.url()))
        .node("c", open(other_way.url()))
        .build()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert_eq!(error.to_string(), "the nodes a and c are the same server, which has one vote");
}

/// An error and its causes.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |it| (*it).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn locks_over_servers_that_were_never_declared_new_say_how_to_declare_them() {
    let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let backends = servers.iter().map(|server| RedisBackend::open(server.url()).unwrap());
    // The quarantine outlasts the test.
    let builder = Redlock::builder().nodes(backends).max_ttl(Ttl::new(LONG).unwrap());
    let quorum = builder.node_timeout(SOON).build().await.unwrap();
    let locks = Locks::builder(quorum.clone()).outage_limit(LEASE).build().unwrap();
    let mutex = locks.mutex("it", ()).unwrap();

    let tried = soon(mutex.try_lock()).await.unwrap_err();
    assert!(matches!(&tried, TryLockError::Backend(_)), "{tried:?}");
    let waited = soon(mutex.lock_timeout(LEASE / 2)).await.unwrap_err();
    assert!(matches!(&waited, LockError::Timeout { source: Some(_) }), "{waited:?}");
    let locked = soon(mutex.lock()).await.unwrap_err();
    assert!(matches!(&locked, LockError::Backend(_)), "{locked:?}");
    for error in [chain(&tried), chain(&waited), chain(&locked)] {
        assert!(error.contains("where no client holds a lock, call Redlock::init once"), "{error}");
    }

    quorum.init().await.unwrap();
    drop(soon(mutex.lock()).await.unwrap());
}

#[tokio::test]
async fn a_majority_is_enough_to_start() {
    let nodes = Nodes::new(5).await;
    nodes.servers()[0].kill();
    nodes.servers()[3].stop();
    let client = Client::new(&nodes).await;
    OwnedMutexGuard::release(soon(client.mutex().lock_owned()).await.unwrap()).await.unwrap();
    assert_eq!(client.voters().await, [1, 2, 4]);

    nodes.servers()[1].kill();
    let urls = nodes.servers().iter().map(RedisServer::url);
    let backends = urls.map(|url| RedisBackend::open(url).unwrap());
    let builder = Redlock::builder().nodes(backends).node_timeout(NODE_TIMEOUT);
    let error = builder.build().await.unwrap_err();
    assert!(
        error.is_retryable() && error.to_string().starts_with("2 of 5 nodes answered"),
        "{error}"
    );

    // Those that come later vote: one at once, two when they certainly hold nothing any more.
    nodes.servers()[3].cont();
    nodes.servers()[..2].iter().for_each(RedisServer::restart);
    client.until_voting(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contenders_that_ask_at_the_same_moment_settle() {
    const CONTENDERS: usize = 5;
    const ROUNDS: usize = 12;
    let nodes = Nodes::long(5).await;
    let barrier = Arc::new(Barrier::new(CONTENDERS));
    let mut contenders = JoinSet::new();
    for _ in 0..CONTENDERS {
        let client = Client::with(&nodes, |quorum| quorum, |locks| locks.ttl(LONG)).await;
        let barrier = Arc::clone(&barrier);
        contenders.spawn(async move {
            let mut waits = Vec::new();
            for _ in 0..ROUNDS {
                barrier.wait().await;
                let begin = Instant::now();
                let guard = client.mutex().lock_owned().await.unwrap();
                waits.push((OwnedMutexGuard::lease(&guard).fencing_token(), begin.elapsed()));
                OwnedMutexGuard::release(guard).await.unwrap();
            }
            (client, waits)
        });
    }
    // Releases to the slowest nodes are still under way, and end with the last handle of a client.
    let (clients, waits): (Vec<_>, Vec<_>) = all(contenders).await.into_iter().unzip();
    let mut waits: Vec<_> = waits.into_iter().flatten().collect();
    waits.sort_unstable();
    assert!(waits.windows(2).all(|pair| pair[0].0 < pair[1].0), "a token was given twice");
    // The first of each round has nothing to wait for but that the votes are not split any more.
    let slowest: Duration = waits.chunks(CONTENDERS).map(|round| round[0].1).max().unwrap();
    println!("the first of {CONTENDERS} had the lock after at most {slowest:?}");
    // A wait for a node that does not answer would cost the time that a node is given.
    assert!(slowest < nodes.timeout(), "{slowest:?}");
    // And no vote stays behind for a refused client.
    nodes.until_held_on(&[]).await;
    drop(clients);
}

/// A node may grant what was refused in the meantime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_client_leaves_no_vote_behind() {
    const CONTENDERS: usize = 6;
    const GRANTS: usize = 60;
    let nodes = Nodes::long(5).await;
    let grants = Arc::new(AtomicUsize::new(0));
    let mut contenders = JoinSet::new();
    let mut clients = Vec::new();
    for _ in 0..CONTENDERS {
        let client = Client::new(&nodes).await;
        let (quorum, grants) = (client.quorum.clone(), Arc::clone(&grants));
        clients.push(client);
        contenders.spawn(async move {
            let mut refused = 0;
            while grants.load(Ordering::Relaxed) < GRANTS {
                let owner = OwnerToken::generate().unwrap();
                let claim = Claim::exclusive(Key::new("it").unwrap(), owner);
                let request = Acquire::new(claim.clone(), Ttl::new(LONG).unwrap());
                match quorum.try_acquire(&request).await.unwrap() {
                    AcquireOutcome::Granted(_) => {
                        grants.fetch_add(1, Ordering::Relaxed);
                        quorum.release(&claim).await.unwrap();
                    }
                    _ => refused += 1,
                }
            }
            refused
        });
    }
    let refused: usize = all(contenders).await.into_iter().sum();
    println!("{refused} were refused");
    assert!(refused > 0);
    nodes.until_held_on(&[]).await;
}
