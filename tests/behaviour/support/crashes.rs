//! Processes that die or stand still, and how long the others then wait.
//!
//! The bounds, with a lease of `ttl`:
//! - a waiter whose connection is closed is passed over at once;
//! - a hand-over that no owner claims ends after `min(ttl, 1 s)`, and goes to the next claim when a
//!   client asks;
//! - a holder that died costs its `ttl`;
//! - a waiter asks without a message every third of `max(ttl, 3 s)`, and at once when it was
//!   disconnected.

use std::collections::HashSet;
use std::time::Duration;

use lock_core::{Clock, Instant};
use lock_tests::{RedisServer, Worker, WorkerBuilder, eventually, lock_worker};

use super::{SOON, until_in_line};

/// The time after which an unclaimed hand-over ends.
pub(crate) const CLAIM: Duration = Duration::from_secs(1);

/// How long a place is kept for a waiter that does not ask, with a lease that is no longer than this.
pub(crate) const PLACE: Duration = Duration::from_secs(3);

/// How often a waiter with such a lease asks without a message.
pub(crate) const THIRD: Duration = Duration::from_secs(1);

/// The time that a loaded machine may add.
pub(crate) const SLACK: Duration = Duration::from_secs(3);

/// For steps that must not take any of these times: a third of [`TTL`](super::TTL) is far longer.
pub(crate) const AT_ONCE: Duration = SLACK;

/// The server counts in whole milliseconds.
pub(crate) const ROUNDING: Duration = Duration::from_millis(2);

pub(crate) fn options(lease: Duration) -> WorkerBuilder {
    Worker::builder(lock_worker!()).ttl(lease)
}

pub(crate) fn workers<const N: usize>(server: &RedisServer, lease: Duration) -> [Worker; N] {
    [(); N].map(|()| options(lease).spawn(&server.url()))
}

/// Makes these workers wait for the lock "it" in this order, each with this command.
pub(crate) fn line_up(server: &RedisServer, waiters: &[&Worker], order: &str) {
    let already = in_line(server);
    for (before, waiter) in (already..).zip(waiters) {
        until_in_line(server, before);
        waiter.send(order);
    }
    until_in_line(server, already + waiters.len() as i64);
}

/// How many claims wait for the lock "it".
fn in_line(server: &RedisServer) -> i64 {
    server.cli(&["LLEN", super::QUEUE]).int()
}

pub(crate) fn now() -> Instant {
    Clock::boot().now()
}

/// The connections of the server, without those of the kit.
fn connections(server: &RedisServer) -> HashSet<String> {
    let list = server.cli(&["CLIENT", "LIST"]).text();
    let clients = list.lines().filter(|line| !line.contains(" user=kit "));
    // The first word is the number of the connection, which is never used again.
    clients.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Kills a process, and returns once the server has noticed.
pub(crate) fn kill_noticed(server: &RedisServer, victim: &Worker) {
    let before = connections(server);
    victim.kill();
    // Other clients may open connections meanwhile, but close none.
    let noticed = || !before.is_subset(&connections(server));
    eventually("the server has noticed", SOON, noticed);
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is dead, and the server knows.
    Killed,
    /// It stands still, and its connections stay open.
    Stopped,
}

impl Fate {
    const ALL: [Self; 2] = [Self::Killed, Self::Stopped];

    /// Tests each fate on a thread of its own: a test of a fate mostly waits for the end of a lease or of a place.
    pub(crate) fn each(test: impl Fn(Self) + Sync) {
        let test = &test;
        std::thread::scope(|scope| {
            for fate in Self::ALL {
                let thread = std::thread::Builder::new().name(format!("{fate:?}"));
                thread.spawn_scoped(scope, move || test(fate)).unwrap();
            }
        });
    }

    pub(crate) fn befall(self, server: &RedisServer, victim: &Worker) {
        match self {
            Self::Killed => kill_noticed(server, victim),
            Self::Stopped => victim.stop(),
        }
    }

    /// How long the victim's place blocks the claims behind it, whose clients ask every [`THIRD`].
    pub(crate) fn place(self) -> Duration {
        match self {
            Self::Killed => THIRD + SLACK,
            Self::Stopped => PLACE + THIRD + SLACK,
        }
    }
}
