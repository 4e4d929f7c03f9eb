//! Requests that are dropped at any of their polls.

use std::num::NonZeroU32;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Backend, CellBackend, Claim, Convert, ConvertBackend, Mode, Released,
};
use lock_postgres::PostgresBackend;
use lock_tests::{SOON, eventually};

use crate::support::{Database, claim, granted, long};

/// Polls a future so often, with pauses in which other threads go on, and drops it.
async fn drop_after(polls: u32, future: impl Future) {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if polled.await.is_ready() {
            return;
        }
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
}

const POLLS: [u32; 10] = [0, 1, 2, 3, 4, 6, 9, 14, 20, 40];

fn nothing_is_held(database: &Database) {
    let left = "SELECT (SELECT count(*) FROM lock_v1.held WHERE ends > clock_timestamp()) \
                + (SELECT count(*) FROM lock_v1.waiter)";
    eventually("nothing is held or waited for", SOON, || database.sql(left) == "0\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_request_leaves_nothing_behind_once_it_is_released() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    for polls in POLLS {
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Permits { take: 1, of: 2 }];
        for (index, mode) in modes.into_iter().enumerate() {
            let ours = claim(format!("{polls}/{index}")).in_mode(mode);
            drop_after(polls, one.try_acquire(&Acquire::new(ours.clone(), long()))).await;
            one.release(&ours).await.unwrap();
            let theirs = claim(format!("{polls}/{index}"));
            granted(&other, &theirs, long()).await;
            other.release(&theirs).await.unwrap();
        }
    }
    nothing_is_held(&database);
}

/// The keys use several connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_requests_that_are_dropped_together_can_be_released() {
    let database = Database::new();
    let store = database.open();
    for polls in POLLS {
        let claims: Vec<Claim> = (0..6).map(|index| claim(format!("{polls}/{index}"))).collect();
        let requests: Vec<_> = claims.iter().map(|it| Acquire::new(it.clone(), long())).collect();
        drop_after(polls, store.try_acquire_all(&requests)).await;
        for claim in &claims {
            store.release(claim).await.unwrap();
        }
        nothing_is_held(&database);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_wait_leaves_the_queue() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    for polls in POLLS {
        let (ours, theirs) = (claim(format!("{polls}")), claim(format!("{polls}")));
        granted(&one, &ours, long()).await;
        drop_after(polls, other.watch(&theirs.key)).await;
        let _watch = other.watch(&theirs.key).await.unwrap();
        drop_after(polls, other.try_acquire(&Acquire::new(theirs.clone(), long()).queued())).await;
        other.release(&theirs).await.unwrap();
        one.release(&ours).await.unwrap();
    }
    nothing_is_held(&database);
    let watchers = "SELECT count(*) FROM lock_v1.watcher";
    eventually("no watch is left", SOON, || database.sql(watchers) == "0\n");
    eventually("rows are plain again", SOON, || {
        database.sql("SELECT count(*) FROM lock_v1.key WHERE NOT plain") == "0\n"
    });
}

async fn ends(store: &PostgresBackend, claims: [&Claim; 2]) {
    for claim in claims {
        store.release(claim).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_conversion_or_commit_can_be_released() {
    let database = Database::new();
    let store = database.open();
    for polls in POLLS {
        let ours = claim(format!("{polls}"));
        let token = granted(&store, &ours, long()).await.tokens.first();
        drop_after(polls, store.commit(&ours, token, b"value")).await;
        ends(&store, [&ours, &ours]).await;

        let written = claim(format!("{polls}"));
        granted(&store, &written, long()).await;
        let convert = Convert::new(written.clone(), Mode::Shared, long());
        drop_after(polls, store.convert(&convert)).await;
        ends(&store, [&written, &written.clone().in_mode(Mode::Shared)]).await;

        let ours = claim(format!("{polls}"));
        granted(&store, &ours, long()).await;
        drop_after(polls, store.release(&ours)).await;
        assert!(matches!(
            store.release(&ours).await.unwrap(),
            Released::Freed { .. } | Released::NotHeld
        ));
    }
    nothing_is_held(&database);
    let many = Acquire::new(claim("many"), long()).reserving(NonZeroU32::new(1000).unwrap());
    assert!(matches!(store.try_acquire(&many).await.unwrap(), AcquireOutcome::Granted(_)));
}
