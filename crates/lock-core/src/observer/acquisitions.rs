//! Acquisitions and holds.

use std::cell::Cell;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::LossReason;
use crate::{Error, FencingToken, Key, Mode};

/// The name of one acquisition. No other acquisition of this process has it.
///
/// # Examples
///
/// ```
/// use lock_core::observer::AcquisitionId;
///
/// assert_ne!(AcquisitionId::draw().get(), AcquisitionId::draw().get());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AcquisitionId(NonZeroU64);

impl AcquisitionId {
    /// A new name, which no acquisition of this process has had. The call is cheap, on any number
    /// of threads.
    pub fn draw() -> Self {
        /// How many names a thread takes at once.
        const BLOCK: u64 = 1024;
        static NEXT: AtomicU64 = AtomicU64::new(BLOCK);
        thread_local! {
            /// The next name of this thread. A multiple of the block means that the thread has no
            /// name left.
            static OWN: Cell<u64> = const { Cell::new(0) };
        }
        let draw = |own: &Cell<u64>| {
            let mut id = own.get();
            if id.is_multiple_of(BLOCK) {
                // The first number of a block stays unused.
                id = NEXT.fetch_add(BLOCK, Ordering::Relaxed) + 1;
            }
            own.set(id + 1);
            id
        };
        // A thread that is ending has no variables any more.
        let id = OWN.try_with(draw);
        let id = id.unwrap_or_else(|_| NEXT.fetch_add(BLOCK, Ordering::Relaxed) + 1);
        Self(NonZeroU64::new(id).unwrap_or(NonZeroU64::MIN))
    }

    /// The name as a number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// The name of one hold. No other hold of this process has it.
///
/// # Examples
///
/// ```
/// use lock_core::observer::HoldId;
///
/// assert_eq!(HoldId::new(7, 42).to_string(), "7-42");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId {
    lock: u64,
    serial: u64,
}

impl HoldId {
    /// The hold with this serial number, of the lock with this number.
    pub fn new(lock: u64, serial: u64) -> Self {
        Self { lock, serial }
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.lock, self.serial)
    }
}

/// A caller wants a lock.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct AcquireBegun<'a> {
    /// The acquisition.
    pub id: AcquisitionId,
    /// The key, with the prefix of the locks.
    pub key: &'a Key,
    /// How the caller wants to hold the key.
    pub mode: Mode,
    /// How many acquisitions this one stands for: 1, or more if the observers hear of a [sample](super#samples).
    pub stands_for: u32,
}

/// A caller has become a waiter. It waits for another holder, or for an answer of the store.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct AcquireWaits<'a> {
    /// The acquisition.
    pub id: AcquisitionId,
    /// The key.
    pub key: &'a Key,
    /// How the caller wants to hold the key.
    pub mode: Mode,
    /// How many acquisitions this one stands for: 1, or more if the observers hear of a [sample](super#samples).
    pub stands_for: u32,
}

/// An acquisition is over.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct AcquireEnded<'a> {
    /// The acquisition.
    pub id: AcquisitionId,
    /// The key.
    pub key: &'a Key,
    /// How the caller wanted to hold the key.
    pub mode: Mode,
    /// The outcome.
    pub outcome: AcquireEnd<'a>,
    /// How long the acquisition took, from the first poll on.
    pub waited: Duration,
    /// How many acquisitions this one stands for: 1, or more if the observers hear of a [sample](super#samples).
    pub stands_for: u32,
}

/// The outcome of an acquisition.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AcquireEnd<'a> {
    /// The caller holds the lock.
    Granted {
        /// The hold of the caller. After an upgrade it is the hold that the caller had before.
        hold: HoldId,
        /// The way to the lock.
        entered: Entered,
    },
    /// The caller only tried, and another holder has the lock.
    Busy,
    /// The caller has waited as long as it wanted to. The field is the last error of the store, if
    /// there was one.
    Timeout(Option<&'a Error>),
    /// The locks are shutting down.
    Closed,
    /// The store has failed, or has refused the request.
    Failed(&'a Error),
    /// The lease that the caller would have shared or upgraded is lost.
    Lost(LossReason),
    /// The caller has given up: it dropped the future, or a poll of the future panicked.
    Abandoned,
}

impl AcquireEnd<'_> {
    /// The outcome in one word, for a label: `granted`, `busy`, `timeout`, `closed`, `failed`, `lost` or `abandoned`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Granted { .. } => "granted",
            Self::Busy => "busy",
            Self::Timeout(_) => "timeout",
            Self::Closed => "closed",
            Self::Failed(_) => "failed",
            Self::Lost(_) => "lost",
            Self::Abandoned => "abandoned",
        }
    }
}

/// The way by which a caller came to the lock.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Entered {
    /// The key was free: the store granted a lease in answer to a request.
    Free,
    /// The store granted the lease to a place of this process in its queue, and sent the grant unasked.
    Granted,
    /// Another holder of this process handed the lease off, without the store.
    HandOff,
    /// This process still had the lease, and no holder.
    Cached,
    /// Other holders of this process have a lease with room for one more hold.
    Joined,
    /// The holder already had the lock, in a weaker mode.
    Upgraded,
}

impl Entered {
    /// The way in one word, for a label: `free`, `granted`, `handoff`, `cached`, `joined` or `upgraded`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Granted => "granted",
            Self::HandOff => "handoff",
            Self::Cached => "cached",
            Self::Joined => "joined",
            Self::Upgraded => "upgraded",
        }
    }
}

/// A holder has a guard or a permit.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct HoldBegun<'a> {
    /// The hold.
    pub id: HoldId,
    /// The acquisition that led to the hold. `None` for a permit that was split off another one.
    pub acquisition: Option<AcquisitionId>,
    /// The key.
    pub key: &'a Key,
    /// How the holder holds the key.
    pub mode: Mode,
    /// The fencing token.
    pub token: FencingToken,
    /// How many holds this one stands for: as many as the acquisition that led to it, or to the hold that it was split
    /// off.
    pub stands_for: u32,
}

/// A guard or a permit has gone.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct HoldEnded<'a> {
    /// The hold.
    pub id: HoldId,
    /// The acquisition that led to the hold.
    pub acquisition: Option<AcquisitionId>,
    /// The key.
    pub key: &'a Key,
    /// The mode in which the hold began. A later conversion does not change it, so that the two events agree.
    pub mode: Mode,
    /// How the hold ended.
    pub how: HoldEnd,
    /// How long the guard existed, also if its lease was lost before the end.
    pub held: Duration,
    /// How long a lease of the lock lives unless it is renewed.
    pub ttl: Duration,
    /// How many holds this one stands for: as many as the acquisition that led to it, or to the hold that it was split
    /// off.
    pub stands_for: u32,
}

/// How a hold has ended.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldEnd {
    /// The holder called `release`, which waits until the store has confirmed it.
    Released,
    /// The guard was dropped.
    Dropped,
    /// The lease was lost while the guard existed.
    Lost(LossReason),
    /// The holder took the permits out of the semaphore for good.
    Forgotten,
    /// The holder wrote the value beside the lock and released the lock, in one step of the store.
    Committed,
}

impl HoldEnd {
    /// The end in one word, for a label: `released`, `dropped`, `lost`, `forgotten` or `committed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Dropped => "dropped",
            Self::Lost(_) => "lost",
            Self::Forgotten => "forgotten",
            Self::Committed => "committed",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::thread;

    use super::*;

    #[test]
    fn every_acquisition_has_a_name_of_its_own() {
        let draw = || (0..3_000).map(|_| AcquisitionId::draw()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(draw)).collect();
        let drawn = threads.into_iter().flat_map(|thread| thread.join().unwrap());
        let mut seen = HashSet::new();
        assert!(drawn.chain(draw()).all(|id| seen.insert(id)));
        assert_eq!(seen.len(), 15_000);
    }
}
