//! Foreign clients get their turn although claims of this library wait.

use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Hint, Key, Released};
use lock_redis::RedisBackend;
use lock_tests::{SOON, eventually_async};

use crate::support::{Client, Server, Waiter, claim, claim_of, granted, long, refused};

const TURNS: u32 = 2;
/// Longer than everything that a test does within it.
const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(200);

fn open(server: &Server, pause: Duration) -> RedisBackend {
    RedisBackend::builder(server.url()).gap(TURNS, pause).build().unwrap()
}

fn exact() -> Claim {
    claim_of(Key::raw("jobs").unwrap())
}

fn set(raw: &mut Client) -> bool {
    raw.command::<Option<String>>(&["SET", "jobs", "theirs", "NX", "PX", "60000"]).is_some()
}

/// Hands the lock over as often as allowed before a gap. Returns the last holder.
async fn turns(backend: &RedisBackend, holder: Claim) -> Claim {
    let mut holder = holder;
    for _ in 0..TURNS {
        let mut next = Waiter::queue(backend, another(&holder)).await;
        assert_eq!(backend.release(&holder).await.unwrap(), Released::Freed { told: 0 });
        next.gets_it().await;
        holder = next.claim().clone();
    }
    holder
}

/// Another claim for the same key.
fn another(holder: &Claim) -> Claim {
    claim_of(holder.key.clone())
}

/// How long the first claim in the queue should wait before it asks.
async fn next(waiter: &mut Waiter) -> Duration {
    match waiter.hint().await {
        Hint::Next { owner, after } if owner == waiter.claim().owner => after,
        other => panic!("expected its turn, got {other:?}"),
    }
}

#[tokio::test]
async fn a_foreign_client_takes_the_lock_in_a_gap_and_no_other_does() {
    let server = Server::start();
    let (one, other) = (open(&server, LONG), open(&server, LONG));
    let mut raw = server.client();
    let first = exact();
    granted(&one, &first).await;
    let last = turns(&one, first).await;
    let head = Waiter::queue(&other, exact()).await;
    assert!(!set(&mut raw));
    one.release(&last).await.unwrap();
    // Neither the first claim in the queue, nor a claim without a place.
    let rest = head.asks_in().await;
    assert!(!rest.is_zero() && rest <= LONG, "{rest:?}");
    assert!(refused(&one, &exact()).await.is_some_and(|rest| rest <= LONG));
    assert!(set(&mut raw));
    // From now on it looks for the end of the foreign lease.
    assert!(head.asks_in().await < Duration::from_secs(1));
    raw.command::<()>(&["DEL", "jobs"]);
    // The rest of the gap still belongs to foreign clients.
    assert!(head.asks_in().await > Duration::from_secs(1));
    assert!(set(&mut raw));
}

#[tokio::test]
async fn the_first_in_the_queue_has_the_lock_after_a_gap() {
    let server = Server::start();
    let (one, other) = (open(&server, SHORT), open(&server, SHORT));
    let first = exact();
    granted(&one, &first).await;
    let mut last = first;
    for _ in 0..3 {
        last = turns(&one, last).await;
        let mut head = Waiter::queue(&other, exact()).await;
        let second = Waiter::queue(&one, exact()).await;
        one.release(&last).await.unwrap();
        let rest = next(&mut head).await;
        head.asks_until_it_has(rest).await;
        assert_eq!(second.release().await, Released::NotHeld);
        last = head.claim().clone();
    }
}

/// A first claim that gives up in the gap leaves the wait for its end to the next claim.
#[tokio::test]
async fn a_gap_outlives_the_first_in_the_queue() {
    let server = Server::start();
    let (one, other) = (open(&server, LONG), open(&server, LONG));
    let first = exact();
    granted(&one, &first).await;
    let last = turns(&one, first).await;
    let head = Waiter::queue(&one, exact()).await;
    let mut second = Waiter::queue(&other, exact()).await;
    one.release(&last).await.unwrap();
    head.release().await;
    // Its client hears that it may ask at once, and learns how long the gap lasts.
    assert_eq!(second.told().await, None);
    let rest = second.asks_in().await;
    assert!(rest > Duration::from_secs(1) && rest <= LONG, "{rest:?}");
    // With the last claim the gap ends.
    second.release().await;
    granted(&other, &exact()).await;
}

/// No foreign client uses such keys.
#[tokio::test]
async fn a_named_lock_has_no_gap() {
    let server = Server::start();
    let backend = open(&server, LONG);
    let mut holder = claim("a");
    granted(&backend, &holder).await;
    for _ in 0..3 {
        holder = turns(&backend, holder).await;
    }
}

/// Two processes that release and requeue in turn free the lock only for the gaps.
#[tokio::test]
async fn a_poller_gets_its_turns_beside_processes_that_take_turns() {
    let server = Server::start();
    let backends = [open(&server, SHORT), open(&server, SHORT)];
    let mut raw = server.client();
    let holder = exact();
    granted(&backends[0], &holder).await;
    let mut waiters = vec![];
    for backend in &backends {
        waiters.push(Waiter::queue_for(backend, exact(), long()).await);
    }
    let ours = async {
        backends[0].release(&holder).await.unwrap();
        loop {
            for waiter in &mut waiters {
                // Whatever hint it gets, and also if it gets none.
                let _ = tokio::time::timeout(SHORT / 4, waiter.hint()).await;
                if let AcquireOutcome::Granted(_) = waiter.ask().await.unwrap() {
                    let next = Acquire::new(exact(), long()).queued();
                    waiter.backend.release_and_requeue(waiter.claim(), &next).await.unwrap();
                    waiter.request = next;
                }
            }
        }
    };
    let theirs = async {
        for _ in 0..3 {
            eventually_async("the poller has its turn", SOON, async || set(&mut raw)).await;
            raw.command::<()>(&["DEL", "jobs"]);
        }
    };
    tokio::select! {
        () = ours => {}
        () = theirs => {}
    }
}
