//! A buyer, with and without the lock.

use std::time::Duration;

use lock_core::{Clock, FencingToken};
use lock_sync::{Mutex, MutexGuard};

use crate::AnyError;
use crate::report::{Hold, Outcome, Visit};
use crate::store::Store;

/// Buys until the buyer has all it wants or the stock is sold out, and reports every attempt.
pub(crate) async fn shop(
    buyer: &str,
    wanted: u32,
    store: &Store,
    lock: Option<&Mutex<()>>,
) -> Result<Vec<Visit>, AnyError> {
    let mut visits = Vec::new();
    for round in 0..wanted {
        let payment = payment_time(buyer, round);
        let visit = match lock {
            Some(mutex) => buy_locked(buyer, store, mutex, payment).await?,
            None => {
                let outcome = buy(store, None, payment).await?;
                Visit { buyer: buyer.to_owned(), hold: None, outcome }
            }
        };
        let is_last = visit.outcome == Outcome::SoldOut;
        visits.push(visit);
        if is_last {
            break;
        }
    }
    Ok(visits)
}

async fn buy_locked(
    buyer: &str,
    store: &Store,
    mutex: &Mutex<()>,
    payment: Duration,
) -> Result<Visit, AnyError> {
    let guard = mutex.lock().await?;
    let (token, since) = (MutexGuard::lease(&guard).fencing_token(), Clock::boot().now());
    // If the lease is lost in the meantime, the purchase is dropped where it stands. If this process does not
    // notice the loss, the store refuses the stale token.
    let outcome = match MutexGuard::lease(&guard).while_held(buy(store, Some(token), payment)).await
    {
        Ok(outcome) => outcome?,
        Err(_lost) => Outcome::Lost,
    };
    let time = Clock::boot().now().saturating_duration_since(since);
    drop(guard);
    Ok(Visit { buyer: buyer.to_owned(), hold: Some(Hold { since, time, token }), outcome })
}

/// The purchase, which is not atomic.
async fn buy(
    store: &Store,
    token: Option<FencingToken>,
    payment: Duration,
) -> Result<Outcome, AnyError> {
    let left = match store.read(token).await? {
        Some(0) => return Ok(Outcome::SoldOut),
        Some(left) => left,
        None => return Ok(Outcome::Refused),
    };
    tokio::time::sleep(payment).await;
    let written = store.write(left - 1, token).await?;
    Ok(if written { Outcome::Bought } else { Outcome::Refused })
}

/// How long the customer takes to pay: one to three milliseconds, which differ from buyer to buyer.
fn payment_time(buyer: &str, round: u32) -> Duration {
    let seed: u32 = buyer.bytes().map(u32::from).sum();
    Duration::from_millis(u64::from(1 + (seed + round) % 3))
}
