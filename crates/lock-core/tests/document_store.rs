//! A backend over a store that can only read and swap rows keeps every law that applies to it.
#![cfg(feature = "conformance")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook};
use lock_core::document::{DocumentBackend, DocumentStore, Row};
use lock_core::{
    Acquire, AcquireOutcome, Backend, CellBackend, Claim, Clock, ErrorKind, InspectBackend, Key,
    Mode, OwnerToken, PermitBackend, Released, Renew, Renewal, Result, Ttl,
};

/// Rows whose versions are the rows themselves.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<HashMap<Key, Vec<u8>>>>);

impl Table {
    fn rows(&self) -> HashMap<Key, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl DocumentStore for Table {
    type Version = Option<Vec<u8>>;

    async fn read(&self, key: &Key) -> Result<Row<Self::Version>> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        tokio::task::yield_now().await;
        Ok(Row { version: bytes.clone(), bytes, time: self.clock().now() })
    }

    async fn swap(&self, key: &Key, seen: &Self::Version, row: Vec<u8>) -> Result<bool> {
        tokio::task::yield_now().await;
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_as_seen = rows.get(key) == seen.as_ref();
        if is_as_seen {
            rows.insert(key.clone(), row);
        }
        Ok(is_as_seen)
    }

    async fn rest(&self) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }
}

#[async_trait]
impl Harness for Table {
    type Client = DocumentBackend<Self>;

    async fn client(&self) -> Result<Self::Client> {
        Ok(DocumentBackend::new(self.clone()))
    }

    async fn cut(&self, _: &Self::Client) -> Hook {
        Hook::NotApplicable("there is no connection")
    }

    async fn forget(&self) -> Hook {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Hook::Done
    }
}

mod real_time {
    lock_core::conformance_tests!(
        super::Table::default(),
        capabilities: [shared, convert, joint, permits, cell, inspect]
    );
}

mod many_threads {
    lock_core::conformance_tests!(
        super::Table::default(),
        capabilities: [shared, convert, joint, permits, cell, inspect],
        flavor = "multi_thread",
        worker_threads = 4
    );
}

fn claim() -> Result<Claim> {
    Ok(Claim::exclusive(Key::new("key")?, OwnerToken::generate()?))
}

#[tokio::test]
async fn a_verb_that_changes_nothing_writes_nothing() -> Result<()> {
    let table = Table::default();
    let (ours, theirs) = (table.client().await?, table.client().await?);
    let (held, wanted) = (claim()?, claim()?);
    assert!(matches!(theirs.renew(&Renew::new(wanted.clone(), Ttl::DEFAULT)).await, Renewal::Lost));
    assert_eq!((theirs.load(&held.key).await?, table.rows().len()), (None, 0));
    let granted = ours.try_acquire(&Acquire::new(held.clone(), Ttl::DEFAULT)).await?;
    assert!(matches!(granted, AcquireOutcome::Granted(_)), "{granted:?}");

    let before = table.rows();
    let request = Acquire::new(wanted.clone(), Ttl::DEFAULT).queued();
    let refused = theirs.try_acquire(&request).await?;
    assert!(matches!(refused, AcquireOutcome::Busy { retry_after: Some(_) }), "{refused:?}");
    assert!(matches!(theirs.renew(&Renew::new(wanted, Ttl::DEFAULT)).await, Renewal::Lost));
    assert_eq!(theirs.inspect(&held.key).await?.holding, 1);
    assert_eq!(table.rows(), before);
    Ok(())
}

/// A request has read the row, and its swap is still on its way when its claim is released.
#[tokio::test]
async fn a_swap_that_arrives_after_the_release_of_its_claim_is_refused() -> Result<()> {
    let table = Table::default();
    let client = table.client().await?;
    for mode in [Mode::Exclusive, Mode::Permits { take: 1, of: 2 }] {
        let claim = claim()?.in_mode(mode);
        let seen = table.read(&claim.key).await?;
        let released = match mode {
            Mode::Exclusive => client.release(&claim).await?,
            _ => client.forget(&claim).await?,
        };
        assert_eq!(released, Released::NotHeld);
        assert!(!table.swap(&claim.key, &seen.version, b"late".to_vec()).await?);
    }
    Ok(())
}

#[tokio::test]
async fn a_row_of_another_program_is_refused_and_stays() -> Result<()> {
    let table = Table::default();
    let (client, claim) = (table.client().await?, claim()?);
    for row in [&b"theirs"[..], &[0; 16], &[0; 17], &[0xff; 100]] {
        table
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(claim.key.clone(), row.into());
        let refused = client.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await;
        assert_eq!(refused.map_err(|error| error.kind()).err(), Some(ErrorKind::Protocol));
        assert_eq!(
            client.watch(&claim.key).await.map(drop).map_err(|it| it.kind()),
            Err(ErrorKind::Protocol)
        );
        assert_eq!(client.release(&claim).await.map_err(|it| it.kind()), Err(ErrorKind::Protocol));
        assert_eq!(table.rows().get(&claim.key).map(Vec::as_slice), Some(row));
    }
    Ok(())
}
