//! Locks with the interface of `tokio::sync` that hold across processes and machines.
//!
//! An app keeps one [`Locks`] handle, and makes each lock with it. The locks work over any [`Backend`]: the memory
//! backend for tests and single processes, Redis or Valkey with the crate `lock-redis`, PostgreSQL with the crate
//! `lock-postgres`, an etcd cluster with the crate `lock-etcd`, a quorum of servers with the crate `lock-redlock`. The
//! crate `lock-any` opens the store that a URL names.
//!
//! ```
//! use lock_sync::{Locks, MemoryBackend, MutexGuard};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = Locks::new(MemoryBackend::new());
//!
//! // Processes share a lock by its name. They do not share the value in the mutex, here `()`.
//! let order = locks.mutex("orders/42", ())?;
//! let guard = order.lock().await?;
//! println!("this holder has the token {}", MutexGuard::lease(&guard).fencing_token());
//! drop(guard);
//!
//! // They share the value of a `StoredMutex`: the store keeps it beside the lock.
//! let stock = locks.stored_mutex("stock/apples", 3)?;
//! let mut apples = stock.lock().await?;
//! *apples -= 1;
//! apples.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! | primitive | made by | the backend must be able to |
//! | --- | --- | --- |
//! | [`Mutex`] | [`Locks::mutex`] | grant leases, as every backend can |
//! | [`LockGuard`]: a lock without data, for a name that is used once | [`Locks::lock`] | grant leases |
//! | [`MultiGuard`]: several locks, all or none | [`Locks::lock_all`] | grant leases; some backends grant them all in one step |
//! | [`RwLock`] | [`Locks::rwlock`] | [share](lock_core::SharedBackend); for upgradable reads, [convert](lock_core::ConvertBackend) as well |
//! | [`Semaphore`] | [`Locks::semaphore`] | [count](lock_core::PermitBackend) |
//! | [`SlotSemaphore`]: permits that are locks, over a quorum as well | [`Locks::slot_semaphore`] | grant leases |
//! | [`ReentrantMutex`]: its owner locks again | [`Locks::reentrant_mutex`] | grant leases; to enter [in another process](Locks::owner), [hold jointly](lock_core::JointBackend) |
//! | [`StoredMutex`]: the store keeps the value beside the lock | [`Locks::stored_mutex`] | [keep a value](lock_core::CellBackend) |
//! | [`OnceCell`]: one process initializes, all read | [`Locks::once_cell`] | keep a value |
//! | [`Election`]: one process leads, all see which | [`Locks::election`] | keep a value |
//! | [`Barrier`]: processes wait for one another | [`Locks::barrier`] | count, and keep a value |
//! | a list of the holders and waiters of a lock | [`Locks::inspect`] | [be inspected](lock_core::InspectBackend) |
//!
//! [`from_tokio`] lists every item of `tokio::sync`, and what differs here. The [`guide`] has pages about choosing a
//! ttl, fencing, errors, tests, and common patterns.
//!
//! There is no `Notify`. In one process, `notify_waiters` reaches every future that was created before, polled or not.
//! Between processes a message can get lost, and no process learns that another process has created a future. So a
//! `Notify` would sometimes lose a wake-up. Programs mostly use a `Notify` to wait for a value, for a leader or for
//! other tasks: see [`StoredMutex::subscribe`], [`OnceCell`], [`Election`] and [`Barrier`].
//!
//! # What is promised
//!
//! At most one guard of an exclusive lock is *valid* at a time, while (a) the store keeps its data, (b) clock *rates*
//! differ by less than the [drift](lock_core::Ttl::drift), and (c) the holder stops when its guard says that the lease
//! is lost.
//!
//! The order of fencing tokens has other conditions. Each store states its own: for example, a server that forgets its
//! data keeps the order while its clock is not set back. While the tokens of a lock increase, a resource that refuses
//! lower tokens is safe from former holders. Several holders have permits at once, so [the tokens of permits promise
//! less](Semaphore#fencing-tokens).
//!
//! # What runs where
//!
//! If no task of this process holds the lock, the task that wants the lock sends the request itself, on its own thread.
//! If a task of this process gives the lock up, the next task gets the lock without a request. All work that must not
//! depend on a task is the work of the *driver*, a thread with a small runtime. It sends renewals and the releases of
//! dropped guards, and finishes requests whose task is gone. [`Builder::on_runtime`] puts the driver on a runtime of
//! yours instead.
//!
//! If tasks on a multi-threaded runtime ask for locks, the process listens to the store on that runtime:
//! the thread that receives a grant also polls the waiter. Otherwise the driver listens.
//!
//! # Waiting and taking turns
//!
//! All tasks of a process that wait for a lock share one place in the queue of the store. When the turn of the process
//! comes, the store tells the process, and its first waiter gets the lock without a request. While no other process
//! waits, the tasks of the process then hand the lock off from one to the next. Once another process waits, [`Handoff`]
//! says how long this may go on. Each exclusive guard has a fencing token of its own. If tasks still wait when the turn
//! of the process is over, the process goes to the end of the queue in the step that releases the lock.
//!
//! A dead process delays other processes for a bounded time:
//!
//! | event | longest delay of other processes |
//! | --- | --- |
//! | a holder crashes | until the store ends its lease: the [`ttl`](Builder::ttl), rounded up to the steps of the store, and the [lag](lock_core::Limits::lag) |
//! | a process with a place is gone, and its connection is closed | none, or the [lag](lock_core::Limits::lag) of the store |
//! | a process dies, or is stopped, when its turn has just come | the [claim time](lock_core::Limits::claim) and the lag of the store: about a second, and three to four seconds on etcd. Then the next process in the queue asks |
//! | several processes in a row die in this way | the claim time, and then until another process asks |
//! | a message is lost, or the connection of a waiting process breaks | until that process connects again and asks, or until another process asks |
//!
//! Another process asks after a third of [`Ttl::for_place`](lock_core::Ttl::for_place) at the latest: ten seconds with
//! the default lease, one second with leases of up to three seconds. Every waiting process asks that often to keep its
//! place, and waiting costs no other requests. A newcomer asks at once. If the store cannot send messages to a process,
//! the process has no place in the queue. Such a process asks again after a tenth of a second, and later every half
//! second.
//!
//! After a hand-over, the lease is at first as short as the claim time. The process renews the lease after a tenth of
//! that time. A process that cannot reach the store within the claim time loses the lock.
//!
//! The process also watches the key of a guard that lives for a while. If the store reports that another client has
//! deleted or overwritten the key, the lease is lost within milliseconds, not at the next renewal.

#![forbid(unsafe_code)]

mod bare;
mod blocking;
mod destroying;
mod engine;
mod error;
mod foreign;
mod guard;
mod handoff;
mod inspect;
mod lease;
mod locks;
mod lost;
mod mutex;
mod named;
mod options;
mod recipes;
mod reentrant;
mod rwlock;
mod semaphore;
mod sync;
mod waits;

#[doc = include_str!("from_tokio.md")]
pub mod from_tokio {}
pub mod guide;

// The types that an app needs beside the primitives.
#[cfg(feature = "memory")]
pub use lock_core::memory::MemoryBackend;
pub use lock_core::{
    AnyBackend, Backend, Cursor, Error, ErrorKind, FencingToken, Holder, Inspection, Instant, Key,
    Kind, Label, List, Listed, Page, Waiter,
};

pub use destroying::DestroyError;
pub use error::{LeaseLost, LockError, LossReason, ReleaseError, TryLockError};
pub use handoff::Handoff;
pub use lease::Lease;
pub use locks::{Builder, Locks};
pub use lost::Lost;
pub use mutex::{
    Lock, LockOwned, MappedMutexGuard, Mutex, MutexGuard, OwnedMappedMutexGuard, OwnedMutexGuard,
};
pub use named::{LockGuard, LockName};
pub use recipes::barrier::{Barrier, BarrierWaitResult};
pub use recipes::election::{Election, LeaderInfo, Leadership, Observer};
pub use recipes::once_cell::{OnceCell, OnceCellError, SetError};
pub use recipes::slots::{
    AcquireSlot, AcquireSlotOwned, OwnedSlotPermit, SlotPermit, SlotSemaphore,
};
#[cfg(feature = "postcard")]
pub use recipes::stored::Postcard;
pub use recipes::stored::{
    Bytes, Codec, CodecError, CommitError, Json, SaveError, Snapshot, StoredMutex,
    StoredMutexGuard, StoredUpdateError, Versions,
};
pub use recipes::together::{LockAll, MultiGuard, TryLockAll};
pub use reentrant::{
    LockAs, Owner, OwnerGuard, OwnerScope, ParseOwnerError, PassedOwner, ReentrantGuard,
    ReentrantLock, ReentrantMutex, Reentry, current_owner, owner_scope, owner_scope_sync,
};
pub use rwlock::{
    OwnedRwLockMappedWriteGuard, OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard,
    OwnedRwLockWriteGuard, Read, ReadOwned, RwLock, RwLockMappedWriteGuard, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, UpgradableRead, UpgradableReadOwned, Upgrade,
    UpgradeError, UpgradeOwned, Write, WriteOwned,
};
pub use semaphore::{
    Acquire, AcquireError, AcquireOwned, Declaration, OwnedSemaphorePermit, PollSemaphore,
    Semaphore, SemaphorePermit, TryAcquireError,
};

// The examples of the README are tests.
#[cfg(all(doctest, feature = "memory"))]
#[doc = include_str!("../README.md")]
struct Readme;
