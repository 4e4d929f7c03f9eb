//! What dead holders have left.
//!
//! The document of a lock that is held is attached to no lease of etcd. If its holder and all waiters die, it stays as
//! it is until a client asks for the lock. So a client looks for such documents from time to time, and gives each of
//! them a lease.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, Key, scattered};

use crate::core::Core;
use crate::decide::{Ask, Refresh, ranges};
use crate::failure;
use crate::link::{Compare, KeyValue, Operation, Range, Transaction};
use crate::naming;

/// How many keys one request lists.
const PAGE: i64 = 500;

/// After so many failures in a row, the client leaves the rest for the next interval.
const FAILURES: u32 = 10;

impl Core {
    /// Looks again and again. A key in etcd lets one client look in each interval.
    pub(crate) async fn sweep(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(scattered(every)).await;
            if let Err(error) = self.sweep_in_turn(every).await {
                tracing::debug!(%error, "no look for what dead holders have left");
            }
        }
    }

    async fn sweep_in_turn(&self, every: Duration) -> Result<(), Error> {
        let key = self.names.sweep();
        let mut turn = Transaction {
            compare: vec![Compare::unchanged(key.clone(), 0)],
            ..Transaction::default()
        };
        if !self.link.transact(&turn).await?.succeeded {
            return Ok(());
        }
        let seconds = i64::try_from(every.as_secs()).unwrap_or(i64::MAX).max(1);
        let (lease, _) = self.link.grant(seconds).await?;
        turn.success = vec![Operation::put(key, Vec::new(), lease)];
        if !self.link.transact(&turn).await?.succeeded {
            return Ok(self.link.revoke(lease).await?);
        }
        self.sweep_all().await
    }

    /// Looks at every document without a lease.
    async fn sweep_all(&self) -> Result<(), Error> {
        let first = self.names.all_documents();
        let range_end = naming::after(&first);
        let (mut from, mut failed) = (Some(first), 0);
        while let Some(key) = from {
            let range = Range { key, range_end: range_end.clone(), limit: PAGE, keys_only: true };
            let success = vec![Operation::range(range)];
            let page = Transaction { success, ..Transaction::default() };
            let page = ranges(self.link.transact(&page).await?.responses).into_iter().next();
            let page = page.ok_or_else(|| failure::protocol("no range"))?;
            let last = page.kvs.last().filter(|_| page.more);
            from = last.map(|kv| [kv.key.as_slice(), &[0]].concat());
            let has_no_lease = |kv: &&KeyValue| kv.lease == 0;
            for kv in page.kvs.iter().filter(has_no_lease) {
                let Some(key) = self.names.key_of(&kv.key) else { continue };
                match self.sweep_one(&key).await {
                    Ok(()) => failed = 0,
                    // A document that this version cannot read keeps the client from no other document.
                    Err(error) if !error.is_retryable() => {
                        tracing::debug!(%error, %key, "not swept")
                    }
                    Err(_) if failed < FAILURES => failed += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Gives the document of the lock a lease if no living client holds the lock or waits, and the document keeps
    /// nothing. The tokens go on from it as long as it is there.
    async fn sweep_one(&self, key: &Key) -> Result<(), Error> {
        if !self.look(key).await?.is_at_rest() {
            return Ok(());
        }
        let ask = Ask { leaves: true, ..Ask::about(key) };
        self.decide(ask, Refresh::Never, |_, _, _| ()).await.map(drop)
    }
}
