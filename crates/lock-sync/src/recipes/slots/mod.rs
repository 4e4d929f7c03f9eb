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

/// A semaphore made of exclusive locks: each of its permits is a *slot*, which one holder has at a time.
///
/// It is made by [`Locks::slot_semaphore`], and works over every backend, above all over those that
/// cannot count. Where the backend can, [`Semaphore`](crate::Semaphore) does more, for less.
///
/// # Why a quorum cannot count
///
/// A majority of nodes that each count permits is no count. Take three nodes, *a*, *b* and *c*, and a
/// semaphore of two permits:
///
/// | holder | has a permit on | permits held on *a*, *b*, *c* |
/// | --- | --- | --- |
/// | first | *a*, *b* | 1, 1, 0 |
/// | second | *b*, *c* | 1, 2, 1 |
/// | third | *a*, *c* | 2, 2, 2 |
///
/// No node has given out more than its two, every holder has a majority, and there are three of them. Any
/// two majorities have a node in common; so one holder of one lock is what they can agree on, and two
/// permits are two locks.
///
/// # What a permit means
///
/// A permit is the *lease* of its slot, as a [guard](crate::Mutex#what-the-guard-means) is: renewed in the
/// background, lost when that fails, and free again after a crash at the end of the lease. At most as many
/// *valid* permits exist as there are slots, under the same conditions as for one lock, in all processes
/// that say the same number. The number is stored nowhere: where processes differ, there can be as many
/// holders as the greatest of them says.
///
/// The slots are locks like any other, named like the semaphore with `#0`, `#1` and so on after it, by
/// which they can be [inspected](Locks::inspect). A mutex of such a name takes the slot's place.
///
/// # Order
///
/// Whoever waits does so for all slots at once, and takes the first that it is given. Each slot has a line of
/// its own, in which first come is first served, as with [`Mutex`](crate::Mutex#order). Over all slots
/// together it is not: two who come at the same time may stand in another order in each line, and a
/// process that used one slot goes to the end of that line alone. Nobody waits forever: every line moves
/// on.
///
/// To wait costs two requests for each slot, and a place in every line, which is kept as that of a mutex;
/// only the first task of a process that waits pays for it. In the moment in which two slots come free at
/// once, both may be given to one who needs one; the other goes back, and
/// [`try_acquire`](Self::try_acquire) elsewhere may find nothing meanwhile.
///
/// # Differences from `Semaphore`
///
/// - There is no `acquire_many`: two requests for two slots each could get one each and wait for each
///   other. To hold several locks, give them names, and take them with [`Locks::lock_all`].
/// - There is no number of free permits, which nobody counts, and none can be added or taken away.
/// - At most [`MAX_PERMITS`](Self::MAX_PERMITS), because each one is a lock of its own.
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
/// assert!(printers.acquire().await?.is_valid());
/// # Ok(())
/// # }
/// ```
pub struct SlotSemaphore {
    /// One for each slot, in their order.
    slots: Arc<[BareLock]>,
    key: Key,
    /// Where the next one begins to look: somewhere else in every process, and then at the next slot.
    next: AtomicUsize,
}

impl<B: ?Sized> Locks<B> {
    /// The semaphore of this name whose permits are so many exclusive locks.
    ///
    /// For backends that cannot count, as a quorum: see [why](SlotSemaphore#why-a-quorum-cannot-count).
    /// Every user of a name has to give the same number; nobody checks. Nothing is sent until somebody asks
    /// for a permit.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidKey`] if the name, with the [prefix](crate::Builder::prefix) and the slot's
    ///   number, is too long;
    /// - [`ErrorKind::InvalidConfig`] for no permits, and for more than [`SlotSemaphore::MAX_PERMITS`].
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
    /// The most permits that such a semaphore can have.
    pub const MAX_PERMITS: usize = 64;

    /// The name of the semaphore.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// How many permits there are, held or not.
    pub fn permits(&self) -> usize {
        self.slots.len()
    }

    /// Says how far slots are passed on inside this process while others wait elsewhere, in place of what
    /// its [`Locks`] say.
    ///
    /// It holds for permits of this handle: whoever lets go decides.
    #[must_use]
    pub fn with_handoff(mut self, handoff: Handoff) -> Self {
        self.slots = self.slots.iter().map(|slot| slot.clone().with_handoff(handoff)).collect();
        self
    }

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

/// The name of the semaphore whose slot 0 has this name: its own, with the prefix of its locks.
fn semaphore_key(slot: &Key) -> Result<Key, Error> {
    let name = slot.as_bytes().strip_suffix(b"#0").unwrap_or(slot.as_bytes());
    // An exact key that is empty is none, but this is nobody's.
    if name.is_empty() { Key::new(name) } else { with_bytes(slot, name.to_vec()) }
}

/// A key of the same kind.
fn with_bytes(like: &Key, bytes: Vec<u8>) -> Result<Key, Error> {
    if like.is_as_is() { Key::as_is(bytes) } else { Key::new(bytes) }
}

/// A number that other processes do not have.
fn anywhere() -> usize {
    // Only its lower bits count, so it may be cut.
    RandomState::new().build_hasher().finish() as usize
}
