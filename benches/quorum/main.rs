//! Locks on most of several servers: their cost while all servers are there, while some are gone, and while many
//! tasks want one lock.

mod healthy;
mod hot;
mod losses;
mod runner;

use std::time::Duration;

use lock_benches::{Effort, Failure, Setting};

/// A pass that takes longer than this has failed.
const LIMIT: Duration = Duration::from_secs(3);

/// How long a message to a distant server takes, and a message from it.
const DISTANCE: Duration = Duration::from_millis(2);

/// The rounds of contestants that may need a second for a single pass, and of crowds, whatever the effort says.
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
