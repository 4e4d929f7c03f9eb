//! The number of allocations for each lock that is acquired and released.

use std::alloc::System;

use lock_benches::contestants::{self, Ending, Local, Ours, TOKIO};
use lock_benches::{Effort, Entrant, Failure, Setting, Stage, Table, short};
use lock_tests::RedisServer;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of passes before counting begins: in them, buffers grow and scripts are loaded.
const WARM_UP: u64 = 200;

/// The number of passes that are counted. The figures hardly vary.
const PASSES: u64 = 2_000;

fn main() -> Result<(), Failure> {
    if Effort::from_args().is_none() {
        return Ok(());
    }
    let server = RedisServer::start();
    let stage = Stage::new(Setting::Spawned)?;
    let url = server.url();
    let mut entrants = stage.run(async move { contestants::all(&url).await })?;
    entrants.extend([
        Entrant::new("ours in memory, released", [Ours::memory(Ending::Released)]),
        Entrant::new("ours in memory, dropped", [Ours::memory(Ending::Dropped)]),
        Entrant::new(TOKIO, [Local::default()]),
    ]);

    let mut table = Table::new(
        "Allocations, for each acquire and release",
        &["lock", "allocations", "grown in place or moved", "bytes"],
    );
    for entrant in &entrants {
        let keys = entrant.keys(1);
        stage.run(entrant.pairs(&keys, WARM_UP))?;
        let region = Region::new(HEAP);
        stage.run(entrant.pairs(&keys, PASSES))?;
        let change = region.change();
        let each = |count: usize| short(count as f64 / PASSES as f64);
        table.row([
            entrant.name().to_owned(),
            each(change.allocations),
            each(change.reallocations),
            each(change.bytes_allocated),
        ]);
    }
    table.remark(
        "Of all threads of this process: the future, the connection's task and what runs in the \
         background.",
    );
    table.publish("allocations")?;
    Ok(())
}
