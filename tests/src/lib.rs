//! The common kit of the tests, benches and examples of this workspace: real servers, faults,
//! processes.
//!
//! - [`RedisServer`]: a `redis-server` for one test on a free loopback port. It can be stopped,
//!   resumed, killed and restarted, and it dies with the test process.
//! - [`redis_server`]: the path of the program. If there is none, it is put under the target folder,
//!   so `cargo test --workspace` needs nothing but a Rust toolchain.
//! - [`PostgresServer`] and [`PgBouncer`]: a PostgreSQL server, in the same way, and a pooler before it.
//! - [`EtcdServer`] and [`EtcdCluster`]: an etcd server, in the same way, and a cluster of three.
//! - [`Proxy`]: a TCP proxy before a server, with switches for network faults.
//! - [`Mediator`]: a proxy that knows the protocol, and refuses commands or sends them elsewhere.
//! - [`ServerClock`]: the clock of a server, which can be set and can run too fast or too slow.
//! - [`RedisCluster`] and [`Sentinels`]: deployments of several servers, which can fail over.
//! - [`Worker`]: another process that takes locks, and can be killed or stopped while it does.
//! - [`Crew`]: workers that take turns, and a check of their turns.
//! - [`chaos`]: runs in which all of these fail, with checkers.
//! - [`laws!`] and [`Ways`]: the laws of the contract as tests over real servers.
//! - [`cancels`]: requests that are dropped, as cases for clients of every store.
//! - [`processes`]: processes that contend or are killed, as cases for workers over every store.
//! - [`primitives`](mod@primitives): the promises of the primitives, as cases that run over every
//!   store.
//! - [`resp::Client`]: commands to a server, past the library under test.
//!
//! The kit blocks: to start a server takes some tens of milliseconds, to send it a command some tens
//! of microseconds. That is fine in an async test; the server, the proxy and the workers each live on
//! a thread or in a process of their own, so no test can starve them.
//!
//! It panics, with all that it knows, where a test could do nothing better. A test that cannot have
//! its server fails; it is never skipped.
//!
//! # Examples
//!
//! ```
//! use lock_tests::RedisServer;
//!
//! let server = RedisServer::start();
//! server.cli(&["SET", "answer", "42"]);
//! assert_eq!(server.cli(&["GET", "answer"]).text(), "42");
//! ```

#![forbid(unsafe_code)]

#[cfg(not(unix))]
compile_error!("the test kit drives processes with signals and needs a Unix system");

pub mod cancels;
pub mod chaos;
mod clock;
mod deployments;
mod etcd;
mod install;
mod laws;
mod port;
mod postgres;
pub mod primitives;
pub mod process;
pub mod processes;
mod proxy;
mod random;
pub mod requests;
pub mod resp;
mod retention;
mod server;
mod service;
mod setups;
mod wait;
mod worker;

pub use clock::ServerClock;
pub use deployments::{ClusterNode, RedisCluster, Sentinels};
pub use etcd::{EtcdCluster, EtcdServer, etcd_programs};
pub use install::{NotFound, find_redis_server, redis_server};
pub use laws::{Ways, enforce, enforce_all_but};
pub use port::Port;
pub use postgres::{PgBouncer, PostgresServer, postgres_programs};
pub use proxy::{Direction, Fate, Mediator, Proxy};
pub use random::Random;
pub use retention::quiet_retention;
pub use server::{CommandStats, DataCopy, RedisServer, RedisServerBuilder};
pub use setups::in_all_setups;
pub use wait::{SOON, eventually, eventually_async, soon};
pub use worker::{Crew, Event, Turn, Worker, WorkerBuilder};

/// A part of the key of each label of a client, and of no key of a lock.
pub const LABELS: &str = "{%label}:";
