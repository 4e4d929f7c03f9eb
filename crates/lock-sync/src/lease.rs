//! The handle to the lease of a guard or permit.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::try_join_all;
use lock_core::{FencingToken, Instant, Key, Ttl};

use crate::bare::{Hold, HoldView};
use crate::error::LeaseLost;
use crate::lost::{Lost, WhileHeld};

/// The lease of a guard or permit. Every guard has a function that returns it, for example
/// [`MutexGuard::lease`](crate::MutexGuard::lease).
///
/// The handle says what the guard is worth outside this process: whether the lease is valid, for how long, and with
/// which [fencing token](Self::fencing_token). The handle borrows nothing, so one task can have the handle while
/// another task has the guard. Clones are cheap, and name one lease.
///
/// **The handle does not keep the lock.** Once its guard is dropped or released, [`check`](Self::check) returns
/// [`Released`](crate::LossReason::Released). It does so before another holder has the lock, and for ever, even
/// if this process goes on with the lease for its next task. A guard that was [mapped](crate::MutexGuard::map),
/// [downgraded](crate::RwLockWriteGuard::downgrade) or [upgraded](crate::RwLockUpgradableReadGuard::upgrade) goes
/// on with its lease, and the handle stays valid.
///
/// # Several leases
///
/// A guard of [several locks](crate::Locks::lock_all), and permits that were [merged](crate::SemaphorePermit::merge),
/// have several leases. The handle covers the leases that the guard has when you call `lease`. The handle is valid
/// while all these leases are valid.
///
/// # Examples
///
/// Work that ends with the lease, although it writes to the data of the guard:
///
/// ```
/// # use lock_core::memory::MemoryBackend;
/// # use lock_sync::{Locks, LossReason, MutexGuard};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locks = Locks::new(MemoryBackend::new());
/// let import = locks.mutex("import", Vec::new())?;
/// let mut rows = import.lock().await?;
/// let lease = MutexGuard::lease(&rows);
///
/// lease.while_held(async { rows.push("first") }).await?;
/// assert_eq!(*rows, ["first"]);
///
/// drop(rows);
/// assert_eq!(lease.check().unwrap_err().reason(), LossReason::Released);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lease {
    /// The first key. `None` if the handle covers no lock.
    key: Option<Key>,
    parts: Parts,
}

#[derive(Clone)]
enum Parts {
    One(Arc<HoldView>),
    Several(Arc<[Arc<HoldView>]>),
}

impl Lease {
    pub(crate) fn of(hold: &Hold) -> Self {
        Self { key: Some(hold.key().clone()), parts: Parts::One(Arc::clone(hold.view())) }
    }

    /// The leases of these holds. `key` is what [`key`](Self::key) returns.
    pub(crate) fn of_all<'a>(key: Option<&Key>, holds: impl Iterator<Item = &'a Hold>) -> Self {
        let parts = Parts::Several(holds.map(|hold| Arc::clone(hold.view())).collect());
        Self { key: key.cloned(), parts }
    }

    fn parts(&self) -> &[Arc<HoldView>] {
        match &self.parts {
            Parts::One(part) => std::slice::from_ref(part),
            Parts::Several(parts) => parts,
        }
    }

    /// The name of the lock. If the guard holds several locks, the first name.
    ///
    /// # Panics
    ///
    /// If the handle covers no lock, because [`lock_all`](crate::Locks::lock_all) was called without a name.
    pub fn key(&self) -> &Key {
        self.key.as_ref().expect("the guard holds no lock")
    }

    /// The fencing token of the guard.
    ///
    /// Send the token with each write to the resource that the lock protects, and let the resource refuse lower
    /// tokens: see [`FencingToken`]. The token does not change when the lease ends.
    ///
    /// | guard | its token |
    /// | --- | --- |
    /// | of a [`Mutex`](crate::Mutex), writer of an [`RwLock`](crate::RwLock), [`Leadership`](crate::Leadership) | is higher than the token of every earlier holder |
    /// | reader of an [`RwLock`](crate::RwLock) | is lower than the token of every later writer, and no lower than the token of every earlier writer. Readers that share a lease have one token. A downgraded guard keeps its token, and an upgrade brings a higher one. Tokens of readers that hold the lock at once have no order |
    /// | of a [`ReentrantMutex`](crate::ReentrantMutex) | is the token of the turn of its owner: all guards of the turn have this token, in every process that entered with the owner |
    /// | permit of a [`Semaphore`](crate::Semaphore) | is unique to its acquisition, and higher than every token of a grant that ended before the own grant of this permit was requested: see [its tokens](crate::Semaphore#fencing-tokens). The parts of a split permit share its token. Merged permits have the lowest of their tokens. A value without permits has the token zero |
    /// | [`SlotPermit`](crate::SlotPermit) | is higher than the token of every earlier holder of this slot. Tokens of two slots have no order |
    /// | of [several locks](crate::Locks::lock_all) | is the token of the lock [`key`](Self::key). [`fencing_token_of`](Self::fencing_token_of) returns the token of another lock |
    pub fn fencing_token(&self) -> FencingToken {
        self.key.as_ref().and_then(|key| self.fencing_token_of(key)).unwrap_or(FencingToken::new(0))
    }

    /// The fencing token for writes to the resource that this lock protects. `None` if the handle does not cover the
    /// lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lease = locks.lock_all(["shelf", "till"]).await?.lease();
    /// assert!(lease.fencing_token_of(&"till".try_into()?).is_some());
    /// assert!(lease.fencing_token_of(&"door".try_into()?).is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn fencing_token_of(&self, key: &Key) -> Option<FencingToken> {
        let of_key = self.fencing_tokens().filter(|(other, _)| *other == key);
        of_key.map(|(_, token)| token).min()
    }

    /// The name and the fencing token of each lease that the handle covers, in the order of the names.
    pub fn fencing_tokens(&self) -> impl ExactSizeIterator<Item = (&Key, FencingToken)> {
        self.parts().iter().map(|part| (part.key(), part.fencing_token()))
    }

    /// Whether the lease is valid now, by the clock of this process.
    ///
    /// The call does no I/O. The deadline counts from before the last successful request was sent, on a
    /// clock that goes on while the machine sleeps. The deadline is earlier than the deadline of the store.
    /// Once `is_valid` has returned `false`, it never returns `true` again.
    pub fn is_valid(&self) -> bool {
        self.check().is_ok()
    }

    /// Returns an error, with the reason, once the guard does not have its lease any more.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`], once [`is_valid`](Self::is_valid) is `false`. Its reason is
    /// [`Released`](crate::LossReason::Released) if the guard has given up a valid lease. If the guard is dropped
    /// after a loss, the reason of the loss stays.
    pub fn check(&self) -> Result<(), LeaseLost> {
        self.parts().iter().try_for_each(|part| part.check())
    }

    /// The instant at which the lease ends unless the driver renews it, on the clock of the
    /// backend.
    ///
    /// The lease can be lost before this instant: see [`is_valid`](Self::is_valid). Once the guard has given the lease
    /// up, the instant is in the past.
    pub fn valid_until(&self) -> Instant {
        self.parts().iter().map(|part| part.valid_until()).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// How long the lease lives on unless the driver renews it; zero once the lease is over.
    pub fn remaining(&self) -> Duration {
        self.parts().iter().map(|part| part.remaining()).min().unwrap_or(Duration::MAX)
    }

    /// A future that resolves when [`check`](Self::check) fails: the lease is lost, or the guard gives it up.
    ///
    /// The reason tells the two apart. The future borrows nothing and may outlive the handle.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect. A lease that is over stays over.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, LossReason, MutexGuard};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mutex = locks.mutex("watched", ())?;
    /// let guard = mutex.lock().await?;
    /// let watch = tokio::spawn(MutexGuard::lease(&guard).lost());
    ///
    /// MutexGuard::release(guard).await?;
    /// assert_eq!(watch.await?.reason(), LossReason::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> Lost {
        match self.parts() {
            [part] => Lost::new(Arc::clone(part)),
            parts => Lost::first_of(parts.iter().map(|part| Lost::new(Arc::clone(part))).collect()),
        }
    }

    /// Makes the lease live for at least `ttl` from now on. The future borrows nothing, so another task can run it.
    ///
    /// If the lease ends later than that anyway, the call sends nothing. Otherwise it renews the lease, and waits
    /// until the store has confirmed the renewal. While the store is out of reach, the driver tries again until the
    /// lease ends. The call never makes a lease shorter.
    ///
    /// Use it for leases [without renewal](crate::Mutex::with_renewal), before work that stops the driver, and before
    /// work that needs a longer reserve than the [`ttl`](crate::Builder::ttl). As long as this process keeps the lease,
    /// all later renewals use the longest ttl that a holder has asked for. A [maximum hold](crate::Builder::max_hold)
    /// still ends the hold.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lease may or may not have been extended.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] if the lease is over before the store has confirmed the renewal.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::{Ttl, memory::MemoryBackend};
    /// # use lock_sync::{Locks, MutexGuard};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let batch = locks.mutex("batch", ())?.with_renewal(false);
    /// let guard = batch.lock().await?;
    /// let lease = MutexGuard::lease(&guard);
    /// for _part in 0..3 {
    ///     // No part takes longer than five minutes.
    ///     lease.extend(Ttl::new(Duration::from_secs(300))?).await?;
    ///     assert!(lease.remaining() > Duration::from_secs(200));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn extend(&self, ttl: Ttl) -> impl Future<Output = Result<(), LeaseLost>> + use<> {
        let lease = self.clone();
        async move { try_join_all(lease.parts().iter().map(|part| part.extend(ttl))).await.map(drop) }
    }

    /// Runs a future as long as the lease is valid.
    ///
    /// The work may borrow the guard: see the [example](Self#examples) of the type. The future borrows nothing of the
    /// handle, so if the work borrows nothing either, another task can run the future.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] if the lease is over before the work has completed. The call then drops the work.
    ///
    /// # Cancel safety
    ///
    /// As `work`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, MutexGuard};
    /// # async fn export() -> Result<u32, std::io::Error> { Ok(7) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mutex = locks.mutex("export", ())?;
    /// let guard = mutex.lock().await?;
    /// let exporting = tokio::spawn(MutexGuard::lease(&guard).while_held(export()));
    /// // The errors of the task, of the lease and of the work:
    /// assert_eq!(exporting.await???, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn while_held<F: Future>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<F::Output, LeaseLost>> + use<F> {
        let lease = self.clone();
        WhileHeld::new(work, self.lost(), move || lease.check())
    }

    /// Runs work that needs the lease, for example its token, as long as the lease is valid.
    ///
    /// # Errors
    ///
    /// As [`while_held`](Self::while_held).
    ///
    /// # Cancel safety
    ///
    /// As `work`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, MutexGuard};
    /// # async fn write(_token: lock_core::FencingToken) {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let report = locks.mutex("report", ())?;
    /// let guard = report.lock().await?;
    /// MutexGuard::lease(&guard)
    ///     .scope(async |lease| write(lease.fencing_token()).await)
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn scope<W, R>(&self, work: W) -> Result<R, LeaseLost>
    where
        W: AsyncFnOnce(Self) -> R,
    {
        self.while_held(work(self.clone())).await
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Lease");
        match self.parts() {
            [part] => {
                debug.field("key", part.key()).field("fencing_token", &part.fencing_token());
            }
            _ => {
                debug.field("fencing_tokens", &self.fencing_tokens().collect::<Vec<_>>());
            }
        }
        debug.field("valid", &self.is_valid()).finish()
    }
}
