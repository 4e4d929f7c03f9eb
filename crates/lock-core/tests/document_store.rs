//! A backend over a store that can only read and swap rows keeps every law that applies to it.
#![cfg(feature = "conformance")]

mod table;

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook};
use lock_core::document::{DocumentBackend, DocumentStore, Row};
use lock_core::{
    Acquire, AcquireOutcome, Backend, CellBackend, Claim, Clock, Convert, ConvertBackend,
    ErrorKind, Hint, InspectBackend, Key, Mode, OwnerToken, PermitBackend, Released, Renew,
    Renewal, Result, Ttl,
};

use table::Table;

impl Table {
    fn rows(&self) -> HashMap<Key, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

/// A lease of the claim, which the row says to end after this time.
async fn held(table: &Table, claim: &Claim, ttl: Duration) -> Result<()> {
    let request = Acquire::new(claim.clone(), Ttl::new(ttl)?);
    let granted = table.client().await?.try_acquire(&request).await?;
    assert!(matches!(granted, AcquireOutcome::Granted(_)), "{granted:?}");
    Ok(())
}

/// No claim has a place in a queue, so each change that makes room is news for the watchers.
#[tokio::test(start_paused = true)]
async fn whatever_makes_room_wakes_the_watchers() -> Result<()> {
    let (table, long) = (Table::default(), Duration::from_secs(20));
    let client = table.client().await?;
    let two = Mode::Permits { take: 2, of: 3 };
    let one = Mode::Permits { take: 1, of: 3 };
    for (before, after) in [
        ([two, one], Some(one)),
        ([one, one], None),
        ([Mode::Upgradable, Mode::Shared], Some(Mode::Shared)),
        ([Mode::Upgradable, Mode::Shared], None),
    ] {
        let (ours, theirs) = (claim()?.in_mode(before[0]), claim()?.in_mode(before[1]));
        held(&table, &ours, long).await?;
        held(&table, &theirs, long).await?;
        let mut watch = client.watch(&ours.key).await?;
        match after {
            Some(mode) => {
                let convert = Convert::new(ours.clone(), mode, Ttl::new(long)?);
                assert!(matches!(client.convert(&convert).await?, AcquireOutcome::Granted(_)));
            }
            None => assert_eq!(client.release(&ours).await?, Released::Freed { told: 0 }),
        }
        let heard = tokio::time::timeout(Duration::from_secs(1), watch.next()).await;
        assert_eq!(heard, Ok(Some(Hint::Released)), "{before:?} to {after:?}");
        client.force_release(&ours.key).await?;
    }
    Ok(())
}

/// The swap of a renewal is under way for longer than the lease lives.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_comes_after_the_end_of_its_lease_brings_nothing_back() -> Result<()> {
    let table = Table::default();
    let claim = claim()?;
    held(&table, &claim, Duration::from_secs(1)).await?;
    let slow = DocumentBackend::new(Slow(table.clone(), Duration::from_secs(2)));
    let renewal = slow.renew(&Renew::new(claim.clone(), Ttl::DEFAULT)).await;
    assert!(matches!(renewal, Renewal::Lost), "{renewal:?}");
    assert_eq!(table.client().await?.inspect(&claim.key).await?.holding, 0);
    Ok(())
}

/// A request that is repeated within one tick of a coarse clock changes nothing but the version.
#[tokio::test(start_paused = true)]
async fn a_repeated_request_refuses_what_was_sent_before() -> Result<()> {
    let table = Table::default();
    let claim = claim()?;
    held(&table, &claim, Duration::from_secs(10)).await?;
    let seen = table.read(&claim.key).await?;
    held(&table, &claim, Duration::from_secs(10)).await?;
    assert!(!table.swap(&claim.key, &seen.version, b"late".to_vec()).await?);
    let seen = table.read(&claim.key).await?;
    let renewal = table
        .client()
        .await?
        .renew(&Renew::new(claim.clone(), Ttl::new(Duration::from_secs(10))?))
        .await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    assert!(!table.swap(&claim.key, &seen.version, b"late".to_vec()).await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_swaps_ends_the_request() -> Result<()> {
    let stuck = DocumentBackend::new(Stuck);
    let refused = stuck.try_acquire(&Acquire::new(claim()?, Ttl::DEFAULT)).await;
    let error = refused.expect_err("it never swaps");
    assert!(error.kind() == ErrorKind::NotReady && error.is_retryable(), "{error:?}");
    Ok(())
}

/// The number of permits is forgotten an hour after the last change of the row.
#[tokio::test(start_paused = true)]
async fn an_unused_semaphore_is_forgotten() -> Result<()> {
    let table = Table::default();
    let client = table.client().await?;
    let key = Key::new("key")?;
    assert_eq!(client.permits(&key, 3).await?.limit, 3);
    tokio::time::advance(Duration::from_secs(59 * 60)).await;
    assert_eq!(
        client.permits(&key, 5).await.map_err(|it| it.kind()),
        Err(ErrorKind::InvalidConfig)
    );
    tokio::time::advance(Duration::from_secs(2 * 60)).await;
    assert_eq!(client.permits(&key, 5).await?.limit, 5);
    Ok(())
}

/// Each swap takes a time.
struct Slow(Table, Duration);

#[async_trait]
impl DocumentStore for Slow {
    type Version = Option<Vec<u8>>;

    async fn read(&self, key: &Key) -> Result<Row<Self::Version>> {
        self.0.read(key).await
    }

    async fn swap(&self, key: &Key, seen: &Self::Version, row: Vec<u8>) -> Result<bool> {
        tokio::time::sleep(self.1).await;
        self.0.swap(key, seen, row).await
    }

    async fn rest(&self) {
        self.0.rest().await;
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }
}

/// A store that never writes.
struct Stuck;

#[async_trait]
impl DocumentStore for Stuck {
    type Version = ();

    async fn read(&self, _: &Key) -> Result<Row<()>> {
        Ok(Row { bytes: None, version: (), time: Clock::tokio().now() })
    }

    async fn swap(&self, _: &Key, (): &(), _: Vec<u8>) -> Result<bool> {
        Ok(false)
    }

    async fn rest(&self) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
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
