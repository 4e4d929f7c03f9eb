//! A primary that lost its data sits out. A replica that was promoted has its data, and does not.

use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Clock, Error, ErrorKind, Instant, Ttl};
use lock_redis::RedisBackend;
use lock_tests::{RedisServer, Sentinels, eventually, soon};
use tokio::task::block_in_place;

use crate::support::claim;

/// No sentinel replaces a server that restarts.
const PATIENCE: Duration = Duration::from_secs(60);

fn longest() -> Ttl {
    Ttl::new(Duration::from_secs(3)).unwrap()
}

fn open(deployment: &Sentinels) -> RedisBackend {
    RedisBackend::builder(deployment.url()).data_quarantine(longest()).build().unwrap()
}

/// Asks until there is an answer that is about the data. Returns until when the lock is held.
async fn answer(backend: &RedisBackend, name: &str) -> Result<Instant, Error> {
    answer_about(backend, &claim(name), longest()).await
}

/// Asks until there is an answer that is about the data. Returns until when the lock is held.
pub(crate) async fn answer_about(
    backend: &RedisBackend,
    claim: &Claim,
    ttl: Ttl,
) -> Result<Instant, Error> {
    loop {
        match backend.try_acquire(&Acquire::new(claim.clone(), ttl)).await {
            Ok(AcquireOutcome::Granted(grant)) => return Ok(grant.valid_until),
            Err(error) if error.retry_after().is_some() => return Err(error),
            Err(error) => assert!(error.is_retryable(), "{error}"),
            Ok(other) => panic!("{other:?}"),
        }
    }
}

/// Asks until the lock is granted. Returns when that was.
pub(crate) async fn get(backend: &RedisBackend, name: &str, ttl: Ttl) -> Instant {
    let claim = claim(name);
    soon(async {
        while answer_about(backend, &claim, ttl).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Clock::boot().now()
    })
    .await
}

/// Waits until the replica has what the primary has.
fn replicated([primary, replica]: [&RedisServer; 2]) {
    eventually("the replica has everything", Duration::from_secs(60), || {
        primary.cli(&["SET", "marker", "1"]);
        primary.cli(&["WAIT", "1", "1000"]).int() == 1
            && replica.cli(&["EXISTS", "marker"]).int() == 1
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_does_not_sit_out() {
    let deployment = Sentinels::with_patience(1, 3, PATIENCE);
    let [one, other] = deployment.servers() else { panic!() };
    let (here, there) = (open(&deployment), open(&deployment));
    here.init().await.unwrap();
    answer(&here, "a").await.unwrap();
    block_in_place(|| {
        replicated([one, other]);
        deployment.fail_over();
    });
    for (name, backend) in [("b", &here), ("c", &there), ("d", &open(&deployment))] {
        answer(backend, name).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_restarts_without_its_latest_data_sits_out_behind_sentinels() {
    futures::future::join(sits_out(false), sits_out(true)).await;
}

/// The primary restarts empty, or from a snapshot without the lock. Its replica follows it.
async fn sits_out(saved: bool) {
    let deployment = Sentinels::with_patience(1, 3, PATIENCE);
    let (here, there) = (open(&deployment), open(&deployment));
    here.init().await.unwrap();
    if saved {
        assert_eq!(deployment.servers()[0].cli(&["SAVE"]).text(), "OK");
    }
    let until = answer(&here, "a").await.unwrap();
    block_in_place(|| deployment.servers()[0].restart());
    let error = answer(&there, "a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    let since = get(&there, "a", longest()).await;
    assert!(since >= until, "two holders at once");
}
