//! Distributed locks on Redis and Valkey.
//!
//! [`RedisBackend`] implements the [`Backend`](lock_core::Backend) of `lock-core` over one server, with
//! every ability: it lets [readers](lock_core::SharedBackend) share a lock and
//! [groups](lock_core::JointBackend) hold one as if they were one, counts
//! [permits](lock_core::PermitBackend), keeps [a value](lock_core::CellBackend) beside a lock,
//! [shows](lock_core::InspectBackend) who holds it, and [votes](lock_core::QuorumNode) as one server among
//! several. Apps use the primitives of `lock-sync` over it.
//!
//! ```
//! # use lock_redis::RedisBackend;
//! let backend = RedisBackend::open("redis://127.0.0.1:6379")?;
//! # Ok::<(), lock_core::Error>(())
//! ```
//!
//! # What is promised
//!
//! At most one valid lease per key at a time, while the server keeps its data and clock rates differ
//! by less than [`Ttl::drift`](lock_core::Ttl::drift) allows. A server that restarts without
//! persistence, evicts keys, or fails over to a replica does *not* keep its data. Fencing tokens
//! increase even then, as long as its clock does not go back: a resource that refuses lower tokens
//! stays safe.
//!
//! # URLs
//!
//! | URL | |
//! | --- | --- |
//! | `redis://user:password@host:6379/0` | user, password, port and database may be left out |
//! | `rediss://…` | TLS; needs the feature `tls` |
//! | `redis+unix:///run/redis.sock?db=0&user=…&pass=…` | a unix socket; also `unix:///…` |
//! | `…?protocol=resp3` | the version of the protocol: `resp2` or `resp3` |
//!
//! # Waiting
//!
//! A request that is refused takes a place in a queue on the server, if it
//! [asks for one](lock_core::Acquire::queued) and its client watches the key. Whoever releases the lock
//! hands it to the next in line in the same step: the script writes that owner's lease, with tokens of
//! its own, and publishes the grant to that client alone. Nobody overtakes: neither a newcomer, nor a
//! reader a writer that waits, nor one permit a request for many.
//!
//! - A place lives for [`Ttl::place`](lock_core::Ttl::place) and is kept by repeating the request. One
//!   whose time is over, or whose client does not hear the grant, is passed over. No call clears away
//!   more than a few tens of them.
//! - A lease that is handed over is short ([`Ttl::claim`](lock_core::Ttl::claim)) until its owner renews
//!   it or repeats the request. One that nobody claims goes to the next.
//! - A holder that watches the key hears when a claim begins to wait.
//! - A hand-over tells the claim that is then the first in the queue when its turn could come, so that a waiter that
//!   is handed the lock and stays silent costs the others one such short lease.
//! - A server has no timers, so after a lease has run out, or a message was lost, the client that asks next moves the
//!   queue: at the end of the lease as it was last seen, or after a third of the time of a place, whichever comes
//!   first. Waiters whose connection was lost hear that they may ask at once.
//! - A queue that is full drops the places of clients that hear nothing.
//! - A key that a foreign client takes is respected. Leases of all kinds end with the key: deleting it
//!   ends every one of them, and the next in line comes in when somebody asks.
//! - At most [`Builder::queue_limit`] wait.
//!
//! Who stands in no queue, because its user may not publish or subscribe or its client does not watch,
//! is woken by any of these, and each is enough alone: the message that a script publishes when it has
//! left a lock free, the server's keyspace notifications if it sends them ([`Notifications`]), its
//! tracking of keys if that is wanted ([`Builder::tracking`]), and the time at which the present lease
//! ends.
//!
//! ## Entering on a grant
//!
//! Messages are hints, and a lock is never held because of one: the script has written the lease
//! before. What a message may spare is the question how much of it is left. The reply that gave a claim
//! its place told what the server's clock said, at some instant after the request was sent; the message
//! tells what it said at the grant, and for how long that holds. The difference, counted from when the
//! request was *sent* and less the drift over all of that time, is a deadline before the server's own,
//! however long the message was on its way, or the process asleep.
//!
//! It rests on what all leases rest on: clock rates that differ by less than the drift. A server's clock
//! that was *set* meanwhile is found out if it claims what cannot be: a grant before the place in the
//! queue, or after the message has come. Then, as when the message has overtaken the reply, or less than
//! half of the lease is left, the hint has no grant in it
//! ([`Hint::Granted`](lock_core::Hint::Granted)) and the client asks. A message about a claim that this
//! client has not put into the queue is not heard, and who does not know its token cannot name it. What is
//! not found out is a step forward no longer than the message was on its way: the lease is then believed to
//! last longer than it does, by as much.
//!
//! # Where a lock lives
//!
//! In one string, `lock:{name}`, and in keys beside it that begin as it does. While a lock is neither held nor waited
//! for, one short key is left for an hour ([`Builder::retention`]): its state, from which fencing tokens go on. The
//! [stored format](#the-stored-format) has a version. A client that meets data of another version fails with a clear
//! error, and never becomes a second holder.
//!
//! A key that is taken as it is ([`Key::as_is`](lock_core::Key::as_is)) cannot be one of those beside a lock, or
//! `lock:node@0`, or a client's channel: every verb refuses it
//! ([`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey)).
//!
//! # Several at once
//!
//! Up to 64 locks are [granted together](lock_core::Backend::acquire_together) by one script, if each is
//! to be held alone and the server has them all. For other modes, and on a cluster for keys in several
//! slots, it is not done.
//!
//! # As a node of a quorum
//!
//! A server that restarts without its latest data, whose data is deleted, or that takes over from a master
//! may have forgotten leases, and must not vote until they are certainly over. It is the script that votes
//! which finds out: it compares a record, `lock:node@0`, with the run that the server names in `INFO`, and
//! with the history of its replication. A record that is missing, or of another run, makes way for a new
//! one, with the name of a new [quarantine](lock_core::Quarantine). So a server abstains
//!
//! - after a restart, whether empty or from an RDB file or an AOF, which brings back the record of a run
//!   before;
//! - after `FLUSHALL`, `FLUSHDB` or `SWAPDB`;
//! - after it became a master, even if it had been one before in the same run.
//!
//! Each prefix and each database has a record of its own. What shows in none of these ways is not noticed:
//! a lock that somebody deletes, or that the server evicts, so its policy must be `noeviction`
//! ([`RedisBackend::check`] looks). A server that once took over and then has no replica for an hour
//! forgets its history, and abstains once more.
//!
//! No clock has a part in it, so that one that is set does no harm. When a quarantine is over is for the
//! clients to say ([`vouch`](lock_core::QuorumNode::vouch)). All this needs the right to `INFO`, and is not
//! for a server that is part of a cluster, where the record cannot be beside every lock: there, and without
//! that right, the server votes on ballots that are not [guarded](lock_core::Ballot::guarded), and
//! [`standing`](lock_core::QuorumNode::standing) says why it takes no others.
//!
//! # What a lock costs the server
//!
//! A server is one thread, so the time of its processor per lock is the capacity of a deployment. The frequent cases
//! have scripts of their own: to take a free lock names two keys, to renew and to release it one. Renewals, and repeats
//! of places in the queue, that fall due together go out together, up to 64 in one call. All that is rarer is in other
//! scripts, and costs what it costs only those that need it. A release publishes a message only where a client is known
//! to listen.
//!
//! # Locks that others take too
//!
//! A client of another library that holds the key tells no client of its release. So the first claim in the queue, and no
//! other, asks again every 60 milliseconds while the value is not one of this library. Clients that stand in the queue
//! hand the lock over among themselves without leaving it free, so a foreign client that polls gets in only when the
//! queue is empty.
//!
#![doc = include_str!("acl.md")]
//!
#![doc = include_str!("format.md")]
//!
//! # Connections
//!
//! One for each tokio runtime in whose context the backend is used, opened by the first request and
//! replaced when it breaks; with RESP2 one more for the watches. Under `lock-sync` that is one for
//! each runtime whose tasks lock, and one for the driver.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod abilities;
mod backend;
mod batch;
mod builder;
mod check;
mod hub;
mod keys;
mod link;
mod modes;
mod options;
mod scripts;
mod slot;
mod state;
mod together;
mod verbs;
mod wire;

pub use backend::RedisBackend;
pub use builder::Builder;
pub use check::Report;
pub use options::{Notifications, Protocol};
