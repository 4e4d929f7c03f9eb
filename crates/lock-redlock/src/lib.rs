//! A lock held by a majority of independent stores.
//!
//! [`Redlock`] takes several [nodes](lock_core::QuorumNode), each of which is a store that fails on its own.
//! [`Redlock`] is a [`Backend`](lock_core::Backend) itself: the client with the votes of a majority holds the lock.
//! The crate works with any store as a node. With nodes of `lock-redis` it is the Redlock algorithm of the Redis
//! documentation, without some of the holes of that algorithm: see [`divergence`].
//!
//! # What is promised
//!
//! At most one *valid* lease per key exists at a time (or as many as its mode allows), while
//!
//! - (a) every node that votes keeps its data, or sits out a quarantine after it may have lost data;
//! - (b) clock *rates* differ by less than [`Ttl::drift`](lock_core::Ttl::drift) allows, and no clock of a node is
//!   set by more than that;
//! - (c) the holder stops when its lease is lost;
//! - (d) all clients name one [longest lease](Builder::max_ttl), and one set of nodes: a node does not vote for a
//!   client that names other nodes;
//! - (e) the clock of a node is not set forward while the node is in quarantine, unless [the
//!   fallback](Builder::without_clock_fallback) is switched off.
//!
//! While no node has forgotten its counters, the fencing tokens of successive exclusive grants increase, whether or not
//! (b) and (c) hold. So a resource that refuses lower tokens is safe. After a node has forgotten its counters, tokens
//! increase if the clocks of clients differ by less than the length of the quarantine, and if the clocks of nodes are
//! not set back: the tokens of renewals follow the clocks of nodes.
//!
//! While a client reaches a majority of the nodes, it can take locks and keep them:
//!
//! | nodes | a majority | may fail together |
//! | --- | --- | --- |
//! | 3 | 2 | 1 |
//! | 5 | 3 | 2 |
//! | 7 | 4 | 3 |
//!
//! An even number costs a node and gains nothing, and one node is no quorum. The builder refuses both unless [told
//! otherwise](Builder::allow_any_number). Nodes that share a machine, a disk or a replication group fail together.
//!
//! # Example
//!
//! ```
//! use lock_core::memory::MemoryBackend;
//! use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Key, OwnerToken, Ttl};
//! use lock_redlock::Redlock;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> lock_core::Result<()> {
//! let stores: Vec<_> = (0..5).map(|_| MemoryBackend::new()).collect();
//! let quorum = Redlock::builder().nodes(stores.clone()).build().await?;
//! quorum.init().await?;
//!
//! // Two of five nodes are gone, and nothing is lost.
//! stores[1].faults().cut();
//! stores[4].faults().cut();
//! let claim = Claim::exclusive(Key::new("orders/42")?, OwnerToken::generate()?);
//! let attempt = quorum.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?;
//! assert!(matches!(attempt, AcquireOutcome::Granted(_)));
//! quorum.release(&claim).await?;
//!
//! // Without a third node no client gets a lock, and the error says why.
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
//! The quorum first asks a bare majority of the nodes. The key and the names of the nodes determine this majority, so
//! all clients ask one majority first. A lock that no other client wants then costs one request and one release for
//! each node of the majority: six commands with five nodes. The quorum also asks the other nodes if the majority cannot
//! decide alone, or has not decided after two round trips, or a millisecond if that is longer. If the quorum knows that
//! a node is missing, the next node takes its place. About once a second the quorum asks all nodes, to find out whether
//! the missing node is back. So a lock takes as long as the slowest node of a majority, even if the other nodes are
//! slow, stopped or dead. The exception is the first request to a node after the node has stopped. The quorum needs a
//! second round only if several clients asked for a free lock at one moment and split the votes, or if the nodes cannot
//! agree on the tokens.
//!
//! A lease that is held for longer than 50 ms gets the votes of the other nodes in the background. So it outlives the
//! loss of any minority. A value beside the lock is written on all nodes, so a write in the first 50 ms asks the other
//! nodes for their votes first, and takes two round trips. If a node answers late, the write takes up to two more round
//! trips, or up to 100 ms if that is longer.
//!
//! The rest of the work runs in the background, on a thread of the quorum or on [a runtime](Builder::on_runtime) of
//! yours. The quorum releases votes that come too late, unless the lock is held. It repeats releases that a node has
//! missed. It vouches for nodes in quarantine. The caller polls its request until the outcome is clear. So no other
//! thread wakes for the request. If the caller runs on a tokio runtime, that runtime needs a timer. Answers that come
//! later wake the thread of the quorum. If the runtime of the caller stands still or ends, the quorum goes on without
//! it.
//!
//! While a process [watches](lock_core::Backend::watch) a key, other clients probably want the key, too. If the nodes
//! are less than a millisecond away, a request then asks one node of the majority first, and asks the others when it
//! has that vote. So a refused client has sent one command, and clients seldom split the votes.
//!
//! Clients that want a key also take turns. A release tells the client how many other clients listen. Before the client
//! asks again, it waits until each of them has had a turn, or until five milliseconds pass without a turn. If each of
//! them has had exactly one turn, no other client is due, and the client asks the whole majority at once.
//!
//! # Nodes that may have forgotten
//!
//! If a node restarts empty or from an old file, or is flushed, it has forgotten the leases that it granted. It would
//! vote for a second holder. So such a node is in *quarantine*: it does not vote until a client has vouched for its
//! data. A client vouches for a node after it has watched the node for the [longest lease](Builder::max_ttl) and a
//! little more, on the clock of the client. The nodes of a new deployment are in quarantine as well, unless an operator
//! calls [`init`](Redlock::init). [`status`](Redlock::status) says which nodes are in quarantine, and for how long.
//!
//! If no client lives that long, as with cron jobs and command lines, the clock of the node ends the quarantine after
//! twice the longest lease. This time begins when a client first sees the quarantine. The fallback is safe only if the
//! clock of the node is not set forward meanwhile. With [`Builder::without_clock_fallback`], only clients end a
//! quarantine.
//!
//! # Which nodes belong together
//!
//! Each node records a hash of the names of all nodes of its quorum. It votes only for clients that name these nodes. A
//! server that takes the place of another server gets a new name, and [`replace`](Redlock::replace) makes it a member.
//!
//! # What works over it
//!
//! | | |
//! | --- | --- |
//! | exclusive and shared locks | yes, if the nodes have them |
//! | [converting](lock_core::ConvertBackend) a lease | no: `RwLock::upgradable_read` does not compile, and a downgraded writer keeps its exclusive lease |
//! | [joint holders](lock_core::JointBackend) | no: the owner of a `ReentrantMutex` enters again in its own process, and `Locks::owner`, for an owner of another process, does not compile |
//! | [values beside a lock](lock_core::CellBackend) | yes: a load returns the last written value; a value that has reached too few nodes is not settled |
//! | [inspection](lock_core::InspectBackend) | yes: it shows the holders that have a majority |
//! | counted [permits](lock_core::PermitBackend) | no: a `Semaphore` does not compile |
//! | a queue among processes | no: a waiting process hears that a majority is free, and asks |
//! | several locks in one step | no: a caller takes them one after another |
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
//! # What to do instead
//!
//! - **Instead of an upgradable read**: read, release the lock, and look again after `write`. Or take `write` at
//!   once, and
//!   [`downgrade`](https://docs.rs/lock-sync/latest/lock_sync/struct.RwLockWriteGuard.html#method.downgrade) as soon
//!   as there is nothing more to write. Readers of the process then enter beside the guard. Readers of other
//!   processes wait until the last reader of this process has left, because the process keeps its exclusive lease.
//! - **Instead of a lock that another process enters again**: let the process that holds the lock do the work, and pass
//!   its fencing token along. In its own process, an owner enters a `ReentrantMutex` again.
//! - **Instead of a semaphore**: take one of several exclusive locks, with `Locks::slot_semaphore`.
//!
//! Conversions and groups are missing for a reason. If some nodes had converted a lease and others had not, the quorum
//! would have to undo the conversion under its holder. If nodes differed about the members of a group, the quorum would
//! have to undo that as well.
//!
//! ```compile_fail,E0277
//! fn converts<B: lock_core::ConvertBackend>() {}
//! converts::<lock_redlock::Redlock<lock_core::memory::MemoryBackend>>();
//! ```
//!
//! ```compile_fail,E0277
//! fn joins<B: lock_core::JointBackend>() {}
//! joins::<lock_redlock::Redlock<lock_core::memory::MemoryBackend>>();
//! ```
//!
//! # Observing
//!
//! The crate emits events of [`tracing`]. The target `lock_redlock::node`, with the field `node`, has the answers of
//! each node (level trace), its errors (debug), and lasting changes of its state (info and warn). The target
//! `lock_redlock` has the outcome of each round, renewal and release (debug), and a warning if too few nodes vote. No
//! event shows an owner token.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod agenda;
mod asked;
mod background;
mod ballot;
mod builder;
mod capabilities;
mod catching_up;
mod claims;
mod counts;
mod failure;
mod first;
mod guarded;
mod hash;
mod hints;
mod inner;
mod keep;
mod later;
mod node;
mod pace;
mod presence;
mod quarantine;
mod quorum;
mod redlock;
mod register;
mod release;
mod renew;
mod replace;
mod round;
mod rounds;
mod status;
mod swept;
mod tally;
mod tokens;
mod turns;
mod validity;
mod watched;
mod watching;

#[doc = include_str!("divergence.md")]
pub mod divergence {}

pub use builder::Builder;
pub use redlock::Redlock;
pub use status::{NodeStatus, Voting};
