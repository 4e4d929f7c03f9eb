//! The contract between distributed locks and the stores that carry them.
//!
//! Three groups of readers meet here. **Backend authors** implement [`Backend`], four verbs over
//! one store (*try to acquire*, *renew*, *release*, *watch*), and run the
//! [conformance suite](conformance) against it. **Primitive authors** (`lock-sync` is one) call it.
//! **App authors** see the value types in passing: a [`Key`], a [`FencingToken`], an [`Error`].
//!
//! The four verbs are enough for a mutex. What only some stores can do is an ability, with a trait and
//! laws of its own, so that asking a store for what it cannot do does not compile:
//!
//! | ability | adds | for |
//! | --- | --- | --- |
//! | [`SharedBackend`] | readers beside one another | `RwLock` |
//! | [`ConvertBackend`] | leases that become weaker, or exclusive, without being let go | upgradable reads |
//! | [`JointBackend`] | several holders as one | a lock that another process re-enters |
//! | [`PermitBackend`] | counted permits, whose number is remembered and can change | `Semaphore` |
//! | [`CellBackend`] | a small value beside the lock, which only the holder writes | `OnceCell`, `Barrier`, `Leader` |
//! | [`InspectBackend`] | who holds and who waits, and an end to all leases | people |
//! | [`QuorumNode`] | a vote, and tokens that can be brought into step with those of others | a lock over several stores |
//!
//! The crate does no I/O, and without features it needs no runtime.
//!
//! | feature | brings | pulls in |
//! | --- | --- | --- |
//! | `memory` | [`MemoryBackend`](memory::MemoryBackend), [`Clock::tokio`] | `tokio` (`time`, `sync`) |
//! | `runtime` | [`runtime`]: a thread with a runtime | `tokio` (`rt`) |
//! | `conformance` | [`conformance`]: the laws of the traits as tests | `memory`, `tokio` (`rt`, `macros`) |
//!
//! # What is promised
//!
//! At most one *valid* lease per key at a time (as its mode allows), while (a) the store keeps its
//! data, (b) clock *rates* differ by less than [`Ttl::drift`] allows, (c) the holder stops when its
//! lease says that it is lost. Independently of all three, the [`FencingToken`]s of successive
//! exclusive grants increase, so that a resource which refuses lower tokens is safe.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod abilities;
mod backend;
mod backoff;
mod clock;
mod error;
mod fencing;
mod key;
mod mode;
mod outcome;
mod owner;
mod request;
mod ttl;
mod watch;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "runtime")]
pub mod runtime;

pub use abilities::{
    Ballot, Cell, CellBackend, Conversion, ConvertBackend, Convertible, Fixed, Holder,
    InspectBackend, Inspection, JointBackend, Kind, OwnerTag, PermitBackend, Permits, Quarantine,
    QuorumNode, Resize, Resized, Server, SharedBackend, Standing, Stored, Upgradable, Vote, Waiter,
};
pub use backend::Backend;
pub use backoff::Backoff;
pub use clock::{Clock, Instant};
pub use error::{Error, ErrorKind, Result};
pub use fencing::{FencingToken, TokenRange};
pub use key::Key;
pub use mode::Mode;
pub use outcome::{Attempt, Demand, Grant, Released, Renewal};
pub use owner::OwnerToken;
pub use request::{Acquire, Claim, Convert, Renew};
pub use ttl::Ttl;
pub use watch::{Hint, Watch};
