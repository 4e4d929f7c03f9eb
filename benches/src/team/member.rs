//! The tasks of one process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::outcome::Tally;
use super::record::{Entry, Record, now};
use super::serve::say;
use super::{Orders, Part, section};
use crate::measure::maybe_yield;
use crate::{Contestant, Failure, Rule, cpu};

struct Shared {
    part: Part,
    record: Record,
    may_ask: Notify,
    counting: AtomicBool,
    done: AtomicBool,
    /// When the window began.
    start: AtomicU64,
    /// When the present section began; 0 if no task is in one.
    inside_since: AtomicU64,
    tally: Mutex<Tally>,
    failure: OnceLock<String>,
}

struct Worker {
    /// The number of the task, from 1 over all processes.
    number: u64,
    shared: Arc<Shared>,
    /// How often the task held the lock.
    passes: AtomicU64,
    /// How many of the passes have changed the record.
    updates: AtomicU64,
    /// The value of `passes` when the window began.
    passes_before: AtomicU64,
    /// Since when the task waits; 0 if it does not wait.
    waiting_since: AtomicU64,
    /// The count of the record in the last pass of the task.
    last_count: AtomicU64,
}

impl Shared {
    fn new(record: Record, part: Part) -> Self {
        Self {
            record,
            may_ask: Notify::new(),
            counting: AtomicBool::new(false),
            done: AtomicBool::new(false),
            start: AtomicU64::new(0),
            inside_since: AtomicU64::new(0),
            tally: Mutex::default(),
            failure: OnceLock::new(),
            part,
        }
    }
}

impl Worker {
    /// The worker with this number in its process.
    fn new(shared: &Arc<Shared>, number: usize) -> Self {
        Self {
            number: (shared.part.number * shared.part.tasks + number + 1) as u64,
            shared: Arc::clone(shared),
            passes: AtomicU64::new(0),
            updates: AtomicU64::new(0),
            passes_before: AtomicU64::new(0),
            waiting_since: AtomicU64::new(0),
            last_count: AtomicU64::new(u64::MAX),
        }
    }
}

/// Locks, counts and unlocks, with the tasks of the plan, until the captain says stop.
pub(crate) async fn member<C: Contestant>(
    client: Arc<C>,
    part: Part,
    mut orders: Orders,
) -> Result<(), Failure> {
    let record = Record::open(&part.record)?;
    // Connects, and teaches the server the scripts.
    let warm_up = client.key(&format!("{}:{}", part.key, part.number))?;
    client.locked(&warm_up, std::future::ready(())).await?;
    say(&format!("ready {}", C::INNER.join(",")))?;
    while orders.next().await.ok_or("the captain is gone")? != "go" {}

    let shared = Arc::new(Shared::new(record, part));
    let mut tasks = JoinSet::new();
    let mut workers = Vec::new();
    for number in 0..shared.part.tasks {
        let worker = Arc::new(Worker::new(&shared, number));
        workers.push(Arc::clone(&worker));
        let key = client.key(&shared.part.key)?;
        tasks.spawn(work(Arc::clone(&client), key, worker));
    }

    let cpu = obey(&mut orders, &shared, &workers, &mut tasks).await?;
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    client.settled().await;
    if let Some(failure) = shared.failure.get() {
        return Err(failure.clone().into());
    }
    let mut tally = shared.tally();
    tally.cpu = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
    tally.total = workers.iter().map(|worker| worker.updates.load(Ordering::Relaxed)).sum();
    Ok(say(&tally.to_json().to_string())?)
}

/// Follows the orders until the captain says stop. Returns the CPU time since the counting began.
async fn obey(
    orders: &mut Orders,
    shared: &Shared,
    workers: &[Arc<Worker>],
    tasks: &mut JoinSet<Result<(), Failure>>,
) -> Result<Duration, Failure> {
    let mut cpu_before = Duration::ZERO;
    loop {
        tokio::select! {
            order = orders.next() => match order.as_deref() {
                Some("ask") => shared.may_ask.notify_one(),
                Some("count") => {
                    cpu_before = cpu::used();
                    begin_to_count(shared, workers);
                }
                _ => break,
            },
            Some(ended) = tasks.join_next() => ended??,
        }
    }
    end_counting(shared, workers);
    Ok(cpu::used().saturating_sub(cpu_before))
}

async fn work<C: Contestant>(
    client: Arc<C>,
    key: C::Key,
    worker: Arc<Worker>,
) -> Result<(), Failure> {
    let shared = Arc::clone(&worker.shared);
    while !shared.done.load(Ordering::Relaxed) {
        if shared.part.by_turns {
            shared.may_ask.notified().await;
        }
        if shared.part.rule.reads(worker.number, worker.passes.load(Ordering::Relaxed)) {
            client.shared(&key, hold(Arc::clone(&worker), true)).await?;
        } else {
            worker.waiting_since.store(now(), Ordering::Relaxed);
            client.locked(&key, hold(Arc::clone(&worker), false)).await?;
        }
    }
    Ok(())
}

/// The section.
async fn hold(worker: Arc<Worker>, reads: bool) {
    let begun = now();
    let outcome = match worker.shared.part.rule {
        Rule::Exclusive => pass(&worker, begun).await,
        rule => pass_beside(&worker, rule, reads, begun).await,
    };
    if let Err(error) = outcome {
        _ = worker.shared.failure.set(format!("the record cannot be used: {error}"));
        worker.shared.done.store(true, Ordering::Relaxed);
    }
}

/// Reads the record, and writes it at the end.
async fn pass(worker: &Worker, begun: u64) -> Result<(), std::io::Error> {
    let shared = &*worker.shared;
    let process = shared.part.number as u64 + 1;
    let seen = shared.record.read()?;
    worker.enter(&seen, begun);
    if shared.part.by_turns {
        say("have")?;
    }
    let passes = worker.passes.load(Ordering::Relaxed);
    if !shared.part.hold.is_zero() {
        tokio::time::sleep(shared.part.hold).await;
    } else {
        maybe_yield(passes).await;
    }

    let ended = now();
    shared.record.write(&Entry {
        count: seen.count + 1,
        task: worker.number,
        process,
        turn_began: if seen.process == process { seen.turn_began } else { begun },
        released: ended,
    })?;
    // No await since the write: a task that is aborted has counted both or neither.
    worker.passes.store(passes + 1, Ordering::Relaxed);
    worker.updates.store(passes + 1, Ordering::Relaxed);
    shared.inside_since.store(0, Ordering::Relaxed);
    if shared.counting.load(Ordering::Relaxed) {
        let start = shared.start.load(Ordering::Relaxed);
        shared.tally().in_use += ended.saturating_sub(begun.max(start));
    }
    Ok(())
}

/// The section of a task beside which other tasks may be inside.
async fn pass_beside(
    worker: &Worker,
    rule: Rule,
    reads: bool,
    begun: u64,
) -> Result<(), std::io::Error> {
    let shared = &*worker.shared;
    let (record, tasks) = (&shared.record, shared.part.tasks_of_all);
    let since = worker.waiting_since.swap(0, Ordering::Relaxed);
    if !reads && shared.counting.load(Ordering::Relaxed) {
        shared.tally().waits.add(Duration::from_nanos(begun.saturating_sub(since)));
    }
    let passes = worker.passes.load(Ordering::Relaxed);
    let intruded = match rule {
        Rule::Permits(permits) => {
            section::enter(record, worker.number, tasks, permits, passes).await?
        }
        Rule::ReadWrite { .. } | Rule::Exclusive if reads => section::read(record, passes).await?,
        Rule::ReadWrite { .. } | Rule::Exclusive => {
            let intruded = section::write(record, passes).await?;
            // No await since the write: a task that is aborted has counted both or neither.
            worker.updates.fetch_add(1, Ordering::Relaxed);
            intruded
        }
    };
    worker.passes.store(passes + 1, Ordering::Relaxed);
    if intruded {
        shared.tally().intrusions += 1;
    }
    Ok(())
}

impl Worker {
    /// Notes how the task got the lock.
    fn enter(&self, seen: &Entry, begun: u64) {
        let shared = &*self.shared;
        shared.inside_since.store(begun, Ordering::Relaxed);
        let since = self.waiting_since.swap(0, Ordering::Relaxed);
        let last = self.last_count.swap(seen.count, Ordering::Relaxed);
        if !shared.counting.load(Ordering::Relaxed) {
            return;
        }
        let mut tally = shared.tally();
        tally.waits.add(Duration::from_nanos(begun.saturating_sub(since)));
        tally.handovers += u64::from(seen.task != self.number);
        tally.in_turn +=
            u64::from(seen.count.checked_sub(last) == Some(shared.part.tasks_of_all as u64));
        if seen.process != shared.part.number as u64 + 1 && seen.process != 0 {
            tally.crossings += 1;
            tally.latencies.add(Duration::from_nanos(begun.saturating_sub(seen.released)));
            if seen.turn_began >= shared.start.load(Ordering::Relaxed) {
                tally.turns.add(Duration::from_nanos(begun.saturating_sub(seen.turn_began)));
            }
        }
    }
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn begin_to_count(shared: &Shared, workers: &[Arc<Worker>]) {
    for worker in workers {
        worker.passes_before.store(worker.passes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    shared.start.store(now(), Ordering::Relaxed);
    shared.counting.store(true, Ordering::Relaxed);
}

fn end_counting(shared: &Shared, workers: &[Arc<Worker>]) {
    shared.counting.store(false, Ordering::Relaxed);
    shared.done.store(true, Ordering::Relaxed);
    let (start, end) = (shared.start.load(Ordering::Relaxed), now());
    let mut tally = shared.tally();
    tally.elapsed = end.saturating_sub(start);
    let inside_since = shared.inside_since.load(Ordering::Relaxed);
    if inside_since != 0 {
        tally.in_use += end.saturating_sub(inside_since.max(start));
    }
    for worker in workers {
        let passes = worker.passes.load(Ordering::Relaxed);
        tally.passes.push(passes - worker.passes_before.load(Ordering::Relaxed));
        let since = worker.waiting_since.load(Ordering::Relaxed);
        if since != 0 {
            tally.waits.add(Duration::from_nanos(end.saturating_sub(since.max(start))));
        }
    }
}
