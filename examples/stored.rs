//! A stock that several processes share: the store keeps the number of apples beside the lock.
//!
//! ```text
//! cargo run -p lock-examples --example stored
//! ```
//!
//! It runs on the memory backend. Over Redis, only the line that makes the store changes.

use std::error::Error;

use futures::StreamExt;
use lock_core::memory::MemoryBackend;
use lock_sync::{Locks, StoredMutex};

/// Takes apples out of the stock. Returns how many are left, or `None` if there are too few.
async fn buy(apples: &StoredMutex<u32>, count: u32) -> Result<Option<u32>, Box<dyn Error>> {
    let mut stock = apples.lock().await?;
    let Some(left) = stock.checked_sub(count) else {
        // The guard is dropped without a commit, so the stock stays as it is.
        return Ok(None);
    };
    *stock = left;
    let version = stock.commit().await?;
    println!("sold {count}: {left} left, version {version}");
    Ok(Some(left))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = MemoryBackend::new();
    let (here, there) = (Locks::new(store.client()), Locks::new(store.client()));
    let (ours, theirs) =
        (here.stored_mutex("stock/apples", 3)?, there.stored_mutex("stock/apples", 3)?);
    let mut versions = theirs.subscribe();

    assert_eq!(buy(&ours, 1).await?, Some(2));
    assert_eq!(buy(&theirs, 2).await?, Some(0));
    assert_eq!(buy(&ours, 1).await?, None);

    while let Some(stock) = versions.next().await.transpose()? {
        println!("a subscriber sees {} apples", stock.value);
        if stock.value == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_example_runs() {
        super::main().expect("it runs on the memory backend");
    }
}
