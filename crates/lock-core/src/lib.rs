//! The contract between distributed locks and the stores that carry them.
//!
//! **Backend authors** implement [`Backend`], four verbs over one store (*try to acquire*, *renew*,
//! *release*, *watch*), and run the [conformance suite](conformance) against it. **Primitive authors**
//! (`lock-sync` has primitives) call it. **App authors** meet only some of the value types: a [`Key`], a
//! [`FencingToken`], an [`Error`].
//!
//! The four verbs are enough for a mutex. What only some stores can do is a capability, with a trait and
//! laws of its own. So code does not compile if it needs a capability that the store lacks:
//!
//! | capability | adds | for |
//! | --- | --- | --- |
//! | [`SharedBackend`] | readers beside one another | `RwLock` |
//! | [`ConvertBackend`] | leases that become weaker, or exclusive, while their owners go on holding the key | upgradable reads |
//! | [`JointBackend`] | several holders as one | a lock that another process re-enters |
//! | [`PermitBackend`] | counted permits, whose number is remembered and can change | `Semaphore` |
//! | [`CellBackend`] | a small value beside the lock, which only the holder writes | `StoredMutex`, `OnceCell`, `Election`, `Barrier` |
//! | [`InspectBackend`] | a list of holders and waiters, and a forced release of all leases | operators |
//! | [`QuorumNode`] | a vote, and tokens that can be brought into step with those of other nodes | a lock over several stores |
//!
//! The crate does no I/O, and without features it needs no runtime.
//!
//! | feature | brings | pulls in |
//! | --- | --- | --- |
//! | `document` | [`document`]: a backend over any store that can read a row and swap it, and the decisions about one key | |
//! | `memory` | [`MemoryBackend`](memory::MemoryBackend), [`Clock::tokio`] | `tokio` (`time`, `sync`) |
//! | `runtime` | [`runtime`]: a thread with a runtime; [`hints`]: the channel of a watch | `tokio` (`rt`, `sync`, `time`) |
//! | `conformance` | [`conformance`]: the laws of the traits as tests | `memory`, `tokio` (`rt`, `macros`) |
//! | `serde` | [`FencingToken`] implements `Serialize` and `Deserialize`, a [`Report`](check::Report) implements `Serialize` | `serde` |
//!
//! # What is promised
//!
//! At most one *valid* lease per key exists at a time (or as many as its mode allows), while (a) the store keeps its
//! data, (b) clock *rates* differ by less than [`Ttl::drift`] allows, and (c) the holder stops when its
//! lease says that it is lost. Each store states when the [`FencingToken`]s of successive exclusive grants increase. While
//! they increase, a resource that refuses lower tokens is safe.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod backoff;
mod capabilities;
mod clock;
mod error;
mod fencing;
mod key;
mod label;
mod limits;
mod mode;
mod outcome;
mod owner;
mod request;
mod ttl;
mod watch;

pub mod check;
#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "document")]
pub mod document;
pub mod foreign;
#[cfg(feature = "runtime")]
pub mod hints;
#[cfg(feature = "memory")]
pub mod memory;
pub mod observer;
#[cfg(feature = "runtime")]
pub mod runtime;

pub use backend::Backend;
pub use backoff::{Backoff, scattered};
pub use capabilities::{
    AnyBackend, Ballot, Capabilities, Capability, Cell, CellBackend, Committed, Conversion,
    ConvertBackend, Convertible, Cursor, Ending, Fixed, Holder, InspectBackend, Inspection,
    JointBackend, Kind, List, Listed, LoadedValue, Membership, OwnerTag, Page, PermitBackend,
    Permits, Quarantine, QuorumNode, Resize, Resized, Server, SharedBackend, Standing, Stored,
    Terms, Upgradable, Vote, Waiter,
};
pub use clock::{Clock, Instant};
pub use error::{Error, ErrorKind, Result};
pub use fencing::{FencingToken, TokenRange};
pub use key::Key;
pub use label::{ClientMark, Label};
pub use limits::Limits;
pub use mode::Mode;
pub use outcome::{AcquireOutcome, Contention, Grant, Released, Renewal};
pub use owner::OwnerToken;
pub use request::{Acquire, Claim, Convert, Renew};
pub use ttl::Ttl;
pub use watch::{Hint, Watch};

// The examples of the README are tests.
#[cfg(all(doctest, feature = "memory"))]
#[doc = include_str!("../README.md")]
struct Readme;
