//! Errors: how they convert, what they say, and when two are equal.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;

use lock_core::{Error, ErrorKind};
use lock_sync::{
    AcquireError, CommitError, LeaseLost, LockError, LossReason, Mutex, MutexGuard, OnceCell,
    OnceCellError, ReentrantMutex, ReleaseError, SaveError, Semaphore, SetError, StoredMutex,
    StoredUpdateError, TryAcquireError, TryLockError,
};

use crate::contract::assert_traits;
use crate::support::Pair;

assert_traits! {
    LockError: Send & Sync & Unpin & StdError;
    TryLockError: Send & Sync & Unpin & StdError;
    ReleaseError: Send & Sync & Unpin & StdError;
    AcquireError: Send & Sync & Unpin & StdError;
    TryAcquireError: Send & Sync & Unpin & StdError;
    SaveError: Send & Sync & Unpin & StdError;
    CommitError<u8>: Send & Sync & Unpin & StdError;
    StoredUpdateError<u8>: Send & Sync & Unpin & StdError;
    OnceCellError: Send & Sync & Unpin & StdError;
    OnceCellError<Box<dyn StdError + Send + Sync>>: Send & Sync & Unpin & StdError;
    OnceCellError<Opaque>: Send & Sync & Unpin & StdError;
    SetError<u8>: Send & Sync & Unpin & StdError;
}

/// An error that can be shown and is no `std::error::Error`, as that of `anyhow`.
#[derive(Debug)]
struct Opaque;

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if f.alternate() { "no disk: broken" } else { "no disk" })
    }
}

fn backend(kind: ErrorKind) -> Error {
    Error::new(kind, "for some reason")
}

/// Uses every primitive, with `?` in each line.
async fn uses_all(pair: &Pair) -> Result<u32, LockError> {
    let semaphore: Semaphore = pair.here.semaphore("semaphore", 2)?;
    let mutex: Mutex<u32> = pair.here.mutex("mutex", 1)?;
    let stored: StoredMutex<u32> = pair.here.stored_mutex("stored", 1)?;
    let reentrant: ReentrantMutex<u32> = pair.here.reentrant_mutex("reentrant", 1)?;
    let cell: OnceCell<u32> = pair.here.once_cell("cell")?;
    let _permit = semaphore.acquire().await?;
    let _second = semaphore.try_acquire().await?;
    let guard = mutex.try_lock().await?;
    let mut owner = lock_sync::Owner::new()?;
    let owned = reentrant.try_lock_as(&mut owner).await?;
    let mut value = stored.try_lock().await?;
    *value += *cell.get_or_init(async || 1).await?;
    value.save().await?;
    value.commit().await?;
    stored.update(|value| *value += 1).await?;
    MutexGuard::lease(&guard).while_held(async {}).await?;
    pair.here.barrier("barrier", 1)?.wait().await?;
    pair.here.election("election")?.campaign("me").await?.update("you").await?;
    let sum = *guard + *owned + stored.snapshot().await?.value;
    MutexGuard::release(guard).await?;
    Ok(sum)
}

#[tokio::test]
async fn one_error_fits_a_function_that_uses_every_primitive() {
    let pair = Pair::threaded();
    assert_eq!(uses_all(&pair).await, Ok(5));
    let _held = pair.there.lock("mutex").await.unwrap();
    assert_eq!(uses_all(&pair).await, Err(LockError::Timeout { source: None }));
}

#[tokio::test]
async fn an_initialization_may_fail_with_an_error_of_any_type() {
    let pair = Pair::threaded();
    let cell: OnceCell<u32> = pair.here.once_cell("cell").unwrap();
    let failed = cell.get_or_try_init(async || Err(Opaque)).await.unwrap_err();
    let error: Box<dyn StdError + Send + Sync> = failed.into();
    assert_eq!(error.to_string(), "the initialization of the value failed: no disk");
    assert_eq!(format!("{error:#}"), "the initialization of the value failed: no disk: broken");
    let failed =
        cell.get_or_try_init(async || Err(Box::<dyn StdError + Send + Sync>::from("no"))).await;
    let error: Box<dyn StdError + Send + Sync> = failed.unwrap_err().into();
    assert!(error.to_string().ends_with(": no") && error.source().is_none());
}

#[tokio::test]
async fn work_under_a_lease_may_fail_with_an_error_of_any_type() {
    let pair = Pair::threaded();
    let (mutex, _) = pair.mutexes();
    let guard = mutex.lock().await.unwrap();
    let lease = MutexGuard::lease(&guard);
    let work = async || -> Result<u32, Box<dyn StdError + Send + Sync>> {
        Ok(lease.while_held(async { "7".parse::<u32>() }).await??)
    };
    assert_eq!(work().await.unwrap(), 7);
}

#[tokio::test]
async fn an_unreadable_value_is_the_error_of_the_lock() {
    let pair = Pair::threaded();
    let texts: StoredMutex<String> = pair.here.stored_mutex("it", "text".to_owned()).unwrap();
    texts.update(|text| text.push('!')).await.unwrap();
    let numbers: StoredMutex<u32> = pair.there.stored_mutex("it", 0).unwrap();
    let unreadable = |error: &Error| {
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.source().is_some());
    };
    match numbers.lock().await {
        Err(LockError::Value(error)) => unreadable(&error),
        other => panic!("{other:?}"),
    }
    match numbers.try_lock().await {
        Err(TryLockError::Value(error)) => unreadable(&error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_error_becomes_the_error_of_a_lock() {
    let busy = LockError::Timeout { source: None };
    assert_eq!(LockError::from(TryLockError::WouldBlock), busy);
    assert_eq!(LockError::from(TryAcquireError::NoPermits), busy);
    assert_eq!(TryLockError::from(TryAcquireError::NoPermits), TryLockError::WouldBlock);
    assert_eq!(LockError::from(AcquireError::Closed), LockError::Closed);
    assert_eq!(LockError::from(TryLockError::NoOwnerScope), LockError::NoOwnerScope);
    assert_eq!(LockError::from(OnceCellError::<Infallible>::Closed), LockError::Closed);

    let failed = LockError::Backend(backend(ErrorKind::Timeout));
    assert_eq!(LockError::from(backend(ErrorKind::Timeout)), failed);
    assert_eq!(LockError::from(AcquireError::from(backend(ErrorKind::Timeout))), failed);
    assert_eq!(LockError::from(TryAcquireError::from(backend(ErrorKind::Timeout))), failed);
    assert_eq!(LockError::from(ReleaseError::from(backend(ErrorKind::Timeout))), failed);
    assert_eq!(LockError::from(SaveError::Unknown(backend(ErrorKind::Timeout))), failed);
    let late = Some(backend(ErrorKind::Timeout));
    let late =
        (AcquireError::Timeout { source: late.clone() }, LockError::Timeout { source: late });
    assert_eq!(LockError::from(late.0), late.1);
    let long = backend(ErrorKind::InvalidConfig);
    assert_eq!(LockError::from(SaveError::Refused(long.clone())), LockError::Value(long));
}

#[tokio::test]
async fn a_loss_becomes_the_error_of_a_lock() {
    let pair = Pair::threaded();
    let guard = pair.here.lock("it").await.unwrap();
    let lease = guard.lease();
    drop(guard);
    let lost: LeaseLost = lease.check().unwrap_err();
    assert_eq!(lost.reason(), LossReason::Released);
    assert_eq!(LockError::from(lost), LockError::Lost(lost));
    assert_eq!(TryLockError::from(lost), TryLockError::Lost(lost));
    assert_eq!(LockError::from(ReleaseError::from(lost)), LockError::Lost(lost));
    assert_eq!(LockError::from(SaveError::Lost(lost)), LockError::Lost(lost));
}

#[test]
fn errors_are_equal_if_variant_and_kind_are() {
    let timeout = || LockError::Backend(backend(ErrorKind::Timeout));
    assert_eq!(timeout(), LockError::Backend(Error::new(ErrorKind::Timeout, "for another reason")));
    assert_ne!(timeout(), LockError::Backend(backend(ErrorKind::Denied)));
    assert_ne!(timeout(), LockError::Value(backend(ErrorKind::Timeout)));
    assert_ne!(timeout(), LockError::Closed);
}
