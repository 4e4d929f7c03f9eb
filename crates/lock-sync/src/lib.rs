//! Locks with tokio's surface that hold across processes and machines.
//!
//! [`Locks`] is the handle that an app keeps; [`Mutex`] is what it locks. They work over any
//! [`Backend`](lock_core::Backend): one in memory for tests and single processes, Redis or Valkey
//! with the crate `lock-redis`.
//!
//! ```
//! use lock_core::memory::MemoryBackend;
//! use lock_sync::Locks;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = Locks::new(MemoryBackend::new());
//! let stock = locks.mutex("stock/apples", 3)?;
//!
//! let mut apples = stock.lock().await?;
//! *apples -= 1;
//! println!("{} left, says holder {}", *apples, apples.fencing_token());
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! | what | made by | the backend must be able to |
//! | --- | --- | --- |
//! | [`Mutex`] | [`Locks::mutex`] | grant leases: any can |
//! | [`AllGuard`]: several locks, all or none | [`Locks::lock_all`] | the same; in one step if it can |
//! | [`RwLock`] | [`Locks::rwlock`] | [share](lock_core::SharedBackend) |
//! | [`Semaphore`] | [`Locks::semaphore`] | [count](lock_core::PermitBackend) |
//! | [`SlotSemaphore`]: permits that are locks, over a quorum as well | [`Locks::slot_semaphore`] | grant leases: any can |
//! | [`ReentrantMutex`] | [`Locks::reentrant_mutex`] | [hold jointly](lock_core::JointBackend) |
//! | [`OnceCell`]: one process initializes, all read | [`Locks::once_cell`] | [keep a value](lock_core::CellBackend) |
//! | [`Election`]: one process leads, all see which | [`Locks::election`] | keep a value |
//! | [`Barrier`]: processes wait for one another | [`Locks::barrier`] | count, and keep a value |
//! | who holds and who waits | [`Locks::inspect`] | [be inspected](lock_core::InspectBackend) |
//!
//! What changes for those who come from `tokio::sync`, item by item, is on [a page of its own](from_tokio).
//!
//! There is no `Notify`. Its methods neither fail nor wait, and `notify_waiters` reaches every future that
//! was created before, polled or not. Between processes a message can be lost, and creating a future
//! tells nobody: something of that name would now and then lose a wake-up. What it is used for is mostly
//! waiting for a value, for a leader or for the others: [`OnceCell`], [`Election`], [`Barrier`].
//!
//! # What is promised
//!
//! At most one *valid* guard per lock at a time, while (a) the store keeps its data, (b) clock *rates*
//! differ by less than the [drift](lock_core::Ttl::drift) that is allowed for, (c) the holder stops
//! when its guard says that the lease is lost. Independently of all three, the fencing tokens of
//! successive guards increase, so that a resource which refuses lower tokens is safe.
//!
//! # What runs where
//!
//! A lock that is free here is asked for by the task itself, on its own thread. A lock that another
//! task of the process gives up passes to the next one on the thread of the one that gives it up.
//! Everything that must not depend on a task lives on the *driver*, a thread with a small runtime:
//! renewals, releases of dropped guards, requests whose task went away, and waiting for other
//! processes. [`Builder::on_runtime`] puts it on a runtime of yours instead.

//!
//! # Waiting and taking turns
//!
//! However many tasks of a process wait for a lock, the process has one place in the store's queue. When
//! its turn comes the store says so, and the first task enters without asking. The lock then passes from
//! task to task within the process for as long as nobody waits elsewhere, and after that as far as
//! [`Handoff`] says. Each guard has a fencing token of its own. A process whose turn is over, and in which
//! tasks still wait, goes to the end of the queue in the same step.
//!
//! Nobody waits for the dead for long:
//!
//! | what happens | how long it may hold up the others |
//! | --- | --- |
//! | a holder crashes | until its lease ends: [`ttl`](Builder::ttl) |
//! | a process whose turn comes is gone, and its connection is closed | not at all |
//! | a process dies, or is stopped, when its turn has just come | [`Ttl::claim`](lock_core::Ttl::claim), at most a second: the next in line asks then |
//! | this happens to several processes in a row | the same, and then until another client asks |
//! | a message is lost, or a waiter's connection breaks | until it is connected again and asks, and otherwise until somebody asks |
//!
//! *Until somebody asks* is a third of [`Ttl::place`](lock_core::Ttl::place) at most: ten seconds with the
//! default lease, one with leases of up to three seconds. Every waiter asks that often to keep its place,
//! which is all that waiting costs. A newcomer asks at once. A process that the store cannot tell of
//! anything has no place in the queue: it asks after a tenth of a second, and later every half second.
//!
//! The lease of a guard that has entered when its turn came is as short as the claim, until it is renewed
//! after a tenth of that. A process that cannot reach the store in its first second with the lock loses it.
//!
//! A guard that is held for a while watches its key as well. If the key is deleted or overwritten and the
//! store says so, the guard is lost within milliseconds, not at the next renewal.

#![forbid(unsafe_code)]

mod asking;
mod barrier;
mod blocking;
mod cell;
mod driver;
mod engine;
mod error;
mod handoff;
mod inspect;
mod leader;
mod lease_methods;
mod locking;
mod locks;
mod lost;
mod mutex;
mod once_cell;
mod reentrant;
mod rwlock;
mod semaphore;
mod slots;
mod together;

#[doc = include_str!("from_tokio.md")]
pub mod from_tokio {}

pub use barrier::{Barrier, BarrierError, BarrierWaitResult};
pub use error::{LeaseLost, LockError, LossReason, ReleaseError, TryLockError};
pub use handoff::Handoff;
pub use leader::{Election, LeaderInfo, Leadership, Observer, UpdateError};
pub use locks::{Builder, Locks};
pub use lost::Lost;
pub use mutex::{
    Lock, LockOwned, MappedMutexGuard, Mutex, MutexGuard, OwnedMappedMutexGuard, OwnedMutexGuard,
};
pub use once_cell::{OnceCell, OnceCellError, SetError};
pub use reentrant::{
    LockAs, Owner, OwnerGuard, OwnerScope, ParseOwnerError, ReentrantGuard, ReentrantLock,
    ReentrantLockError, ReentrantMutex, Reentry, TryReentrantLockError, current_owner, owner_scope,
    owner_scope_sync,
};
pub use rwlock::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard,
    OwnedRwLockWriteGuard, Read, ReadOwned, RwLock, RwLockMappedWriteGuard, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, UpgradableRead, UpgradableReadOwned, Upgrade,
    UpgradeError, UpgradeOwned, Write, WriteOwned,
};
pub use semaphore::{
    Acquire, AcquireError, AcquireOwned, OwnedSemaphorePermit, PollSemaphore, Semaphore,
    SemaphorePermit, TryAcquireError,
};
pub use slots::{AcquireSlot, AcquireSlotOwned, OwnedSlotPermit, SlotPermit, SlotSemaphore};
pub use together::{AllGuard, LockAll, TryLockAll};
