//! Another process that takes locks.

mod builder;
mod crew;
mod events;

pub use builder::WorkerBuilder;
pub use crew::{Crew, Turn};
pub use events::Event;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lock_core::FencingToken;

use crate::process;
use crate::worker::events::Events;

/// The path of the program `lock-chaos`, for [`Worker::spawn`]. Only for the integration tests of
/// this package: cargo builds the program for them and says where it is.
#[macro_export]
macro_rules! lock_worker {
    () => {
        env!("CARGO_BIN_EXE_lock-chaos")
    };
}

/// How long a worker may take for an order that waits for no other client.
const LIMIT: Duration = Duration::from_secs(20);

/// Another process, with `lock-sync` over the store at a URL, or over a quorum of Redis servers, that executes orders,
/// one on each line.
///
/// | order | its report |
/// | --- | --- |
/// | `lock NAME KIND` | `locked NAME TOKEN` when it holds the lock; `failed NAME WHY` |
/// | `timeout NAME MS KIND` | the same, waiting that long at most |
/// | `try NAME KIND` | `locked NAME TOKEN`, `busy NAME` or `failed NAME WHY` |
/// | `hold NAME MS KIND` | as `lock`, and `unlock` after that time |
/// | `valid NAME` | `valid NAME true` or `valid NAME false` |
/// | `unlock NAME` | `unlocked NAME` after an awaited release, or `failed NAME WHY` |
/// | `drop NAME` | `dropped NAME` after dropping the guard, or the future that waits |
/// | `upgrade NAME` | `upgraded NAME TOKEN` when it writes; `failed NAME WHY`, and holds what it held |
/// | `try-upgrade NAME` | the same without waiting for readers: `busy NAME` if there are any |
/// | `downgrade NAME` | `downgraded NAME`: it reads; `downgrade NAME upgradable`: and may write again |
/// | `give NAME N` | `gave NAME N` after an awaited release of so many of its permits |
/// | `forget NAME` | `forgot NAME` after forgetting its permits |
/// | `work KEY TASKS FILE MS` | `worked KEY TURNS` after `rest KEY`; `failed KEY WHY` |
/// | `mix KEY TASKS FILE HOW` | the same |
/// | `rest KEY` | nothing by itself |
/// | `cached KEY` | `cached KEY true` if it keeps the lease although it does not hold the lock, or `false` |
/// | `block MS` | `blocked MS` after blocking its only executor thread that long |
///
/// A KIND is nothing for a mutex, `read`, `write` or `upgradable` for a reader-writer lock, `permits N OF`
/// for a semaphore, and `as OWNER` for a reentrant mutex, with the owner as
/// [`PassedOwner::expose`](lock_sync::PassedOwner::expose) writes it down. A NAME is one word: a key, or a key with
/// `#` and something behind it. It can wait for several names at once and holds one guard per name, so
/// that `it` and `it#2` are two guards of one lock.
///
/// Once a lease is lost it reports `lost NAME TOKEN` without an order.
///
/// `work` takes a mutex over and over, in several tasks, for this time at least, and writes a record of each turn: the process, the
/// task, the fencing token, when it asked, and when it had the lock. A record goes to the place where the file
/// ended when its turn began, some time before. So the file contains the turns in order, and it has fewer than
/// were taken if two tasks held the lock at once.
///
/// `mix` holds a lock in several ways in turn: HOW is a list of `read`, `write`, `descend` (writes, then reads),
/// `climb` (reads, then writes) and `look` (reads as an upgradable reader), or `permits MOST OF`, which takes
/// one permit, two, and so on, up to MOST. It adds a line to the file for each way in which it held the lock:
/// the process, the task, the number of its turn, the way (`r`, `w`, `u`, `p`), the number of permits, the
/// fencing token, when it asked, and from when until when it certainly held.
///
/// The process dies when this value is dropped, and also when the test process is killed, even if it stands
/// still at that time.
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

    /// Gives an order. Does not wait for the outcome.
    ///
    /// # Panics
    ///
    /// If the worker is dead.
    #[track_caller]
    pub fn send(&self, order: &str) {
        if let Err(error) = self.write(order) {
            panic!("cannot tell worker {} to {order:?}: {error}\n{}", self.pid, self.events.log());
        }
    }

    /// As above, for a worker that may be dead. Returns whether it is alive.
    pub fn try_send(&self, order: &str) -> bool {
        self.write(order).is_ok()
    }

    fn write(&self, order: &str) -> io::Result<()> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(orders, "{order}").and_then(|()| orders.flush())
    }

    /// Waits for an event that begins with these words, and removes it. Other events stay, for later calls.
    ///
    /// # Panics
    ///
    /// If there is none within `limit`, or the worker ends before.
    #[track_caller]
    pub fn wait_for(&self, words: &str, limit: Duration) -> Event {
        match self.try_wait_for(words, limit) {
            Ok(event) => event,
            Err(why) => panic!("worker {} did not say {words:?}: {why}", self.pid),
        }
    }

    /// As above, for a worker that may not report that.
    ///
    /// # Errors
    ///
    /// If it does not within `limit`, or ends before: its reports instead.
    pub fn try_wait_for(&self, words: &str, limit: Duration) -> Result<Event, String> {
        self.events.take(words, limit)
    }

    /// Takes an event that begins with these words, if it has come already.
    pub fn poll(&self, words: &str) -> Option<Event> {
        self.events.take(words, Duration::ZERO).ok()
    }

    /// Takes a lock, waits for it, and returns its fencing token. `what` is its name, and its kind unless it is
    /// a mutex.
    ///
    /// # Panics
    ///
    /// If that takes longer than 20 seconds, or fails.
    #[track_caller]
    pub fn lock(&self, what: &str) -> FencingToken {
        self.send(&format!("lock {what}"));
        self.locked(name_of(what), LIMIT)
    }

    /// Waits until the worker holds a lock that it was ordered to take.
    ///
    /// # Panics
    ///
    /// If that takes longer than `limit`, or fails.
    #[track_caller]
    pub fn locked(&self, name: &str, limit: Duration) -> FencingToken {
        self.wait_for(&format!("locked {name}"), limit).token()
    }

    /// Tries to take a lock; `None` if another client holds it. `what` is as for [`lock`](Self::lock).
    ///
    /// # Panics
    ///
    /// If it fails.
    #[track_caller]
    pub fn try_lock(&self, what: &str) -> Option<FencingToken> {
        self.send(&format!("try {what}"));
        let name = name_of(what);
        let (locked, busy) = (format!("locked {name}"), format!("busy {name}"));
        match self.events.take_any(&[&locked, &busy], LIMIT) {
            Ok((0, event)) => Some(event.token()),
            Ok(_) => None,
            Err(why) => panic!("worker {} did not answer `try {what}`: {why}", self.pid),
        }
    }

    /// Orders the worker to do something with its hold, and waits until it has.
    ///
    /// # Panics
    ///
    /// If it does not report `done` with the name within 20 seconds.
    #[track_caller]
    pub fn tell(&self, order: &str, done: &str) -> Event {
        self.send(order);
        let name = order.split(' ').nth(1).unwrap_or_default();
        self.wait_for(&format!("{done} {name}"), LIMIT)
    }

    /// Releases the lock and waits until the server has confirmed it.
    ///
    /// # Panics
    ///
    /// If it fails.
    #[track_caller]
    pub fn unlock(&self, name: &str) {
        self.tell(&format!("unlock {name}"), "unlocked");
    }

    /// Whether the worker's guard says that it is valid.
    ///
    /// # Panics
    ///
    /// If the worker holds no such lock.
    #[track_caller]
    pub fn is_valid(&self, name: &str) -> bool {
        self.tell(&format!("valid {name}"), "valid").word(2) == "true"
    }

    /// Stops the process (SIGSTOP), and returns once it stands still.
    #[track_caller]
    pub fn stop(&self) {
        process::stop(self.pid);
    }

    /// Lets a stopped process continue (SIGCONT).
    #[track_caller]
    pub fn cont(&self) {
        process::cont(self.pid);
    }

    /// Kills the process (SIGKILL), and returns once it is gone.
    ///
    /// Its earlier reports can still be waited for.
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

    /// Whether the process is there and does not stand still.
    pub fn is_running(&self) -> bool {
        self.is_alive() && !process::is_stopped(self.pid)
    }
}

/// The name among the words that follow an order.
fn name_of(what: &str) -> &str {
    what.split(' ').next().unwrap_or_default()
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}
