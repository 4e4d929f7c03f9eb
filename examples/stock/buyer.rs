//! A buyer, with and without the lock.

use std::time::Duration;

use lock_core::Clock;
use lock_examples::AnyError;
use lock_sync::{CommitError, StoredMutex, StoredMutexGuard};

use crate::report::{Hold, Outcome, Visit};
use crate::store::Store;

/// Buys until the buyer has all it wants or the stock is sold out, and reports every attempt.
pub(crate) async fn shop(
    buyer: &str,
    wanted: u32,
    store: &Store,
    stock: Option<&StoredMutex<u32>>,
) -> Result<Vec<Visit>, AnyError> {
    let mut visits = Vec::new();
    for round in 0..wanted {
        let payment = payment_time(buyer, round);
        let visit = match stock {
            Some(stock) => buy(buyer, stock, store, payment).await?,
            None => {
                let outcome = buy_without_lock(store, payment).await?;
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

async fn buy(
    buyer: &str,
    stock: &StoredMutex<u32>,
    store: &Store,
    payment: Duration,
) -> Result<Visit, AnyError> {
    let guard = stock.lock().await?;
    let (token, since) = (StoredMutexGuard::lease(&guard).fencing_token(), Clock::boot().now());
    let outcome = sell(guard, store, payment).await?;
    let time = Clock::boot().now().saturating_duration_since(since);
    Ok(Visit { buyer: buyer.to_owned(), hold: Some(Hold { since, time, token }), outcome })
}

/// Sells a piece, as the holder of the lock. A guard that is dropped leaves the stock as it is.
async fn sell(
    mut stock: StoredMutexGuard<u32>,
    store: &Store,
    payment: Duration,
) -> Result<Outcome, AnyError> {
    let Some(left) = stock.checked_sub(1) else { return Ok(Outcome::SoldOut) };
    let lease = StoredMutexGuard::lease(&stock);
    let purchase = async {
        tokio::time::sleep(payment).await;
        store.write(left, Some(lease.fencing_token())).await
    };
    // If the lease is lost in the meantime, the purchase is dropped where it stands. If this process does not
    // notice the loss, the database refuses the stale token, and the store refuses the commit.
    let Ok(written) = lease.while_held(purchase).await else { return Ok(Outcome::Lost) };
    if !written? {
        return Ok(Outcome::Refused);
    }
    *stock = left;
    match stock.commit().await {
        Ok(_version) => Ok(Outcome::Bought),
        Err(CommitError::Lost { .. }) => Ok(Outcome::Lost),
        Err(error) => Err(error.into()),
    }
}

/// A purchase that is not atomic: two buyers may read one number.
async fn buy_without_lock(store: &Store, payment: Duration) -> Result<Outcome, AnyError> {
    let Some(left) = store.read().await?.checked_sub(1) else {
        return Ok(Outcome::SoldOut);
    };
    tokio::time::sleep(payment).await;
    store.write(left, None).await?;
    Ok(Outcome::Bought)
}

/// How long the customer takes to pay: one to three milliseconds, which differ from buyer to buyer.
fn payment_time(buyer: &str, round: u32) -> Duration {
    let seed: u32 = buyer.bytes().map(u32::from).sum();
    Duration::from_millis(u64::from(1 + (seed + round) % 3))
}
