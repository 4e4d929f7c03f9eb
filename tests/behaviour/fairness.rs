//! How often each process gets the lock, when several processes want it all the time.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lock_core::Instant;
use lock_tests::{Crew, RedisServer, SOON, Turn, Worker, WorkerBuilder, eventually, lock_worker};

const PROCESSES: usize = 4;
const TASKS: u32 = 3;

/// How often, and for how long, a process passes the lease on by default.
const HANDOFFS: usize = 256;
const TIME: Duration = Duration::from_millis(10);

fn options() -> WorkerBuilder {
    Worker::builder(lock_worker!())
}

/// Turns that begin after all tasks have started and end before any stops, and the number of
/// scripts they took.
fn contended(options: &WorkerBuilder, server: &RedisServer, count: usize) -> (Vec<Turn>, f64) {
    let crew = Crew::start(options, &server.url(), PROCESSES, TASKS);
    let (first, before) = (crew.count(), server.commandstats());
    eventually("they have had their turns", SOON * 2, || crew.count() >= first + count);
    let asked = server.commandstats().since(&before);
    let last = crew.count();
    let turns = crew.rest();
    (turns[first..last].to_vec(), asked.calls("evalsha") as f64 / (last - first) as f64)
}

fn by_process(turns: &[Turn]) -> HashMap<u32, Vec<Turn>> {
    let mut all = HashMap::<u32, Vec<Turn>>::new();
    for turn in turns {
        all.entry(turn.process).or_default().push(*turn);
    }
    all
}

/// How often all processes had a turn before any had two, and of how many times.
fn rounds(turns: &[Turn]) -> (usize, usize) {
    let rounds = turns.windows(PROCESSES);
    let is_round = |turns: &&[Turn]| {
        turns.iter().map(|turn| turn.process).collect::<HashSet<_>>().len() == PROCESSES
    };
    let of = rounds.len();
    (rounds.filter(is_round).count(), of)
}

/// Jain's index: 1 if all processes had equally many turns, 1/n if one had all of them.
fn jain(shares: impl Iterator<Item = usize> + Clone) -> f64 {
    let count = shares.clone().count() as f64;
    let sum: f64 = shares.clone().map(|share| share as f64).sum();
    sum * sum / (count * shares.map(|share| (share * share) as f64).sum::<f64>())
}

#[test]
fn in_fair_mode_processes_take_turns_for_three_scripts_each() {
    let server = RedisServer::start();
    // A process that stands still on a busy machine loses turns. One run without that is enough.
    let mut seen = String::new();
    let turns = (0..3).find_map(|_| {
        let (turns, scripts) = contended(&options().fair(true), &server, 1_000);
        let (fair, of) = rounds(&turns);
        seen = format!("{scripts} scripts for each turn, {fair} rounds of {of}");
        (scripts <= 3.0 && fair * 100 >= of * 95).then_some(turns)
    });
    let turns = turns.unwrap_or_else(|| panic!("{seen}"));

    let shares = by_process(&turns);
    assert_eq!(shares.len(), PROCESSES);
    let index = jain(shares.values().map(Vec::len));
    assert!(index > 0.99, "{index}");
    for (process, turns) in shares {
        let in_order = turns.is_sorted_by_key(|turn| turn.asked);
        assert!(in_order, "{process}: the first waiter was not served first");
    }
}

#[test]
fn by_default_no_process_waits_longer_than_the_budgets_of_the_others() {
    let server = RedisServer::start();
    let (turns, scripts) = contended(&options(), &server, 60_000);
    // The budget allows the process to pass the lease on inside itself.
    assert!(scripts < 1.0, "{scripts} scripts for each turn");

    let runs: Vec<&[Turn]> = turns.chunk_by(|one, next| one.process == next.process).collect();
    let longest = runs.iter().map(|run| run.len()).max().unwrap();
    assert!(longest <= HANDOFFS + 1, "{longest} turns in a row");
    assert!(longest > 1);

    // The longest time from the last turn in one run of a process to the first turn in its next
    // run.
    let mut gaps = Vec::new();
    let mut ended = HashMap::<u32, Instant>::new();
    for run in runs {
        let (first, last) = (run[0], run[run.len() - 1]);
        if let Some(before) = ended.insert(first.process, last.had) {
            gaps.push(first.had.saturating_duration_since(before));
        }
    }
    gaps.sort_unstable();
    let (typical, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    let budget = TIME * PROCESSES as u32;
    // A waiter that did not hear of its turn would ask much later.
    assert!(typical <= budget * 5, "{typical:?} is typical, the budget of all is {budget:?}");
    assert!(longest <= budget + Duration::from_secs(5), "{longest:?}, with {budget:?}");
    for (process, turns) in by_process(&turns) {
        let in_order = turns.is_sorted_by_key(|turn| turn.asked);
        assert!(in_order, "{process}: the first waiter was not served first");
    }
}

#[test]
fn the_index_tells_fair_from_unfair() {
    assert!((jain([5, 5, 5, 5].into_iter()) - 1.0).abs() < 1e-9);
    assert!((jain([9, 0, 0].into_iter()) - 1.0 / 3.0).abs() < 1e-9);
}
