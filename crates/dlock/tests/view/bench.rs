use std::fs;
use std::time::{Duration, Instant};

use lock_tests::{CommandStats, RedisServer, SOON, eventually_async};
use serde_json::Value;

use crate::program::{Ran, client, dlock};
use crate::terminal::Terminal;

#[test]
fn the_figures_are_a_table_a_picture_and_json() {
    let server = RedisServer::builder().password("hunter2").start();
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("bench.svg");
    let path = picture.to_str().unwrap();
    let begin = Instant::now();
    let ran = dlock(&server.url(), &["bench", "--seconds", "1", "--svg", path]).ends_with(0);
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(20), "all figures of one second took {took:?}");
    for part in
        ["per second", "in PINGs", "PING  ", "uncontended", "64 tasks", "hand-overs between"]
    {
        assert!(ran.out().contains(part), "{part}: {}", ran.out());
    }
    let picture = fs::read_to_string(&picture).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("hand-overs between two clients"));

    // On a busy machine, the time of a figure may pass without a pass.
    let mut runs = (0..3).map(|_| json_figures(&server));
    let is_full = |(report, _): &(Value, CommandStats)| {
        report["figures"].as_array().unwrap().iter().all(|it| it["count"].as_u64() > Some(0))
    };
    let (report, sent) = runs.find(is_full).expect("figures that count something");
    assert_eq!(report["unit"], "PING");
    let figures = report["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 5);
    for figure in figures {
        assert!(figure["p50_us"].as_f64() > Some(0.0), "{figure}");
        let order = ["p50_us", "p95_us", "p99_us", "max_us"].map(|it| figure[it].as_f64().unwrap());
        assert!(order.is_sorted(), "{figure}");
    }
    assert_eq!(figures[0]["units"], 1.0);
    // A PING is one request. A lock and a release are two.
    let count = |figure: usize| figures[figure]["count"].as_u64().unwrap();
    assert!(sent.calls("ping") >= count(0), "{report}");
    assert!(sent.calls("evalsha") >= 2 * (count(1) + count(2)), "{report}");
    // Nothing stays held.
    dlock(&server.url(), &["list"]).ends_with(1);
}

/// The report of a short bench, and the requests that it sent.
fn json_figures(server: &RedisServer) -> (Value, CommandStats) {
    let before = server.commandstats();
    let ran = dlock(&server.url(), &["bench", "--seconds", "1", "--json", "--no-svg"]).ends_with(0);
    (ran.json_lines().remove(0), server.commandstats().since(&before))
}

/// Runs a load. The run is repeated if a lease was lost, twice at most: a busy machine may be slow to renew a lease.
fn without_loss<T>(run: impl Fn() -> (T, bool)) -> T {
    let mut repeats = 0..2;
    loop {
        let (ran, is_lost) = run();
        if !is_lost || repeats.next().is_none() {
            return ran;
        }
    }
}

/// Whether the table of a load counts a loss.
fn has_loss(out: &str) -> bool {
    out.contains(" losses") && !out.contains(" 0 losses")
}

/// The table of a load.
fn table(server: &RedisServer, args: &[&str]) -> Ran {
    without_loss(|| {
        let ran = dlock(&server.url(), args);
        let is_lost = has_loss(&ran.out());
        (ran, is_lost)
    })
}

/// Whether one of the lines that a terminal has shown has a bar and this text.
fn has_bar(text: &str, part: &str) -> bool {
    text.split(['\r', '\n']).any(|line| line.contains('█') && line.contains(part))
}

#[test]
fn a_terminal_shows_how_far_a_bench_has_come() {
    let server = RedisServer::start();
    let mut terminal = Terminal::run(&server.url(), &["bench", "--seconds", "2", "--no-svg"]);
    let (status, text) = terminal.end();
    assert_eq!(status.code(), Some(0), "{text}");
    // The bar is full of blocks as far as the bench has come.
    assert!(has_bar(&text, "2/5"), "{text:?}");
    assert!(text.contains("hand-overs between two clients"), "{text}");

    let args = ["bench", "load", "--clients", "2", "--requests", "40", "--sleep", "0.02"];
    let (status, text) = without_loss(|| {
        let (status, text) = Terminal::run(&server.url(), &args).end();
        let is_lost = has_loss(&text);
        ((status, text), is_lost)
    });
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(has_bar(&text, "/40 requests"), "{text:?}");
    // Without a terminal there is no bar.
    assert_eq!(table(&server, &args[..6]).ends_with(0).err(), "");
}

#[test]
fn a_load_counts_passes_and_times_its_parts() {
    let server = RedisServer::start();
    let args =
        ["bench", "load", "--clients", "4", "--requests", "30", "--sleep", "0.002", "--json"];
    let ran = without_loss(|| {
        let ran = dlock(&server.url(), &args);
        let report = ran.json_lines().remove(0);
        let [passes, losses] = ["passes", "losses"].map(|name| report[name].as_u64().unwrap());
        assert_eq!(passes + losses, 30, "{report}");
        (ran, losses > 0)
    });
    let report = ran.ends_with(0).json_lines().remove(0);
    let of = |name: &str| report[name].as_u64().unwrap();
    assert_eq!((of("passes"), of("timeouts"), of("losses"), of("errors")), (30, 0, 0, 0));
    for part in ["acquiring", "working", "releasing"] {
        assert_eq!(report[part]["count"], 30);
    }
    assert!(report["working"]["p50_us"].as_f64() >= Some(1_900.0), "{report}");
    // The holders work one after another.
    let seconds = report["seconds"].as_f64().unwrap();
    assert!(seconds >= 0.06, "{report}");
    let rate = report["passes_per_second"].as_f64().unwrap();
    assert!((rate * seconds - 30.0).abs() < 0.01, "{report}");
    let ran = table(&server, &args[..8]).ends_with(0);
    let counts = ["30 passes in", " passes/s, ", "0 timeouts, 0 losses"];
    for part in ["acquiring", "working", "releasing"].into_iter().chain(counts) {
        assert!(ran.out().contains(part), "{part}: {}", ran.out());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_that_finds_no_lock_in_time_counts_timeouts() {
    let server = RedisServer::start();
    let args = ["bench", "load", "--clients", "2", "--requests", "4", "--sleep", "0.5"];
    let args = [&args[..], &["--timeout", "0.05", "--json"]].concat();
    let ran = tokio::task::spawn_blocking({
        let url = server.url();
        move || dlock(&url, &args).ends_with(1)
    });
    let report = ran.await.unwrap().json_lines().remove(0);
    assert!(report["timeouts"].as_u64() > Some(0), "{report}");
    let sum = ["passes", "timeouts", "losses", "errors"].map(|it| report[it].as_u64().unwrap());
    assert_eq!(sum.iter().sum::<u64>(), 4, "{report}");
    let locks = client(&server.url(), "operator").await;
    assert!(locks.list("").await.unwrap().locks.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_whose_lease_is_ended_by_force_counts_a_loss() {
    let server = RedisServer::start();
    let args = ["bench", "load", "--clients", "1", "--requests", "1", "--sleep", "4", "--json"];
    let ran = tokio::task::spawn_blocking({
        let url = server.url();
        move || dlock(&url, &args).ends_with(1)
    });
    let operator = client(&server.url(), "operator").await;
    eventually_async("the load has a lease, and loses it", SOON, async || {
        let mut ended = 0;
        for lock in operator.list("dlock-bench/").await.unwrap().locks {
            ended += operator.force_release(lock.key).await.unwrap();
        }
        ended > 0
    })
    .await;
    let report = ran.await.unwrap().json_lines().remove(0);
    let of = |name: &str| report[name].as_u64().unwrap();
    assert_eq!((of("passes"), of("timeouts"), of("losses"), of("errors")), (0, 0, 1, 0));
    assert_eq!(report["passes_per_second"], 0.0);
}
