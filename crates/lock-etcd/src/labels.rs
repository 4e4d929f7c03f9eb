//! The labels of clients.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use lock_core::{ClientMark, Error, Label};
use tokio::sync::Mutex;

use crate::core::Core;
use crate::decide::ranges;
use crate::leases;
use crate::link::{Operation, Transaction};

/// So many labels are asked for in one request.
const PAGE: usize = 100;

/// The leases with which the labels go that this client has told.
#[derive(Default)]
pub(crate) struct Labels(Mutex<HashMap<ClientMark, (i64, i64)>>);

impl Core {
    /// Tells a label, for so long.
    pub(crate) async fn introduce(
        &self,
        mark: ClientMark,
        label: &Label,
        keep: Duration,
    ) -> Result<(), Error> {
        let seconds = i64::try_from(keep.as_millis().div_ceil(1000)).unwrap_or(i64::MAX);
        // etcd counts no longer leases.
        let seconds = seconds.clamp(leases::SHORTEST, 9_000_000_000);
        let mut told = self.labels.0.lock().await;
        let old = told.get(&mark).copied();
        if let Some((lease, _)) = old.filter(|(_, before)| *before == seconds)
            && self.link.keep_alive(lease, self.limit).await?.is_some()
            && self.put_label(&mark, label, lease).await?
        {
            return Ok(());
        }
        let (lease, _) = self.link.grant(seconds).await?;
        self.put_label(&mark, label, lease).await?;
        told.insert(mark, (lease, seconds));
        drop(told);
        if let Some((old, _)) = old {
            self.link.revoke(old).await?;
        }
        Ok(())
    }

    /// Whether the lease was alive.
    async fn put_label(&self, mark: &ClientMark, label: &Label, lease: i64) -> Result<bool, Error> {
        let value = label.as_str().as_bytes().to_vec();
        let success = vec![Operation::put(self.names.label(mark), value, lease)];
        match self.link.transact(&Transaction { success, ..Transaction::default() }).await {
            Ok(_) => Ok(true),
            Err(fault) if fault.lease_is_over => Ok(false),
            Err(fault) => Err(fault.error),
        }
    }

    /// The labels of these clients.
    pub(crate) async fn labels_of(
        &self,
        marks: BTreeSet<ClientMark>,
    ) -> Result<HashMap<ClientMark, Label>, Error> {
        let marks: Vec<_> = marks.into_iter().collect();
        let mut labels = HashMap::new();
        for part in marks.chunks(PAGE) {
            let success = part.iter().map(|mark| Operation::get(self.names.label(mark))).collect();
            let reading = Transaction { success, ..Transaction::default() };
            let answer = self.link.transact(&reading).await?;
            for (mark, range) in part.iter().zip(ranges(answer.responses)) {
                let text = range.kvs.first().and_then(|kv| std::str::from_utf8(&kv.value).ok());
                if let Some(label) = text.and_then(|text| Label::new(text).ok()) {
                    labels.insert(*mark, label);
                }
            }
        }
        Ok(labels)
    }
}
