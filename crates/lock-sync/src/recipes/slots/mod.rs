//! Permits that are locks, for stores that cannot count.

mod acquire;
mod permit;
mod search;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::{Error, ErrorKind, Key};

pub use acquire::{AcquireSlot, AcquireSlotOwned};
pub use permit::{OwnedSlotPermit, SlotPermit};

use crate::Locks;
use crate::bare::{BareLock, Wait};
use crate::handoff::Handoff;
use search::Search;

/// A semaphore made of exclusive locks: each of its permits is a *slot*, which has one holder at a time.
///
/// [`Locks::slot_semaphore`] makes it. It works over every backend. Use it over backends that cannot
/// count. If the backend can count, [`Semaphore`](crate::Semaphore) does more at a lower cost.
///
/// # Why a quorum cannot count
///
/// A majority of nodes cannot count permits, even if each node can. Take three nodes, *a*, *b* and *c*, and a
/// semaphore of two permits:
///
/// | holder | has a permit on | permits held on *a*, *b*, *c* |
/// | --- | --- | --- |
/// | first | *a*, *b* | 1, 1, 0 |
/// | second | *b*, *c* | 1, 2, 1 |
/// | third | *a*, *c* | 2, 2, 2 |
///
/// No node has given out more than its two permits, and every holder has a majority, but there are three holders. A
/// quorum can agree on one holder of one lock, because any two majorities have a node in common. Two permits
/// therefore need two locks.
///
/// # What a permit means
///
/// A permit has the *lease* of its slot, as a [guard](crate::Mutex#what-the-guard-means) has the lease of its lock.
/// The driver renews the lease in the background. If renewal fails, the lease is lost. After a crash, the slot is free
/// when the lease ends. Under the conditions of one lock, there are at most as many *valid* permits as slots. No store
/// keeps the number of slots: if processes give different numbers, there can be as many holders as the greatest
/// number.
///
/// The slots are ordinary locks. Their names are the name of the semaphore followed by `#0`, `#1` and so on. They can
/// be [inspected](Locks::inspect) by these names. A mutex with such a name occupies the slot.
///
/// # Order
///
/// A waiter waits for all slots at once, and takes the first one that it is granted. Each slot has an order of its
/// waiters, as a [`Mutex`](crate::Mutex#order) has. All slots together have no order: two waiters that come at one time
/// may have a different order at each slot, and a process that used a slot goes to the end of the queue of that slot
/// alone. No waiter waits for ever, because every queue moves on.
///
/// A wait costs two requests for each slot, and a place in the queue of each slot, which the process renews as the
/// place of a mutex. Only the first waiter of a process has this cost. If two slots become free at one moment, a
/// waiter may get both. It gives one slot back, and a [`try_acquire`](Self::try_acquire) of another process may find
/// no free slot meanwhile.
///
/// # Differences from `Semaphore`
///
/// - There is no `acquire_many`: two requests for two slots each could get one each and wait for each
///   other. To hold several locks, give them names, and take them with [`Locks::lock_all`].
/// - It does not report the number of free permits, and has no calls that add or remove permits.
/// - There are at most [`MAX_PERMITS`](Self::MAX_PERMITS), because each permit is a lock.
/// - A permit has a [slot](SlotPermit::slot), and a fencing token for that slot alone.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, TryAcquireError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(MemoryBackend::new());
/// let printers = locks.slot_semaphore("printers", 2)?;
///
/// let one = printers.acquire().await?;
/// let other = printers.acquire().await?;
/// assert_ne!(one.slot(), other.slot());
/// assert_eq!(printers.try_acquire().await.err(), Some(TryAcquireError::NoPermits));
///
/// one.release().await?;
/// assert!(printers.acquire().await?.lease().is_valid());
/// # Ok(())
/// # }
/// ```
pub struct SlotSemaphore {
    /// The lock of each slot, in the order of the slots.
    slots: Arc<[BareLock]>,
    key: Key,
    /// The slot at which the next search begins. Each process begins at a random slot, and each search begins one slot
    /// later.
    next: AtomicUsize,
}

impl<B: ?Sized> Locks<B> {
    /// Makes the semaphore with this name, whose permits are this number of exclusive locks.
    ///
    /// Use it over backends that cannot count, such as a quorum: see
    /// [why](SlotSemaphore#why-a-quorum-cannot-count). All users of a name must give one number; no store checks
    /// this. The call sends no request.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidKey`] if the name, with the [prefix](crate::Builder::prefix) and the slot's
    ///   number, is too long;
    /// - [`ErrorKind::InvalidConfig`] for zero permits, and for more than [`SlotSemaphore::MAX_PERMITS`].
    pub fn slot_semaphore<K>(&self, name: K, permits: usize) -> Result<SlotSemaphore, Error>
    where
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        if !(1..=SlotSemaphore::MAX_PERMITS).contains(&permits) {
            return Err(Error::new(
                ErrorKind::InvalidConfig,
                format!(
                    "{permits} permits: a semaphore of slots has 1 to {}, each a lock of its own",
                    SlotSemaphore::MAX_PERMITS
                ),
            ));
        }
        let slots = self.slots(&name.try_into()?, permits)?;
        Ok(SlotSemaphore {
            key: semaphore_key(slots[0].key())?,
            slots,
            next: AtomicUsize::new(anywhere()),
        })
    }

    fn slots(&self, name: &Key, permits: usize) -> Result<Arc<[BareLock]>, Error> {
        (0..permits).map(|slot| self.bare_lock(slot_key(name, slot)?)).collect()
    }
}

impl SlotSemaphore {
    /// The greatest number of permits that such a semaphore can have.
    ///
    /// See [`SlotSemaphore`](crate::SlotSemaphore#examples) for an example.
    pub const MAX_PERMITS: usize = 64;

    /// The [name](crate::Key) of the semaphore.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The number of permits, held or free.
    ///
    /// See [`SlotSemaphore`](crate::SlotSemaphore#examples) for an example.
    pub fn permits(&self) -> usize {
        self.slots.len()
    }

    /// Sets how long this process hands slots off among its own tasks while other processes wait.
    ///
    /// This setting replaces the setting of the [`Locks`] for the permits of this handle: the setting of the permit
    /// that is given back decides.
    #[must_use]
    pub fn with_handoff(mut self, handoff: Handoff) -> Self {
        self.slots = self.slots.iter().map(|slot| slot.clone().with_handoff(handoff)).collect();
        self
    }

    crate::options::options!("of a slot", "locks.slot_semaphore(\"pool\", 3)?", |this, change| {
        this.slots = this.slots.iter().map(|slot| slot.clone().with_policy(change)).collect()
    });

    fn search(&self, wait: Wait) -> Search {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        Search::new(Arc::clone(&self.slots), first, wait)
    }

    fn default_wait(&self) -> Wait {
        self.slots[0].default_wait()
    }
}

/// Shows what this process knows, without asking the store.
impl fmt::Debug for SlotSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.slots.iter().filter(|slot| slot.is_held()).count();
        f.debug_struct("SlotSemaphore")
            .field("key", &self.key)
            .field("permits", &self.permits())
            .field("held_here", &held)
            .finish_non_exhaustive()
    }
}

/// The name of a slot.
fn slot_key(name: &Key, slot: usize) -> Result<Key, Error> {
    with_bytes(name, [name.as_bytes(), format!("#{slot}").as_bytes()].concat())
}

/// The name of the semaphore whose slot 0 has this name. It includes the prefix of the locks.
fn semaphore_key(slot: &Key) -> Result<Key, Error> {
    let name = slot.as_bytes().strip_suffix(b"#0").unwrap_or(slot.as_bytes());
    // An exact key must not be empty, so an empty name is no exact key. No request uses it.
    if name.is_empty() { Key::new(name) } else { with_bytes(slot, name.to_vec()) }
}

/// A key with these bytes, exact if `like` is exact.
fn with_bytes(like: &Key, bytes: Vec<u8>) -> Result<Key, Error> {
    if like.is_as_is() { Key::raw(bytes) } else { Key::new(bytes) }
}

/// A random number, so that processes begin at different slots.
fn anywhere() -> usize {
    // Only the lower bits count, so the number may be truncated.
    RandomState::new().build_hasher().finish() as usize
}
