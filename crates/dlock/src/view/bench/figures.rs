//! The main figures of a store. Each figure has a part of the time.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use lock_sync::{Locks, MutexGuard};

use super::Failure;
use super::times::Times;
use super::unit::Unit;

/// How many tasks contend, or have a key each.
pub(super) const TASKS: usize = 64;

/// The figure of one kind of work.
#[derive(Debug)]
pub(super) struct Figure {
    /// The kind of work, in a few words.
    pub(super) name: String,
    /// How often per second the work ended.
    pub(super) per_second: f64,
    /// How long each work took.
    pub(super) times: Times,
}

impl Figure {
    pub(super) fn new(name: impl Into<String>, times: Times, window: Duration) -> Self {
        let per_second = times.count() as f64 / window.as_secs_f64();
        Self { name: name.into(), per_second, times }
    }

    /// The time between two ends of this work, in units.
    pub(super) fn in_units(&self, unit: &Self) -> f64 {
        unit.per_second / self.per_second
    }
}

/// The time in which a figure counts work, after a time of warming up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    begin: Instant,
    end: Instant,
}

impl Window {
    /// A window that ends after this time. A fifth of the time is for warming up.
    pub(super) fn of(length: Duration) -> Self {
        let now = Instant::now();
        Self { begin: now + length / 5, end: now + length }
    }

    pub(super) fn length(self) -> Duration {
        self.end - self.begin
    }

    fn is_over(self) -> bool {
        Instant::now() >= self.end
    }

    /// Counts work that began at `began` and ends now.
    fn count(self, times: &mut Times, began: Instant) {
        let now = Instant::now();
        if now >= self.begin && now < self.end {
            times.add(now - began);
        }
    }
}

/// The unit, by one caller.
pub(super) async fn unit(mut unit: Unit, window: Window) -> Result<Figure, Failure> {
    let mut times = Times::new();
    while !window.is_over() {
        let began = Instant::now();
        unit.send().await?;
        window.count(&mut times, began);
    }
    Ok(Figure::new(unit.name(), times, window.length()))
}

/// One task that locks and releases one lock, and waits for both answers.
pub(super) async fn pair(locks: Locks, name: String, window: Window) -> Result<Times, Failure> {
    let lock = locks.mutex(name.as_str(), ())?;
    let mut times = Times::new();
    while !window.is_over() {
        let began = Instant::now();
        let guard = lock.lock().await?;
        MutexGuard::release(guard).await?;
        window.count(&mut times, began);
    }
    Ok(times)
}

/// Many tasks, each with a lock of its own.
pub(super) async fn many_keys(locks: &Locks, name: &str, window: Window) -> Result<Times, Failure> {
    let task = |number: usize| {
        let (locks, name) = (locks.clone(), format!("{name}/{number}"));
        tokio::spawn(pair(locks, name, window))
    };
    join(task).await
}

/// Many tasks of one process that contend for one lock. A time is from the call to the guard.
pub(super) async fn hot_key(locks: &Locks, name: &str, window: Window) -> Result<Times, Failure> {
    let lock = Arc::new(locks.mutex(name, ())?);
    let task = |_| {
        let lock = Arc::clone(&lock);
        tokio::spawn(async move {
            let mut times = Times::new();
            while !window.is_over() {
                let began = Instant::now();
                let guard = lock.lock().await?;
                window.count(&mut times, began);
                drop(guard);
                tokio::task::yield_now().await;
            }
            Ok(times)
        })
    };
    join(task).await
}

async fn join(
    task: impl Fn(usize) -> tokio::task::JoinHandle<Result<Times, Failure>>,
) -> Result<Times, Failure> {
    let all = try_join_all((0..TASKS).map(task)).await.map_err(|_| Failure::Panicked)?;
    let mut sum = Times::new();
    for times in all {
        sum.merge(&times?);
    }
    Ok(sum)
}

/// Two clients that take turns with one lock. A time is from the release by one to the guard of the other.
pub(super) async fn hand_over(
    [one, other]: [&Locks; 2],
    name: &str,
    window: Window,
) -> Result<Times, Failure> {
    let last = Arc::new(Mutex::new((usize::MAX, Instant::now())));
    let side = |number: usize, locks: &Locks| {
        let (lock, last) = (locks.mutex(name, ()), Arc::clone(&last));
        async move {
            let (lock, mut times) = (lock?, Times::new());
            while !window.is_over() {
                let guard = lock.lock().await?;
                let (before, released) = *last.lock().unwrap_or_else(PoisonError::into_inner);
                if before != usize::MAX && before != number {
                    window.count(&mut times, released);
                }
                *last.lock().unwrap_or_else(PoisonError::into_inner) = (number, Instant::now());
                drop(guard);
            }
            Ok::<_, Failure>(times)
        }
    };
    let sides = [tokio::spawn(side(0, one)), tokio::spawn(side(1, other))];
    let [one, other] = sides;
    let (one, other) = (one.await, other.await);
    let mut sum = one.map_err(|_| Failure::Panicked)??;
    sum.merge(&other.map_err(|_| Failure::Panicked)??);
    Ok(sum)
}
