//! Distributed locks on Redis and Valkey.
//!
//! [`RedisBackend`] implements the [`Backend`](lock_core::Backend) of `lock-core` over one server.
//! Apps use the primitives of `lock-sync` over it.
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
//! Whoever waits for a lock has three sources to be woken by, and each is enough alone: a message
//! that the script which releases publishes, the server's own keyspace notifications if it sends
//! them ([`Notifications`]), and the time at which the present lease ends. Messages are hints. No
//! lock is ever granted by one.
//!
//! # What the server must allow
//!
//! ```text
//! ACL SETUSER locks on >password resetkeys ~lock:* resetchannels
//!   &lock:* &__keyspace@*__:lock:* -@all +evalsha +script|load
//!   +get +set +del +exists +pttl +pexpire +time +setrange +publish +subscribe +unsubscribe
//!   +llen +lindex +lpop +lpush +rpush +lrem +hget +hset +hdel +hvals +hincrby
//!   +zadd +zrem +zscore +zcard +zrange +zrevrange +zrangebyscore
//! ```
//!
//! A database other than 0 takes `+select`. Without `+publish`, `+subscribe` or the channels,
//! waiters rely on time. [`RedisBackend::check`] says what is missing. `+config|get` and
//! `+config|set` serve [`Notifications`] alone, and `+info` the check. On Redis 7.2 and later
//! `+client|setinfo` lets the connection say its name. A key that is taken as it is
//! ([`Key::as_is`](lock_core::Key::as_is)) and lies outside the prefix takes its own `~key` and
//! `&__keyspace@*__:key`; what belongs to it is still under the prefix.
//!
//! # Connections
//!
//! One for each tokio runtime in whose context the backend is used, opened by the first request and
//! replaced when it breaks; with RESP2 one more for the watches. Under `lock-sync` that is one for
//! each runtime whose tasks lock, and one for the driver.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod builder;
mod check;
mod hub;
mod keys;
mod link;
mod modes;
mod scripts;
mod slot;
mod verbs;
mod wire;

pub use backend::RedisBackend;
pub use builder::{Builder, Notifications, Protocol};
pub use check::Report;
