//! Confirmed grants, and a primary that is replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{
    AcquireOutcome, Backend, Claim, Clock, Error, ErrorKind, Grant, Renew, Renewal, Ttl,
};
use lock_redis::RedisBackend;
use lock_tests::{
    ClusterNode, RedisCluster, RedisServer, Sentinels, eventually, eventually_async, soon,
};

use crate::confirmed::{LIMIT, ask, eventually_granted, says};
use crate::support::{Set, TIMEOUT, claim, long, released};

/// Takes locks until the primary has been killed while it was cut off. Returns the claims that were granted.
async fn take_until_killed(set: &Set, client: impl Fn() -> RedisBackend) -> Vec<Claim> {
    const TASKS: usize = 8;
    let answers = Arc::new(AtomicUsize::new(0));
    let tasks = (0..TASKS).map(|task| {
        let (backend, answers) = (client(), Arc::clone(&answers));
        tokio::spawn(async move {
            let mut held = Vec::new();
            for number in 0.. {
                let claim = claim(format!("{task}-{number}"));
                match ask(&backend, &claim).await {
                    Ok(AcquireOutcome::Granted(_)) => held.push(claim),
                    Ok(other) => panic!("{other:?}"),
                    Err(error) if error.kind() == ErrorKind::Unreachable => break,
                    Err(_) => {}
                }
                answers.fetch_add(1, Ordering::SeqCst);
            }
            held
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let answers = || answers.load(Ordering::SeqCst);
    tokio::task::block_in_place(|| {
        eventually("locks are granted", LIMIT, || answers() > 100);
        set.stall();
        // Each task has at most one request under way that may still be replicated.
        let before = answers();
        eventually("more locks are asked for", LIMIT, || answers() > before + 2 * TASKS);
        set.primary.kill();
        set.replicas[0].1.cut();
    });
    let mut held = Vec::new();
    for task in tasks {
        held.extend(soon(task).await.unwrap());
    }
    assert_eq!(set.replicas[0].0.cli(&["REPLICAOF", "NO", "ONE"]).text(), "OK");
    held
}

/// Of these leases, how many the replica does not have.
fn lost(set: &Set, held: &[Claim]) -> usize {
    let key = |claim: &Claim| format!("lock:{{{}}}", String::from_utf8_lossy(claim.key.as_bytes()));
    let is_lost = |claim: &&Claim| set.replicas[0].0.cli(&["GET", &key(claim)]).is_nil();
    held.iter().filter(is_lost).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_confirmed_grant_is_lost_with_the_primary() {
    let set = Set::start(1);
    let held = take_until_killed(&set, || set.client()).await;
    assert!(!held.is_empty());
    assert_eq!(lost(&set, &held), 0, "of {}", held.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unconfirmed_grants_are_lost_with_the_primary() {
    let set = Set::start(1);
    let held = take_until_killed(&set, || set.builder().build().unwrap()).await;
    assert!(lost(&set, &held) > 0, "the test proves nothing: none of {} is lost", held.len());
}

/// A confirmed holder and what it knows live through a failover. Then grants wait until the old primary is a replica.
async fn goes_on(url: &str, primary: &RedisServer, key: &str) {
    let builder = RedisBackend::builder(url).command_timeout(4 * TIMEOUT);
    let backend = builder.confirm(1, TIMEOUT).build().unwrap();
    let (held, next) = (claim(key), claim(key));
    eventually_granted(&backend, &held).await;
    primary.kill();
    let error = eventually_refused(&backend, &held).await;
    says(&error, "0 replicas are attached instead of 1");
    primary.restart();
    eventually_async("renewals count again", LIMIT, async || {
        matches!(backend.renew(&Renew::new(held.clone(), long())).await, Renewal::Renewed { .. })
    })
    .await;
    assert!(matches!(ask(&backend, &next).await, Ok(AcquireOutcome::Busy { .. })));
    released(&backend, &held).await;
    eventually_granted(&backend, &next).await;
}

/// Renews until the server says that too few replicas are attached.
async fn eventually_refused(backend: &RedisBackend, held: &Claim) -> Error {
    let until = Clock::boot().now() + LIMIT;
    loop {
        match backend.renew(&Renew::new(held.clone(), Ttl::MAX.min(long()))).await {
            Renewal::Unknown(error) if error.to_string().contains("attached") => return error,
            Renewal::Unknown(error) => assert!(error.is_retryable(), "{error}"),
            other => panic!("{other:?}"),
        }
        assert!(Clock::boot().now() < until, "there is no failover");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_a_confirmed_lease_lives_through_a_failover() {
    let deployment = Sentinels::start(1, 3);
    goes_on(&deployment.url(), &deployment.servers()[0], "a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_a_confirmed_lease_lives_through_a_failover() {
    let cluster = RedisCluster::start(3, 3);
    let owner = cluster.owner_of("lock:{a}");
    let primary = ClusterNode::server(&cluster.nodes()[owner]);
    goes_on(&cluster.url(), primary, "a").await;
}

/// Asks a primary that is paused, and that goes on after its replica has been promoted. Returns its answer, and the
/// grant of the new primary.
async fn ask_too_late(confirm: bool) -> (Result<AcquireOutcome, Error>, Option<Grant>) {
    let deployment = Sentinels::start(1, 3);
    let primary = &deployment.servers()[0];
    let builder = |url: String| RedisBackend::builder(url).command_timeout(LIMIT);
    let plain = builder(primary.url());
    let backend = if confirm { plain.confirm(1, TIMEOUT) } else { plain }.build().unwrap();
    // The connections are there.
    eventually_granted(&backend, &claim("other")).await;
    primary.stop();
    let asking = tokio::spawn(async move { ask(&backend, &claim("a")).await });
    tokio::task::block_in_place(|| deployment.replaces(0));
    let there = builder(deployment.url()).build().unwrap();
    let attempt = ask(&there, &claim("a")).await;
    primary.cont();
    let grant = match attempt {
        Ok(AcquireOutcome::Granted(grant)) => Some(grant),
        _ => None,
    };
    (soon(asking).await.unwrap(), grant)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_replaced_while_it_was_paused_confirms_nothing() {
    let (answer, _) = ask_too_late(true).await;
    assert!(answer.is_err(), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_confirmation_a_primary_that_was_replaced_grants_what_its_successor_has_granted() {
    let (answer, grant) = ask_too_late(false).await;
    let Ok(AcquireOutcome::Granted(late)) = answer else {
        panic!("the test proves nothing: {answer:?}")
    };
    let grant = grant.expect("the new primary has granted the lock");
    // A resource that compares tokens would refuse the rightful holder.
    assert!(late.tokens.first() > grant.tokens.last());
}
