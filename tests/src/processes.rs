//! Processes that contend for a lock, and processes that are killed: cases for workers over every store.

use std::time::Duration;

use crate::{Crew, SOON, Worker, WorkerBuilder};

/// Each process has this many turns at least.
const TURNS: u32 = 40;

/// The time of a turn. It is long beside the time between two turns, so two locks that do not exclude each other soon
/// lose an update.
const TURN: Duration = Duration::from_millis(3);

/// The lease of a process that is killed. A process that stands still for two seconds renews this lease in time.
const SHORT: Duration = Duration::from_secs(4);

/// A quiet store ends a lease within this time after its end.
const LATE: Duration = Duration::from_secs(3);

/// A lease that does not end during a case.
const LONG: Duration = Duration::from_secs(60);

/// These processes lose no update of a common file: each turn reads and writes the file in two steps that only the lock
/// keeps together. With the option `fair`, the lock often passes from process to process.
///
/// # Panics
///
/// If an update is lost, a token is not above the previous one, or a process gets no turn.
#[track_caller]
pub fn lose_no_update(workers: Vec<Worker>) {
    let crew = Crew::of(workers, 2, TURN);
    for _ in 0..TURNS {
        crew.goes_on(SOON * 2);
    }
    crew.rest();
}

/// A process keeps its lock for longer than one lease. Once the process is killed, the lock passes on at the end of the
/// lease, and not before.
///
/// # Panics
///
/// If the lock passes on too early or too late, or the next token is not above the previous one.
#[track_caller]
pub fn a_killed_holder(options: &WorkerBuilder, url: &str) {
    let dead = options.clone().ttl(LONG).spawn(url);
    let holder = options.clone().ttl(SHORT).spawn(url);
    let heir = options.clone().spawn(url);
    dead.lock("other");
    dead.kill();
    let token = holder.lock("it");
    heir.send("lock it");
    let early = heir.try_wait_for("locked it", SHORT + LATE);
    assert!(early.is_err(), "the lock passed on while its holder lived");
    holder.kill();
    assert!(heir.locked("it", SHORT + SOON) > token);
    // The store has noticed this death long ago.
    assert_eq!(heir.try_lock("other"), None, "the holder is dead, its lease is not");
}
