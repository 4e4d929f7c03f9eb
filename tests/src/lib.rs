//! What the tests, benches and examples of this workspace share: real servers, faults, processes.
//!
//! - [`RedisServer`]: a `redis-server` of one's own on a free loopback port. It can be stopped,
//!   resumed, killed and restarted, and it dies with the test process.
//! - [`redis_server`]: where the program comes from. It is looked for, and put under the target
//!   folder if there is none, so that `cargo test --workspace` needs nothing but a Rust toolchain.
//! - [`Proxy`]: a TCP proxy in front of a server, with switches for what networks do.
//! - [`Mediator`]: a proxy that knows the protocol, and refuses commands or sends them elsewhere.
//! - [`ServerClock`]: the clock of a server, which can be set and run too fast or too slow.
//! - [`Worker`]: another process that takes locks, and can be killed or stopped while it does.
//! - [`chaos`]: runs in which all of that happens to all of them, with checkers.
//! - [`primitives`](mod@primitives): what the primitives promise, as cases that run over every store.
//! - [`resp::Client`]: commands to a server, past the library under test.
//!
//! The kit blocks: starting a server takes some tens of milliseconds, a command to it some tens of
//! microseconds. That is fine in an async test; the server, the proxy and the workers each live on
//! a thread or in a process of their own, so that no test can starve them.
//!
//! It panics, with all that it knows, where a test could do nothing better itself. A test that
//! cannot have its server fails; it is never skipped.
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

pub mod chaos;
mod clock;
mod install;
mod port;
pub mod primitives;
pub mod process;
mod proxy;
mod random;
pub mod resp;
mod server;
mod wait;
mod worker;

pub use clock::ServerClock;
pub use install::{NotFound, find_redis_server, redis_server};
pub use port::Port;
pub use proxy::{Direction, Fate, Mediator, Proxy};
pub use random::Random;
pub use server::{CommandStats, DataCopy, RedisServer, RedisServerBuilder};
pub use wait::{SOON, eventually, eventually_async, soon};
pub use worker::{Event, Worker, WorkerBuilder};
