//! Distributed locks on Redis and Valkey.
//!
//! [`RedisBackend`] implements the [`Backend`](lock_core::Backend) of `lock-core` with every capability: over one
//! server, over the servers of a cluster, or over a primary that sentinels watch.
//! [Readers](lock_core::SharedBackend) can share a lock, and [groups](lock_core::JointBackend) can hold one jointly. It
//! counts [permits](lock_core::PermitBackend), keeps [a value](lock_core::CellBackend) beside a lock,
//! [shows](lock_core::InspectBackend) the holders of a lock, and [votes](lock_core::QuorumNode) as one server of
//! several. Apps use the primitives of `lock-sync` over it.
//!
//! ```
//! # use lock_redis::RedisBackend;
//! let backend = RedisBackend::open("redis://127.0.0.1:6379")?;
//! # Ok::<(), lock_core::Error>(())
//! ```
//!
//! The [`guide`] has pages about persistence, keyspace notifications, rolling upgrades, and the history of Redis locks.
//!
//! # What is promised
//!
//! At most one valid lease per key exists at a time, while the server keeps its data and clock rates differ
//! by less than [`Ttl::drift`](lock_core::Ttl::drift). A server that restarts without
//! persistence or evicts keys does *not* keep its data: see [below](#a-server-that-lost-its-data). Fencing tokens
//! increase even then, as long as the clock of the server does not go back. So a resource that refuses lower tokens
//! stays safe.
//!
//! **A failover breaks both promises, unless replicas confirm every grant.** Without
//! [confirmation](#confirmed-grants) a deployment with sentinels or a cluster promises neither exclusion nor the order
//! of tokens through a failover, even through a planned one: see [below](#sentinels-and-clusters).
//!
//! # URLs
//!
//! | URL | |
//! | --- | --- |
//! | `redis://user:password@host:6379/0` | user, password, port and database may be left out |
//! | `rediss://…` | TLS; needs the feature `tls` |
//! | `redis+unix:///run/redis.sock?db=0&user=…&pass=…` | a unix socket; also `unix:///…` |
//! | `redis+sentinel://user:password@s1:26379,s2,s3/service/0` | the primary of a service, by its sentinels. User and password are those of the servers; `?sentinel_user=…&sentinel_pass=…` are those of the sentinels |
//! | `redis+cluster://user:password@h1:6379,h2` | a cluster, by some of its servers. It has database 0 alone |
//! | `…?protocol=resp3` | the version of the protocol: `resp2` or `resp3` |
//!
//! Each scheme may begin with `valkey` instead of `redis`. An `s` after that word asks for TLS, for sentinels and
//! servers alike: `rediss+sentinel://…`, `valkeys+cluster://…`. Without a port, a server has 6379 and a sentinel 26379.
//! Special characters in a user or a password are percent-encoded.
//!
//! The builder has a method for each part of a URL: [`Builder::for_sentinels`] and [`Builder::for_cluster`] take the
//! hosts as a list, [`Builder::login`] takes credentials that need no encoding, [`Builder::tls`] switches TLS on, and
//! [`Builder::database`] chooses the database. All other options are methods of the builder alone, for example the
//! prefix, confirmed grants, the time limits, the certificates, and the [provider](Builder::credentials), which supplies
//! the credentials of each new connection. [`Builder::build`] refuses an invalid URL, and one with an unknown option, before
//! the client sends anything.
//!
//! # Is the server fit?
//!
//! [`RedisBackend::check`] examines the server. The check reports [the problems](check#findings) of the server for
//! locks, with a reason and a remedy for each. The check looks at persistence, failovers, eviction, rights that the
//! user lacks, clocks and proxies.
//! `cargo run --example doctor -- redis://…` prints the report.
//!
//! # A server that lost its data
//!
//! A server without persistence forgets all locks when it restarts. It then grants them at once, while their holders
//! still have valid leases. With [`Builder::data_quarantine`] such a server grants nothing until the longest lease is
//! over. The quarantine costs a grant nothing: a restart closes the connections, and each new connection asks once. [In a
//! cluster](Builder::data_quarantine) each slot sits out by itself, also after it has moved to another server.
//! Waiters wait, and go on by themselves. Call [`RedisBackend::init`] when you set up a new server. Otherwise the new
//! server looks like a server that has lost its data.
//!
//! ```
//! use lock_core::Ttl;
//! use lock_redis::RedisBackend;
//!
//! // No client of this server asks for a lease of more than 30 s.
//! let backend =
//!     RedisBackend::builder("redis://127.0.0.1:6379").data_quarantine(Ttl::DEFAULT).build()?;
//! # Ok::<(), lock_core::Error>(())
//! ```
//!
//! # Waiting
//!
//! A request that is refused takes a place in a queue on the server, if it [asks for one](lock_core::Acquire::queued)
//! and its client watches the key. The release hands the lock to the next claim in the queue in one step: the
//! script writes the lease of that claim's owner, with tokens of its own, and publishes the grant to the client of that
//! owner alone. No claim overtakes another: a new claim passes no claim in the queue, a reader passes no waiting
//! writer, and one permit passes no request for many.
//!
//! - A place lives for [`Ttl::for_place`](lock_core::Ttl::for_place). Its client keeps the place by repeating the request.
//!   The script passes over a place that has expired, or whose client does not hear the grant. No call clears away more
//!   than a few tens of places.
//! - A lease that the script hands over is short ([`Ttl::for_grant`](lock_core::Ttl::for_grant)) until its owner renews
//!   the lease or repeats the request. If the owner does neither, the next claim gets the lock.
//! - If a client has not subscribed again since a restart, a failover or the move of a slot, it keeps its turn: the script
//!   gives the client such a short lease, and the client finds out when it asks. Clients and scripts recognize such a
//!   client by `INFO`. Without that right, the script passes over its place.
//! - A holder that watches the key hears when a claim begins to wait.
//! - A hand-over leaves another claim at the head of the queue, and tells the client of that claim when the turn of the
//!   claim could come. So a waiter that is handed the lock and stays silent costs the others one such short lease.
//! - A server has no timers. After a lease has run out, or a message was lost, the next request moves the queue. A
//!   client asks at the end of the lease that it saw last, or after a third of the time of a place, whichever comes
//!   first. A waiter whose connection was lost asks at once.
//! - A queue that is full drops the places of clients that do not listen.
//! - A key that a client of another library has set counts as held. Leases of all kinds end with the key: if the key is
//!   deleted, every lease on it ends, and the next claim in the queue gets the lock at the next request.
//! - At most [`Builder::queue_limit`] claims wait.
//!
//! A waiter has no place in the queue if its user may not publish or subscribe, or if its client does not watch the
//! key. Any one of these wakes such a waiter:
//!
//! - the message that a script publishes when it leaves a lock free;
//! - a keyspace notification, if the server sends them ([`Notifications`]);
//! - the tracking of keys, if the app switches it on ([`Builder::tracking`]);
//! - the time at which the present lease ends.
//!
//! ## Entering on a grant
//!
//! Messages are hints. A client never holds a lock because of a message: the script has written the lease before. But
//! the message can tell the client how much of the lease is left, so that the client need not ask. The reply that gave
//! a claim its place contains the server's clock at some instant after the request was sent. The message contains the
//! server's clock at the grant, and the length of the lease. The client takes the difference of the two clock readings,
//! counts it from the instant at which the request was *sent*, adds the length of the lease, and subtracts the drift
//! over all of that time. The result is a deadline before the server's own, however long the message took, or the
//! process slept.
//!
//! This rests on the condition of all leases: clock rates differ by less than the drift. The clock of the server may
//! also be *set* in the meantime. The client detects that if the message claims the impossible: a grant before the
//! place in the queue, or after the message has come. Then the hint has no grant in it
//! ([`Hint::Granted`](lock_core::Hint::Granted)), and the client asks. The client also asks if the message has
//! overtaken the reply, or if less than half of the lease is left. The client ignores a message about a claim that it
//! has not put into the queue, and a sender needs the owner token of a claim to name it. The client does not detect a
//! step forward that is no longer than the message was under way. Then the client's deadline is too late by that step.
//!
//! # Sentinels and clusters
//!
//! ```no_run
//! # use lock_redis::RedisBackend;
//! let service = RedisBackend::open("redis+sentinel://s1,s2,s3/orders")?;
//! let cluster = RedisBackend::open("rediss+cluster://user:password@h1,h2")?;
//! # Ok::<(), lock_core::Error>(())
//! ```
//!
//! An example of the repository starts a local cluster, or a primary with replicas and sentinels. Then its processes buy
//! from one stock over these servers. It needs a `redis-server` on the `PATH`, or one that `REDIS_SERVER` names:
//!
//! ```text
//! cargo run --example stock -- --over cluster
//! cargo run --example stock -- --over sentinels
//! ```
//!
//! ## What holds, and what does not
//!
//! While no server fails over, everything in these docs holds, with two differences in a cluster: several locks are
//! granted in one step only if they share a slot, and a server is no node of a quorum.
//!
//! **Through a failover, neither exclusion nor the order of tokens is promised**, unless replicas
//! [confirm](#confirmed-grants) every grant. Replication is asynchronous: a failover forgets a grant that was not
//! replicated, and another owner may get the lock while the first one still has a valid lease. A planned failover is no
//! exception: in one test with sentinels and the default intervals, the old primary took writes for 10.9 s beside the
//! new one. When an old primary that was paused goes on, it answers the requests in its sockets, with *higher* tokens
//! than the new primary has given out by then. So a resource that compares tokens may even refuse the rightful holder.
//! The clocks of the two primaries may differ. Then leases end earlier or later on the new one. `min-replicas-to-write`
//! makes the time with two primaries shorter, but not zero.
//! An app that needs exclusion while servers fail takes a quorum (`lock-redlock`) of independent servers, and a
//! resource that compares tokens. [`RedisBackend::check`] warns of failovers without confirmation.
//!
//! What was replicated survives: leases, tokens, and the queue with its order. Watches report
//! [`Hint::Resync`](lock_core::Hint::Resync), and waiters keep their places.
//!
//! A grant names the *term* of its server: the history of the data, which gets another name at a promotion. A new
//! primary may find a lock that was granted under another term, without its release. The primary first sees this lock
//! at some instant of its own clock. From that instant on, it keeps the lock back for the length of the lease and a
//! hundredth more. So no lease is given away early because its last renewal was not replicated, or because the clocks
//! differ. The new primary grants a lock that was released, or was never taken, at once. Renewals and hand-overs go on.
//! This is the [quarantine of terms](Builder::term_quarantine), which is on by default. The new primary cannot know of
//! a grant that was not replicated.
//!
//! ## Confirmed grants
//!
//! With [`Builder::confirm`] a grant, a hand-over, a conversion or a renewal counts only once all replicas have it.
//! After the answer, the client writes a marker on another connection to this run of the server, and waits until the
//! replicas have the marker (`WAIT`). Replicas apply writes in order, so they then have the lease, too. The term of the
//! server must not have changed since the request, and the server must have exactly as many replicas as the app has
//! counted. Tasks that ask at one time share one wait. If a grant is not confirmed in time, the
//! request fails. The error is retryable, and says how many replicas had the grant. While a task of lock-sync waits for
//! the lock, lock-sync repeats the request. Otherwise it releases the claim. A value beside a lock is confirmed when it
//! is stored and when it is loaded. Releases and places in the queue are not confirmed. To confirm some locks only,
//! take a second handle: [`RedisBackend::confirming`] shares the connections of the first one.
//!
//! **Then at most one valid lease exists per key, and the tokens of confirmed grants increase, through failovers too**,
//! under these assumptions:
//!
//! - Only replicas that were counted are promoted. A replica that is not attached, or that replaces another one while a
//!   grant is confirmed, is not promoted before it has all data of the primary.
//! - All clients of the lock confirm, with the right number, and leave the quarantine of terms on.
//! - The *rates* of the clocks differ by less than the drift allows, and the clock of a new primary is not set during a
//!   quarantine. By how much clocks differ makes no difference, as long as it is less than the
//!   [retention](Builder::retention).
//! - The servers keep their data, and the holder stops when its lease is over.
//! - A primary to which a slot was moved does not fail before its replicas have the keys of the slot. `MIGRATE` does
//!   not wait for them. The next confirmed renewal shows that they have the lease.
//!
//! The reasons: a server that is promoted has every confirmed lease. A primary that was replaced lacks the
//! acknowledgement of the replica that was promoted, so it confirms nothing, not even a request that it answers late.
//! And the new primary keeps back a lock that was held under another term.
//!
//! **The price is availability: while one replica is missing, no lock is granted and no lease is renewed.** So after
//! the loss of a primary, grants wait until that server is back as a replica, or until an operator attaches another
//! one. To count fewer than all replicas is no remedy, and is refused: `WAIT` does not say which replicas have
//! acknowledged, and a replica that has not may be promoted. Over loopback, with two replicas, a confirmed grant
//! took 2.7 times as long as another one, and 64 tasks together got 0.7 times as many locks. **An app that needs
//! safety *and* availability takes a quorum** (`lock-redlock`) of independent servers.
//!
//! ## How requests find their server
//!
//! - Every request goes to a primary, even if it only reads: a replica may have old data.
//! - A request that no server ran is sent again, up to [`Builder::command_timeout`]: after `MOVED` at once, and up to
//!   five times; after `TRYAGAIN`, `CLUSTERDOWN`, `READONLY`, `LOADING` or a connection that cannot be opened, after
//!   pauses of 5, 10, 20 … 100 ms. After `ASK`, a script that names one key goes to the other server, and other scripts
//!   wait until the slot has moved. Only the caller repeats a request that may have run. The server then recognizes the
//!   owner token.
//! - While a slot is moved key by key, an exclusive lease in it can be renewed and released. Locks in it can be taken
//!   once it has moved.
//! - In a cluster, the client opens a connection to each primary that has one of its locks, on first use. Each of these
//!   connections has a channel of its own for grants, so a release knows whether the client listens. From version 7 on,
//!   this is a channel in a slot of that server, so that no other server gets the messages. If that slot moves, a
//!   message takes the way through all servers until the client has chosen another slot of the server. A watch follows
//!   its slot: it subscribes at the new server, and reports `Resync`. The client learns of the new server by a
//!   redirection. While there are watches but no requests, the client reads the map of the slots every two seconds, and
//!   twice a second in the first half minute in which it cannot connect to a server of the map.
//! - Behind sentinels, all sentinels are asked at once whenever a connection is opened. The answer with the highest
//!   epoch counts. The server has to say by `ROLE` that it is a primary. A `+switch-master` of any sentinel is a hint:
//!   the client gives up its connections to other servers and asks again. A client does so after a server answers
//!   `READONLY`, too. On each runtime with a connection to the primary, the client keeps one connection to each sentinel,
//!   on which it hears this message. When it begins to listen, it also asks for the primary.
//! - Servers name one another by the addresses that they announce. The client must reach these addresses, and with TLS
//!   the certificates must bear these names.
//!
//! ## Why the `redis` crate does not do this
//!
//! The map of the slots, redirections, the resolution by sentinels and the care for subscriptions are this crate's own,
//! on plain connections of the `redis` crate. The cluster client of `redis` repeats requests after a broken connection, does not
//! say at which server a subscription is, and forgets it when its slot moves. Its sentinel client looks for the primary
//! only when it connects. A lock needs to know whether a request ran, at which server a waiter listens, and when a
//! primary was replaced.
//!
//! # Where a lock lives
//!
//! In one string, `lock:{name}`, and in keys beside it that begin like it. While a lock has neither a holder nor a
//! waiter, one short key is left for an hour ([`Builder::retention`]): its state, from which fencing tokens go on. The
//! [stored format](#the-stored-format) has a version. A client that meets data of another version fails with a clear
//! error, and never becomes a second holder.
//!
//! A key that is taken as it is ([`Key::raw`](lock_core::Key::raw)) cannot be one of those beside a lock, or
//! `lock:node@0` or `lock:data@0`, or a client's channel: every verb refuses it
//! ([`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey)).
//!
//! # Several at once
//!
//! One script [grants](lock_core::Backend::try_acquire_all) up to 64 exclusive locks together, or none of them. In a
//! cluster, these locks must be in one slot. The script grants neither other modes nor keys in several slots.
//! `lock-sync` takes such locks one after another, all or none.
//!
//! # As a node of a quorum
//!
//! A server may have forgotten leases after it has restarted without its latest data, after its data was deleted, or
//! after it has taken over from a master. Such a server must not vote until those leases are certainly over. A record,
//! `lock:node@0`, shows this. The record names the run of the server and the history of its replication. If the record
//! is missing or belongs to another run, [`standing`](lock_core::QuorumNode::standing) writes a new one, with the name
//! of a new [quarantine](lock_core::Quarantine). Each ballot carries the record that it expects. The script that votes
//! compares it with the record of the server. On a new connection, and then at most once in 5 ms, a vote also compares
//! the record with the run and the history in `INFO`. SECURITY.md says which losses the client may miss in between. So a
//! server abstains
//!
//! - after a restart, whether its data is empty or comes from an RDB file or an AOF, which brings back the record of an
//!   earlier run;
//! - after `FLUSHALL`, `FLUSHDB` or `SWAPDB`;
//! - after it became a master, even if it had been one before in this run.
//!
//! Each prefix and each database has a record of its own. The script does not notice a loss that shows in none of these
//! ways: a lock that an operator deletes, or that the server evicts. So the policy must be `noeviction`
//! ([`RedisBackend::check`] looks). A server that once took over and then has no replica for an hour forgets its
//! history, and abstains once more.
//!
//! The clients decide when a quarantine is over ([`vouch`](lock_core::QuorumNode::vouch)). If no client stays for so
//! long, the clock of the server ends the quarantine after twice the longest lease that any client named. If that clock
//! is set back, the quarantine ends later; if it is set forward, earlier. All this needs the right to `INFO`, and does
//! not work on a server that is part of a cluster, where the record cannot be beside every lock. On such a server, or
//! without that right, the server votes on ballots that [expect](lock_core::Ballot::expecting) nothing, and
//! [`standing`](lock_core::QuorumNode::standing) says why it refuses the others.
//!
//! # What a lock costs the server
//!
//! A server is one thread, so its processor time per lock decides the capacity of a deployment. The frequent cases
//! have scripts of their own: to take a free lock names two keys, to renew and to release it one. Renewals, and repeats
//! of places in the queue, that fall due together go out together, up to 64 in one call. The rarer cases are in other
//! scripts, and cost only the clients that need them. Where grants name their term, a renewal and a release name
//! two keys, and a grant costs the server some 6 µs more if the lock is shared, counted or was not released before. A
//! release publishes a message only where a client is known to listen.
//!
//! # Locks that other libraries take too
//!
//! A client of another library that holds the key tells no client of its release. So the first claim in the queue, and
//! no other, asks again every 60 milliseconds while the value is a foreign one. Claims in the queue hand the lock over
//! among themselves without leaving it free, so a foreign client that polls gets the lock only when the queue is empty.
//!
#![doc = include_str!("acl.md")]
//!
#![doc = include_str!("format.md")]
//!
//! # Connections
//!
//! The client opens one connection for each tokio runtime that sends requests; in a cluster, one for each runtime and each
//! primary in use. The first request opens the connection, and the client replaces a connection that breaks. More
//! connections come in addition: with RESP2, one for the watches; behind sentinels, one to each sentinel for each runtime;
//! with `confirm`, one for commits beside each of these connections. Under `lock-sync`, each runtime whose tasks lock and
//! the runtime of the driver send requests.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod batch;
mod builder;
mod capabilities;
pub mod check;
mod commit;
mod credentials;
pub mod guide;
mod hub;
mod keys;
mod labels;
mod leases;
mod link;
mod listing;
mod modes;
mod options;
mod scripts;
mod slot;
mod state;
mod together;
mod topology;
mod verbs;
mod wire;

pub use backend::RedisBackend;
pub use builder::Builder;
pub use credentials::Credentials;
pub use options::{Notifications, Protocol};
