//! Repeats of places.

use std::time::Duration;

use futures::future::join_all;
use futures::poll;
use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Mode};

use super::{MANY, claims, hold, open, pttl, queue_for, scripts};
use crate::support::{Client, Server, Waiter, attempt, claim, granted, long, millis, refused};

#[tokio::test]
async fn places_that_are_kept_together_are_few_scripts_and_served_in_order() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let claims = claims(MANY);
    hold(&holder, &claims).await;
    let mut line = queue_for(&other, &claims).await;
    line.extend(queue_for(&other, &claims[..10]).await);
    let mut raw = server.client();
    join_all(line.iter().map(Waiter::ask)).await;
    for number in 0..MANY {
        for end in ["queue", "places"] {
            raw.command::<()>(&["PEXPIRE", &format!("lock:{{{number}}}:{end}"), "5000"]);
        }
    }
    let before = scripts(&mut raw);
    for attempt in join_all(line.iter().map(Waiter::ask)).await {
        let AcquireOutcome::Queued { retry_after: Some(after) } = attempt.unwrap() else {
            panic!()
        };
        assert!(after > Duration::from_secs(5) && after <= long().duration());
    }
    assert_eq!(scripts(&mut raw) - before, 2);
    for number in 0..MANY {
        let [queue, places] =
            ["queue", "places"].map(|end| pttl(&mut raw, &format!("lock:{{{number}}}:{end}")));
        assert!(queue > 15_000 && places > 15_000, "{queue} {places}");
    }
    let (first, second) = line.split_at_mut(MANY);
    for (claim, waiter) in claims.iter().zip(&mut *first) {
        holder.release(claim).await.unwrap();
        waiter.gets_it().await;
        // A lease that was handed over ends before all the others are.
        waiter.asks_and_has().await;
    }
    for (holder, waiter) in first.iter().zip(second) {
        holder.release().await;
        waiter.gets_it().await;
    }
}

#[tokio::test]
async fn a_place_that_cannot_be_kept_is_asked_for_alone() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let claims = claims(8);
    hold(&holder, &claims).await;
    let line = queue_for(&other, &claims).await;
    join_all(line.iter().map(Waiter::ask)).await;
    // Loads the full script.
    granted(&other, &claim("readers").in_mode(Mode::Shared)).await;
    let mut raw = server.client();
    spoil_places(&mut raw, &line[6]);
    let before = scripts(&mut raw);
    let told = join_all(line.iter().map(Waiter::ask)).await;
    assert_eq!(scripts(&mut raw) - before, 1 + 5);
    let waits = told.into_iter().map(|attempt| match attempt.unwrap() {
        AcquireOutcome::Queued { retry_after } => retry_after,
        AcquireOutcome::Granted(_) => None,
        other => panic!("{other:?}"),
    });
    let waits = waits.collect::<Vec<_>>();
    for (number, wait) in waits.iter().enumerate() {
        assert_eq!(wait.is_some(), number != 1, "{number}");
    }
    // The first claim in the queue looks for the end of a foreign lease, as a foreign client tells no client of its
    // release.
    for (number, wait) in waits.iter().enumerate() {
        let is_soon = *wait == Some(Duration::from_millis(60));
        assert_eq!(is_soon, [3, 4].contains(&number), "{number}");
    }
    for key in ["lock:{2}:queue", "lock:{4}:queue", "lock:{6}:queue"] {
        assert_eq!(raw.command::<u64>(&["LLEN", key]), 1, "{key}");
    }
    refused(&holder, &claim("1")).await;
}

/// The first lock is free, the second lacks its queue, foreign clients hold the third and the fourth, and on the
/// fourth an expired place comes first. The fifth is shared, and on the sixth the place is lost.
fn spoil_places(raw: &mut Client, sixth: &Waiter) {
    raw.command::<()>(&["DEL", "lock:{1}"]);
    raw.command::<()>(&["DEL", "lock:{2}:queue"]);
    raw.command::<()>(&["SET", "lock:{3}", "theirs", "PX", "50000"]);
    raw.command::<()>(&["SET", "lock:{4}", "theirs", "PX", "50000"]);
    raw.command::<()>(&["LPUSH", "lock:{4}:queue", "x:00000000000000000000000000000000"]);
    raw.command::<()>(&["SET", "lock:{5}", &format!("{:32}", "*shared"), "PX", "50000"]);
    raw.command::<()>(&["HDEL", "lock:{6}:places", &format!("x:{}", owner(sixth.claim()))]);
}

fn owner(claim: &Claim) -> String {
    String::from_utf8(claim.owner.expose().to_vec()).unwrap()
}

#[tokio::test]
async fn a_repeat_that_is_dropped_takes_no_place() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let claims = claims(3);
    hold(&holder, &claims).await;
    let line = queue_for(&other, &claims).await;
    let mut asking = line.iter().map(|waiter| Box::pin(waiter.ask())).collect::<Vec<_>>();
    for ask in &mut asking {
        assert!(poll!(ask).is_pending());
    }
    drop(asking.remove(0));
    line[0].release().await;
    for attempt in join_all(asking).await {
        assert!(matches!(attempt.unwrap(), AcquireOutcome::Queued { .. }));
    }
    assert!(!server.client().command::<bool>(&["EXISTS", "lock:{0}:queue"]));
}

#[tokio::test]
async fn a_lease_that_a_short_place_was_told_of_is_not_taken() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let held = claims(2);
    // Two claims have to wait and to ask again before it ends.
    let short = millis(5_000);
    for claim in &held {
        let attempt = holder.try_acquire(&Acquire::new(claim.clone(), short)).await.unwrap();
        assert!(matches!(attempt, AcquireOutcome::Granted(_)));
    }
    let line = queue_for(&other, &held).await;
    // The client asks again when the lease ends, and then gets the lock.
    for attempt in join_all(line.iter().map(Waiter::ask)).await {
        let AcquireOutcome::Queued { retry_after: Some(after) } = attempt.unwrap() else {
            panic!()
        };
        assert!(after <= short.duration());
    }
    tokio::time::sleep(short.duration() + Duration::from_millis(10)).await;
    for attempt in join_all(line.iter().map(Waiter::ask)).await {
        assert!(matches!(attempt.unwrap(), AcquireOutcome::Granted(_)));
    }
    for claim in &held {
        assert!(matches!(attempt(&holder, claim).await.unwrap(), AcquireOutcome::Busy { .. }));
    }
}
