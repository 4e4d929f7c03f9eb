//! Uncontended locks by criterion: the distribution behind the ratios, with plots.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use lock_benches::{Entrant, Failure, Setting, Stage, contestants};
use lock_tests::RedisServer;

/// How many keys are locked in turn, in the rows that do not lock one key all the time.
const ROTATING: usize = 64;

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(20)
        .configure_from_args();
    let server = RedisServer::start();
    for (setting, name) in Setting::ALL.map(|setting| (setting, setting.name())) {
        let stage = Stage::new(setting)?;
        let url = server.url();
        let entrants = stage.run(async move { contestants::all(&url).await })?;
        group(&mut criterion, &format!("one key, {name}"), &stage, &entrants, 1);
        if setting == Setting::Spawned {
            // The three settings for which there are aims.
            let few = &entrants[..entrants.len().min(3)];
            group(&mut criterion, &format!("64 keys, {name}"), &stage, few, ROTATING);
        }
    }
    criterion.final_summary();
    Ok(())
}

fn group(criterion: &mut Criterion, name: &str, stage: &Stage, entrants: &[Entrant], keys: usize) {
    let mut group = criterion.benchmark_group(name);
    for entrant in entrants {
        let keys = entrant.keys(keys);
        group.bench_function(BenchmarkId::from_parameter(entrant.name()), |bencher| {
            bencher.iter_custom(|count| match stage.run(entrant.pairs(&keys, count)) {
                Ok(elapsed) => elapsed,
                Err(failure) => panic!("{}: {failure}", entrant.name()),
            });
        });
    }
    group.finish();
}
