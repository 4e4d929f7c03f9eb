//! The first part: tasks of this process, with locks inside it.

use lock_core::memory::MemoryBackend;
use lock_examples::AnyError;
use lock_sync::{Locks, StoredMutex};
use tokio::task::JoinSet;

use crate::args::Args;
use crate::buyer;
use crate::report::{Report, Visit};
use crate::store::Store;

pub(crate) async fn run(args: &Args) -> Result<Report, AnyError> {
    let locks = Locks::new(MemoryBackend::new());
    let stock = args.lock.then(|| locks.stored_mutex("stock", args.stock)).transpose()?;
    let store = Store::in_memory(args.stock);

    let mut buyers = JoinSet::new();
    for number in 1..=args.tasks {
        let (stock, store) = (stock.clone(), store.clone());
        let wanted = args.wanted_by_each(args.tasks);
        buyers.spawn(async move {
            let name = format!("task {number}");
            buyer::shop(&name, wanted, &store, stock.as_ref()).await
        });
    }
    let mut visits = Vec::new();
    while let Some(bought) = buyers.join_next().await {
        visits.extend(bought??);
    }
    report(args, stock.as_ref(), &store, visits).await
}

/// The report of a run that is over.
pub(crate) async fn report(
    args: &Args,
    stock: Option<&StoredMutex<u32>>,
    store: &Store,
    visits: Vec<Visit>,
) -> Result<Report, AnyError> {
    let shown = store.read().await?;
    let left = match stock {
        Some(stock) => stock.snapshot().await?.value,
        None => shown,
    };
    let report = Report::new(args, left, shown, visits);
    let refused = late_write(store, &report).await?;
    Ok(report.with_stale_write(refused))
}

/// Writes as the first buyer would after a long pause. Returns whether the database refused.
async fn late_write(store: &Store, report: &Report) -> Result<Option<bool>, AnyError> {
    match report.tokens_of_writes() {
        Some((first, last)) if first < last => {
            Ok(Some(!store.write(1_000_000, Some(first)).await?))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn nothing_is_oversold_with_the_lock() {
        let args = Args { stock: 30, ..Args::default() };
        let report = run(&args).await.unwrap();
        assert!(report.is_good(), "{report}");
        assert!(report.to_string().contains("30 sold, 0 left: 0 oversold"), "{report}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_it_the_stock_is_oversold() {
        let args = Args { lock: false, stock: 30, ..Args::default() };
        let report = run(&args).await.unwrap();
        assert!(!report.to_string().contains(" 0 oversold"), "{report}");
    }
}
