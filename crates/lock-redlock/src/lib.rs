//! A lock held by a majority of independent stores.
//!
//! [`Redlock`] takes several [nodes](lock_core::QuorumNode), each a store that fails on its own, and is a
//! [`Backend`](lock_core::Backend) itself: whoever has the votes of a majority holds the lock. It knows nothing of
//! what the nodes are. Over the nodes of `lock-redis` it is the algorithm of that name in the Redis
//! documentation, without some of its holes: see [`divergence`].
//!
//! # What is promised
//!
//! At most one *valid* lease per key at a time (as its mode allows), while
//!
//! - (a) every node that votes keeps its data, or sits out a quarantine after it may have lost some;
//! - (b) clock *rates* differ by less than [`Ttl::drift`](lock_core::Ttl::drift) allows, and the nodes' clocks are
//!   not set by more than that;
//! - (c) the holder stops when its lease says that it is lost;
//! - (d) all clients name the same nodes, and the same [longest lease](Builder::max_ttl).
//!
//! Independently of (a) to (c) the fencing tokens of successive grants increase, so that a resource which refuses
//! lower tokens is safe. After a node has forgotten its counters, that is so if the clocks of clients differ by
//! less than its quarantine lasts. And while a majority of nodes can be reached, locks can be had and are kept:
//!
//! | nodes | a majority | may fail at once |
//! | --- | --- | --- |
//! | 3 | 2 | 1 |
//! | 5 | 3 | 2 |
//! | 7 | 4 | 3 |
//!
//! An even number costs a node and gains nothing, and one node is no quorum: both are refused unless
//! [asked for](Builder::allow_any_number). Nodes that share a machine, a disk or a replication group fail at once.
//!
//! # Example
//!
//! ```
//! use lock_core::memory::MemoryBackend;
//! use lock_core::{Acquire, Attempt, Backend, Claim, Key, OwnerToken, Ttl};
//! use lock_redlock::Redlock;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> lock_core::Result<()> {
//! let stores: Vec<_> = (0..5).map(|_| MemoryBackend::new()).collect();
//! let quorum = Redlock::builder().nodes(stores.clone()).build().await?;
//! quorum.init().await?;
//!
//! // Two of five are gone, and nothing is lost.
//! stores[1].faults().cut();
//! stores[4].faults().cut();
//! let claim = Claim::exclusive(Key::new("orders/42")?, OwnerToken::generate()?);
//! let attempt = quorum.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?;
//! assert!(matches!(attempt, Attempt::Granted(_)));
//! quorum.release(&claim).await?;
//!
//! // Without a third nobody gets a lock, and the error says why.
//! stores[0].faults().cut();
//! let error = quorum.try_acquire(&Acquire::new(claim, Ttl::DEFAULT)).await.unwrap_err();
//! assert!(error.is_retryable());
//! assert!(error.to_string().starts_with("2 of 5 nodes voted, 3 are needed: 1: "));
//! # Ok(())
//! # }
//! ```
//!
//! # What it costs
//!
//! All nodes are asked at once, and the answer is there with the majority's: a lock takes as long as the slowest
//! node of the fastest majority, whether the others are slow, stopped or dead. A second round is needed only after
//! votes were split, which is when several clients ask for a free lock at the same moment.
//!
//! What is left to do is done in the background, on a thread of the quorum's own or on
//! [a runtime](Builder::on_runtime): votes that come too late are given back unless the lock is held, releases
//! that a node has missed are repeated, and nodes that were kept out are vouched for. The requests themselves are
//! polled by whoever makes them; on a tokio runtime, that must have time enabled. If it has several threads, it is
//! also where answers are awaited that come after the majority's, so that no other thread is woken for them.
//!
//! # Nodes that may have forgotten
//!
//! A node that restarts empty, from an old file, or is flushed has forgotten locks that are held, and would vote
//! for somebody else. It is kept out: nodes can tell whether anybody has vouched for what they have, and abstain
//! until a client has watched them for the [longest lease](Builder::max_ttl) and a little more on its own clock.
//! So for a new deployment, too, unless somebody calls [`init`](Redlock::init). What is kept out, and for how
//! long, is in [`status`](Redlock::status).
//!
//! # What works over it
//!
//! | | |
//! | --- | --- |
//! | exclusive, shared and upgradable locks, conversions | yes, where the nodes know them |
//! | [joint holders](lock_core::JointBackend) | yes; their tokens may differ after a node was missed |
//! | [values beside a lock](lock_core::CellBackend) | yes: what was written is what every later load returns, and what has reached too few nodes is loaded as not settled |
//! | [inspection](lock_core::InspectBackend) | yes: those are shown who hold a majority |
//! | counting [permits](lock_core::PermitBackend) | no, and it does not compile |
//! | a queue among processes | no: who waits is told when a majority is free, and asks |
//! | several locks in one step | no: they are taken one after another |
//!
//! Majorities cannot count: with two permits on each of the nodes *a*, *b* and *c*, one holder may have one each
//! on *a* and *b*, a second on *b* and *c*, and a third on *a* and *c*. That makes three holders of two permits.
//! Take one of several exclusive locks instead.
//!
//! ```compile_fail,E0277
//! fn counts<B: lock_core::PermitBackend>() {}
//! counts::<lock_redlock::Redlock<lock_core::memory::MemoryBackend>>();
//! ```
//!
//! # Observing
//!
//! With [`tracing`]: what each node says, in the target `lock_redlock::node` with the field `node` (answers at
//! the level trace, errors at debug, and at info and warn what concerns a node for longer), and what that comes
//! to in the target `lock_redlock` (debug). Owner tokens are never logged.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod abilities;
mod acquire;
mod asked;
mod background;
mod backoff;
mod builder;
mod claims;
mod convert;
mod failure;
mod hints;
mod inner;
mod keep;
mod moves;
mod node;
mod owed;
mod planting;
mod quarantine;
mod quorum;
mod redlock;
mod register;
mod release;
mod renew;
mod round;
mod status;
mod sweep;
mod tally;
mod tokens;
mod validity;
mod watching;

#[doc = include_str!("divergence.md")]
pub mod divergence {}

pub use builder::Builder;
pub use redlock::Redlock;
pub use status::{NodeStatus, Voting};
