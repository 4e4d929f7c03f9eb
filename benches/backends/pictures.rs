//! The distributions, by criterion.

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode};
use lock_benches::{Effort, Failure, team};

use crate::field::{Field, Needs, Row};
use crate::{crowds, free, teams};

/// Each workload is a group, and each row is a function of it. A time is that of one pass.
pub(crate) fn draw(effort: &Effort, field: &Field) -> Result<(), Failure> {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
        .configure_from_args();

    let mut group = criterion.benchmark_group("pair");
    for row in field.rows(free::NEEDS).0 {
        let entrant = field.entrant(&row, 1)?;
        let keys = entrant.keys(1);
        measure(&mut group, &row, |count| field.stage.run(entrant.pairs(&keys, count)));
    }
    group.finish();

    for (name, workload) in [("hot-key", crowds::HOT), ("many-keys", crowds::MANY)] {
        windows(&mut criterion, name, field, workload.needs, |row| {
            let turn = workload.turn(field, row, effort.slow_window)?;
            Ok(move || turn().map(|it| (it.total(), it.elapsed)))
        })?;
    }
    windows(&mut criterion, "processes", field, teams::HOT, |row| {
        let plan = teams::hot_plan(row, effort.slow_window);
        let site = row.site.clone();
        Ok(move || team::play(&*site, &plan).map(|it| (it.handovers, it.elapsed)))
    })?;
    windows(&mut criterion, "handover", field, teams::HANDOVER, |row| {
        let plan = teams::handover_plan(row, teams::handover_window(effort));
        let site = row.site.clone();
        Ok(move || team::play(&*site, &plan).map(|it| (it.crossings, it.elapsed)))
    })?;
    criterion.final_summary();
    Ok(())
}

/// A group of rows that are measured by windows, each of which has so many passes in such a time.
fn windows<T>(
    criterion: &mut Criterion,
    name: &str,
    field: &Field,
    needs: Needs,
    turn: impl Fn(&Row) -> Result<T, Failure>,
) -> Result<(), Failure>
where
    T: Fn() -> Result<(u64, Duration), Failure>,
{
    let mut group = criterion.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    for row in field.rows(needs).0 {
        let turn = turn(&row)?;
        // A window is as long as it is, however many passes criterion asks for. In the shortest ones there may be none.
        measure(&mut group, &row, |count| {
            let (passes, elapsed) = turn()?;
            Ok(elapsed.mul_f64(count as f64 / passes.max(1) as f64))
        });
    }
    group.finish();
    Ok(())
}

/// One row. A contestant that fails ends the benchmark.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    row: &Row,
    time: impl Fn(u64) -> Result<Duration, Failure>,
) {
    group.bench_function(BenchmarkId::from_parameter(&row.name), |bencher| {
        bencher.iter_custom(|count| match time(count) {
            Ok(elapsed) => elapsed,
            Err(failure) => panic!("{}: {failure}", row.name),
        });
    });
}
