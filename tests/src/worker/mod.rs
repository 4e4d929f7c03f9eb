//! Another process that takes locks.

mod builder;
mod events;

pub use builder::WorkerBuilder;
pub use events::Event;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lock_core::FencingToken;

use crate::process;
use crate::worker::events::Events;

/// The path of the program `lock-worker`, for [`Worker::spawn`]. Only for the integration tests of
/// this package: cargo builds the program for them and says where it is.
#[macro_export]
macro_rules! lock_worker {
    () => {
        env!("CARGO_BIN_EXE_lock-worker")
    };
}

/// How long a worker may take for what does not wait for anybody.
const LIMIT: Duration = Duration::from_secs(20);

/// A process of its own, with `lock-sync` over `lock-redis`, that does what it is told line by line.
///
/// | order | what it says |
/// | --- | --- |
/// | `lock KEY` | `locked KEY TOKEN` when it holds the lock; `failed KEY WHY` |
/// | `timeout KEY MS` | the same, waiting that long at most |
/// | `try KEY` | `locked KEY TOKEN`, `busy KEY` or `failed KEY WHY` |
/// | `valid KEY` | `valid KEY true` or `valid KEY false` |
/// | `unlock KEY` | `unlocked KEY` after an awaited release, or `failed KEY WHY` |
/// | `drop KEY` | `dropped KEY` after dropping the guard, or the future that waits for it |
/// | `hold KEY MS` | as `lock`, and `unlock` after that time |
/// | `work KEY TASKS FILE` | `worked KEY TURNS` after `rest KEY`; `failed KEY WHY` |
/// | `rest KEY` | nothing by itself |
/// | `cached KEY` | `cached KEY true` if it keeps the lease although it does not hold the lock, or `false` |
/// | `block MS` | `blocked MS` after blocking its only executor thread that long |
///
/// Once a lease is lost it says `lost KEY TOKEN` unasked. It can wait for several keys at once, and
/// hold one lock per key. A key is one word.
///
/// Who works takes the lock over and over, in several tasks, and writes a record of each turn: the
/// process, the task, the fencing token, when it asked, when it had the lock. A record goes to where
/// the file ended when its turn began, some time before. So the file has the turns in their order, and
/// has fewer than were taken if two were at it at once.
///
/// The process dies when this value is dropped, and also when the test process is killed, even if it
/// stands still then.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use lock_tests::{RedisServer, Worker};
///
/// # let program = "";
/// let server = RedisServer::start();
/// let holder = Worker::spawn(program, &server.url()); // in a test: `lock_worker!()`
/// let token = holder.lock("stock");
/// holder.stop();
///
/// let next = Worker::spawn(program, &server.url());
/// assert!(next.lock("stock") > token);
/// holder.cont();
/// holder.wait_for("lost stock", Duration::from_secs(5));
/// ```
#[derive(Debug)]
pub struct Worker {
    child: Mutex<Child>,
    pid: u32,
    orders: Mutex<ChildStdin>,
    events: Events,
}

impl Worker {
    /// Starts a worker on the server at `url`, with default options.
    ///
    /// # Panics
    ///
    /// As [`WorkerBuilder::spawn`].
    #[track_caller]
    pub fn spawn(program: impl Into<PathBuf>, url: &str) -> Self {
        Self::builder(program).spawn(url)
    }

    /// Options for a worker.
    pub fn builder(program: impl Into<PathBuf>) -> WorkerBuilder {
        WorkerBuilder::new(program.into())
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Gives an order. Does not wait for what comes of it.
    ///
    /// # Panics
    ///
    /// If the worker is dead.
    #[track_caller]
    pub fn send(&self, order: &str) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(orders, "{order}").and_then(|()| orders.flush()) {
            panic!("cannot tell worker {} to {order:?}: {error}\n{}", self.pid, self.events.log());
        }
    }

    /// Waits for an event that begins with these words, and takes it out of those that came in.
    /// Other events stay, for later calls.
    ///
    /// # Panics
    ///
    /// If there is none within `limit`, or the worker ends before.
    #[track_caller]
    pub fn wait_for(&self, words: &str, limit: Duration) -> Event {
        match self.events.take(words, limit) {
            Ok(event) => event,
            Err(why) => panic!("worker {} did not say {words:?}: {why}", self.pid),
        }
    }

    /// Takes an event that begins with these words, if it has come in already.
    pub fn poll(&self, words: &str) -> Option<Event> {
        self.events.take(words, Duration::ZERO).ok()
    }

    /// Takes the lock, waiting for it, and returns its fencing token.
    ///
    /// # Panics
    ///
    /// If that takes longer than 20 seconds, or fails.
    #[track_caller]
    pub fn lock(&self, key: &str) -> FencingToken {
        self.send(&format!("lock {key}"));
        self.locked(key, LIMIT)
    }

    /// Waits until the worker holds a lock that it was told to take.
    ///
    /// # Panics
    ///
    /// If that takes longer than `limit`, or fails.
    #[track_caller]
    pub fn locked(&self, key: &str, limit: Duration) -> FencingToken {
        self.wait_for(&format!("locked {key}"), limit).token()
    }

    /// Tries to take the lock; `None` if somebody else holds it.
    ///
    /// # Panics
    ///
    /// If it fails.
    #[track_caller]
    pub fn try_lock(&self, key: &str) -> Option<FencingToken> {
        self.send(&format!("try {key}"));
        let (locked, busy) = (format!("locked {key}"), format!("busy {key}"));
        match self.events.take_any(&[&locked, &busy], LIMIT) {
            Ok((0, event)) => Some(event.token()),
            Ok(_) => None,
            Err(why) => panic!("worker {} did not answer `try {key}`: {why}", self.pid),
        }
    }

    /// Releases the lock and waits until the server has confirmed it.
    ///
    /// # Panics
    ///
    /// If it fails.
    #[track_caller]
    pub fn unlock(&self, key: &str) {
        self.send(&format!("unlock {key}"));
        self.wait_for(&format!("unlocked {key}"), LIMIT);
    }

    /// Whether the worker's guard says that it is valid.
    ///
    /// # Panics
    ///
    /// If the worker holds no such lock.
    #[track_caller]
    pub fn is_valid(&self, key: &str) -> bool {
        self.send(&format!("valid {key}"));
        self.wait_for(&format!("valid {key}"), LIMIT).word(2) == "true"
    }

    /// Stops the process (SIGSTOP), and returns once it stands still.
    #[track_caller]
    pub fn stop(&self) {
        process::stop(self.pid);
    }

    /// Lets a stopped process go on (SIGCONT).
    #[track_caller]
    pub fn cont(&self) {
        process::cont(self.pid);
    }

    /// Kills the process (SIGKILL), and returns once it is gone.
    ///
    /// What it said before can still be waited for.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // An error means that it is gone already.
        _ = child.kill();
        _ = child.wait();
    }

    /// Whether the process is there, running or standing still.
    pub fn is_alive(&self) -> bool {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(child.try_wait(), Ok(None))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}
