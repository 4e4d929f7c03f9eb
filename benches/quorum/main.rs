//! Locks on most of several servers: what they cost while all are there, while some are gone, and while
//! many want them.

mod healthy;
mod hot;
mod losses;
mod runner;

use std::time::Duration;

use lock_benches::{Effort, Failure, Setting};

/// Who has not got the lock and given it back within this time has failed.
const LIMIT: Duration = Duration::from_secs(3);

/// How long what is sent to a server that is far away takes, and what it sends.
const DISTANCE: Duration = Duration::from_millis(2);

/// Rounds of those who may need a second for a single pass, and of crowds, however many there are to be.
const ROUNDS: usize = 3;

fn main() -> Result<(), Failure> {
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    for (setting, distance, file) in [
        (Setting::Spawned, None, "spawned"),
        (Setting::CurrentThread, None, "current_thread"),
        (Setting::Spawned, Some(DISTANCE), "far"),
    ] {
        healthy::table(&effort, setting, distance)?.publish(&format!("quorum-{file}"))?;
    }
    losses::table(&effort)?.publish("quorum-losses")?;
    for tasks in [4, 16].into_iter().take(effort.sizes) {
        hot::table(&effort, tasks)?.publish(&format!("quorum-hot-{tasks}"))?;
    }
    Ok(())
}
