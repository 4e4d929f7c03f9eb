//! `dlock bench` and `dlock bench load`: how fast a store is.

mod figures;
mod load;
mod picture;
mod times;
mod unit;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::{join, join_all, try_join_all};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lock_core::{Error, Key, OwnerToken};
use lock_sync::{LockError, Locks, ReleaseError};
use serde::Serialize;
use serde_json::{Value, json};

use self::figures::{Figure, TASKS, Window};
use self::load::{Outcome, Plan};
use self::times::Times;
use self::unit::Unit;
use crate::view::shown::{Table, number, time};

/// What to measure.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// The time for all figures together, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "25", value_parser = seconds)]
    seconds: Duration,
    /// The file for the picture
    #[arg(long, value_name = "FILE", default_value = "dlock-bench.svg")]
    svg: PathBuf,
    /// Draw no picture
    #[arg(long, conflicts_with = "svg")]
    no_svg: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Load one lock or several with many clients, and time the parts of each request
    Load(LoadArgs),
}

/// The load.
#[derive(Debug, clap::Args)]
struct LoadArgs {
    /// The number of clients; each has connections of its own
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// The number of requests of all clients together
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// The time that a holder works, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    sleep: Duration,
    /// The longest wait of a client for the lock, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    timeout: Duration,
    /// The number of locks that the requests take in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    locks: u32,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Why there are no figures.
#[derive(Debug)]
pub(crate) enum Failure {
    Store(Error),
    Lock(LockError),
    Release(ReleaseError),
    Ping(String),
    Picture(PathBuf, String),
    Panicked,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Lock(error) => chain(error, f),
            Self::Release(error) => chain(error, f),
            Self::Ping(error) => write!(f, "PING failed: {error}"),
            Self::Picture(path, error) => write!(f, "cannot write {}: {error}", path.display()),
            Self::Panicked => f.write_str("a task of the bench panicked"),
        }
    }
}

fn chain(error: &dyn std::error::Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{error}")?;
    error.source().map_or(Ok(()), |source| write!(f, ": {source}"))
}

macro_rules! from {
    ($($from:ident => $variant:ident),*) => {$(
        impl From<$from> for Failure {
            fn from(error: $from) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

from!(Error => Store, LockError => Lock, ReleaseError => Release);

/// Reads a number of seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "write seconds, for example 2 or 0.05".to_owned())
}

/// Measures, and returns what to print, and whether every request of a load had a pass.
pub(crate) async fn run(args: BenchArgs, url: &str) -> Result<(String, bool), Failure> {
    match args.what {
        Some(What::Load(load)) => run_load(load, url).await,
        None => run_figures(args, url).await.map(|text| (text, true)),
    }
}

/// A prefix for the locks of this run, so that no other lock is touched.
fn prefix() -> Result<String, Error> {
    let owner = OwnerToken::generate()?;
    let run = String::from_utf8_lossy(&owner.expose()[..8]).into_owned();
    Ok(format!("dlock-bench/{run}"))
}

fn bar(length: u64, is_quiet: bool, unit: &str) -> ProgressBar {
    let target = if is_quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let template = format!("{{msg:24}} {{wide_bar}} {{pos}}/{{len}}{unit}");
    let style = ProgressStyle::with_template(&template);
    let bar = ProgressBar::with_draw_target(Some(length), target);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

async fn run_figures(args: BenchArgs, url: &str) -> Result<String, Failure> {
    let store = lock_any::open(url).await?;
    let other = lock_any::open(url).await?;
    let (one, other) = (Locks::new(store.clone()), Locks::new(other));
    let name = prefix()?;
    let unit = Unit::of(url, store, Key::new(format!("{name}/free"))?).await?;
    let unit_name = unit.name();
    let figures = all_figures(&args, unit, [&one, &other], &name).await?;
    join(one.shutdown(), other.shutdown()).await;
    let svg = (!args.no_svg).then_some(args.svg.as_path());
    report(&figures, unit_name, svg, args.json)
}

/// Measures one figure after another. The unit is the first.
async fn all_figures(
    args: &BenchArgs,
    unit: Unit,
    [one, other]: [&Locks; 2],
    name: &str,
) -> Result<Vec<Figure>, Failure> {
    let bar = bar(5, args.json, "");
    let name = |of: &str| format!("{name}/{of}");
    let step = |what: &str| {
        bar.inc(u64::from(!bar.message().is_empty()));
        bar.set_message(what.to_owned());
        Window::of(args.seconds / 5)
    };
    let window = step(unit.name());
    // The work runs in tasks, as in an app. A future in `block_on` would need another thread to wake it, which takes
    // time.
    let mut figures = vec![task(figures::unit(unit, window)).await?];
    let mut add = |name: String, times: Times, window: Window| {
        figures.push(Figure::new(name, times, window.length()));
    };
    let window = step("one task, one lock");
    let times = task(figures::pair(one.clone(), name("pair"), window)).await?;
    add("lock and release, uncontended".to_owned(), times, window);
    let window = step("many locks");
    let times = figures::many_keys(one, &name("many"), window).await?;
    add(format!("lock and release, {TASKS} tasks with a lock each"), times, window);
    let window = step("one hot lock");
    let times = figures::hot_key(one, &name("hot"), window).await?;
    add(format!("passes of one lock, {TASKS} tasks in one process"), times, window);
    let window = step("two clients");
    let times = figures::hand_over([one, other], &name("two"), window).await?;
    add("hand-overs between two clients".to_owned(), times, window);
    bar.finish_and_clear();
    Ok(figures)
}

async fn task<T: Send + 'static>(
    work: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    tokio::spawn(work).await.map_err(|_| Failure::Panicked)?
}

/// The table or the JSON. The first figure is the unit.
fn report(
    figures: &[Figure],
    unit: &str,
    svg: Option<&Path>,
    as_json: bool,
) -> Result<String, Failure> {
    let one = &figures[0];
    let rows: Vec<(&Figure, f64)> = figures.iter().map(|it| (it, it.in_units(one))).collect();
    if let Some(path) = svg {
        picture::write(path, unit, &rows)
            .map_err(|error| Failure::Picture(path.to_owned(), error.to_string()))?;
    }
    if as_json {
        let figures = rows.iter().map(|(figure, units)| {
            let mut value = quantiles(&figure.times);
            value["name"] = json!(figure.name);
            value["per_second"] = json!(figure.per_second);
            value["units"] = json!(units);
            value
        });
        let figures: Vec<Value> = figures.collect();
        return Ok(format!("{}\n", json!({ "unit": unit, "figures": figures })));
    }
    let header = ["", "per second", &format!("in {unit}s"), "p50", "p95", "p99", "max"];
    let mut lines = vec![header.map(ToOwned::to_owned)];
    lines.extend(rows.iter().map(|(figure, units)| {
        let [p50, p95, p99, max] = shares(&figure.times).map(time);
        [figure.name.clone(), number(figure.per_second), number(*units), p50, p95, p99, max]
    }));
    let mut text = Table::new().lines(&lines);
    if let Some(path) = svg {
        text.push_str(&format!("\nThe picture is in {}.\n", path.display()));
    }
    Ok(text)
}

fn shares(times: &Times) -> [Duration; 4] {
    [times.quantile(0.5), times.quantile(0.95), times.quantile(0.99), times.max()]
}

/// The count, and the quantiles in microseconds.
fn quantiles(times: &Times) -> Value {
    #[derive(Serialize)]
    struct Shown {
        count: u64,
        p50_us: f64,
        p95_us: f64,
        p99_us: f64,
        max_us: f64,
    }
    let [p50_us, p95_us, p99_us, max_us] = shares(times).map(|it| it.as_nanos() as f64 / 1e3);
    json!(Shown { count: times.count(), p50_us, p95_us, p99_us, max_us })
}

async fn run_load(args: LoadArgs, url: &str) -> Result<(String, bool), Failure> {
    let mut clients = Vec::new();
    for _ in 0..args.clients {
        clients.push(lock_any::connect(url).await?);
    }
    let prefix = prefix()?;
    // Opens the connections, so that the times of the load do not include this.
    let free = format!("{prefix}/free");
    try_join_all(clients.iter().map(|locks| locks.inspect(free.as_str()))).await?;
    let names = (0..args.locks).map(|number| format!("{prefix}/{number}")).collect();
    let LoadArgs { requests, sleep, timeout, .. } = args;
    let bar = bar(requests, args.json, " requests");
    let shown = bar.clone();
    let plan = Plan { requests, sleep, timeout, names };
    let all = clients.clone();
    let (outcome, took) = load::run(clients, plan, move |done| shown.set_position(done)).await?;
    bar.finish_and_clear();
    join_all(all.iter().map(Locks::shutdown)).await;
    let is_clean = outcome.passes == requests;
    Ok((load_report(&outcome, took, args.json), is_clean))
}

fn load_report(outcome: &Outcome, took: Duration, as_json: bool) -> String {
    let Outcome { acquiring, working, releasing, passes, timeouts, losses, errors, first_error } =
        outcome;
    let rate = *passes as f64 / took.as_secs_f64();
    if as_json {
        let all = json!({
            "acquiring": quantiles(acquiring), "working": quantiles(working), "releasing": quantiles(releasing),
            "passes": passes, "passes_per_second": rate, "seconds": took.as_secs_f64(),
            "timeouts": timeouts, "losses": losses, "errors": errors, "first_error": first_error,
        });
        return format!("{all}\n");
    }
    let mut lines = vec![["", "count", "p50", "p95", "p99", "max"].map(ToOwned::to_owned)];
    let parts = [("acquiring", acquiring), ("working", working), ("releasing", releasing)];
    lines.extend(parts.map(|(name, times)| {
        let [p50, p95, p99, max] = shares(times).map(time);
        [name.to_owned(), times.count().to_string(), p50, p95, p99, max]
    }));
    let mut text = Table::new().lines(&lines);
    text.push_str(&format!(
        "\n{passes} passes in {}: {} passes/s, {timeouts} timeouts, {losses} losses, {errors} errors\n",
        time(took),
        number(rate)
    ));
    if let Some(error) = first_error {
        text.push_str(&format!("the first error: {error}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_a_number_of_a_day_at_most() {
        assert_eq!(seconds("0.05"), Ok(Duration::from_millis(50)));
        for bad in ["", "x", "-1", "NaN", "inf", "1s", "86401"] {
            assert!(seconds(bad).unwrap_err().contains("for example"), "{bad}");
        }
    }
}
