//! Our own part of a lock: over a store in memory, beside `tokio::sync::Mutex`.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use lock_benches::contestants::{Ending, Local, Ours, TOKIO};
use lock_benches::{Entrant, Failure, Setting, Stage};

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
        .configure_from_args();
    for (setting, name) in Setting::ALL.map(|setting| (setting, setting.name())) {
        let stage = Stage::new(setting)?;
        let mut group = criterion.benchmark_group(format!("in memory, {name}"));
        for entrant in entrants() {
            let keys = entrant.keys(1);
            group.bench_function(BenchmarkId::from_parameter(entrant.name()), |bencher| {
                bencher.iter_custom(|count| match stage.run(entrant.pairs(&keys, count)) {
                    Ok(elapsed) => elapsed,
                    Err(failure) => panic!("{}: {failure}", entrant.name()),
                });
            });
        }
        group.finish();
    }
    criterion.final_summary();
    Ok(())
}

fn entrants() -> [Entrant; 3] {
    [
        Entrant::new(TOKIO, [Local::default()]),
        Entrant::new("ours, dropped", [Ours::memory(Ending::Dropped)]),
        Entrant::new("ours, released", [Ours::memory(Ending::Released)]),
    ]
}
