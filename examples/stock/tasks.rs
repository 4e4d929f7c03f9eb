//! The first part: tasks of this process, with locks inside it.

use std::sync::Arc;

use lock_core::memory::MemoryBackend;
use lock_sync::Locks;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::report::Report;
use crate::store::Store;
use crate::{AnyError, buyer};

pub(crate) async fn run(args: &Args) -> Result<Report, AnyError> {
    let locks = Locks::new(MemoryBackend::new());
    let mutex = args.lock.then(|| locks.mutex("stock", ())).transpose()?.map(Arc::new);
    let store = Store::in_memory(args.stock);

    let mut buyers = JoinSet::new();
    for number in 1..=args.tasks {
        let (mutex, store) = (mutex.clone(), store.clone());
        let wanted = args.wanted_by_each(args.tasks);
        buyers.spawn(async move {
            let name = format!("task {number}");
            buyer::shop(&name, wanted, &store, mutex.as_deref()).await
        });
    }
    let mut visits = Vec::new();
    while let Some(bought) = buyers.join_next().await {
        visits.extend(bought??);
    }
    let left = store.read(None).await?.unwrap_or_default();
    let report = Report::new(args.lock, args.stock, left, visits);
    let refused = late_write(&store, &report).await?;
    Ok(report.with_stale_write(refused))
}

/// Writes as the first holder would after a long pause. Returns whether the store refused.
pub(crate) async fn late_write(store: &Store, report: &Report) -> Result<Option<bool>, AnyError> {
    match report.tokens() {
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
