//! Executes a plan.

mod act;
mod elsewhere;
mod takeover;

use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use self::act::Act;
use super::history::{Deed, Recorder};
use super::stage::Stage;

/// Its name in the history.
pub const NEMESIS: &str = "nemesis";

/// Executes the steps of a plan on its stage, each at its time, and records the times.
#[derive(Debug)]
pub struct Nemesis {
    recorder: Recorder,
    over: Mutex<bool>,
    changed: Condvar,
}

/// The times of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Carried {
    /// The step.
    pub step: usize,
    /// When it began, at the earliest.
    pub began: lock_core::Instant,
    /// When it had been healed, at the latest.
    pub healed: lock_core::Instant,
    /// Whether anything was done: a server that is down cannot be flushed.
    pub effective: bool,
}

impl Nemesis {
    /// A nemesis that writes to the history in this folder.
    ///
    /// # Errors
    ///
    /// If that cannot be written.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let recorder = Recorder::open(folder, NEMESIS)?;
        Ok(Self { recorder, over: Mutex::new(false), changed: Condvar::new() })
    }

    /// Executes all steps, whose times count from `begin`, and heals their faults. Steps that overlap run on
    /// threads of their own.
    ///
    /// # Panics
    ///
    /// If something cannot be done or healed that must be, such as the restart of a server.
    pub fn run(&self, stage: &Stage, begin: Instant) -> Vec<Carried> {
        let steps = stage.plan().steps.len();
        let mut carried: Vec<Carried> = thread::scope(|scope| {
            let acts: Vec<_> = (0..steps)
                .map(|number| scope.spawn(move || self.carry_out(stage, number, begin)))
                .collect();
            let join = |act: thread::ScopedJoinHandle<'_, _>| match act.join() {
                Ok(carried) => carried,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            acts.into_iter().filter_map(join).collect()
        });
        carried.sort_by_key(|it| it.began);
        carried
    }

    /// Starts no more steps, and heals those that have begun.
    pub fn stop(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn carry_out(&self, stage: &Stage, number: usize, begin: Instant) -> Option<Carried> {
        let step = &stage.plan().steps[number];
        if !self.sleep_until(begin + step.at) {
            return None;
        }
        let record_number = u32::try_from(number).unwrap_or(u32::MAX);
        let mut act = Act::new(stage, number);
        // Stamped before, so that no consequence comes earlier.
        let began = self.recorder.now();
        self.recorder.record_at(began, &Deed::Fault { step: record_number, what: step.what() });
        let begun = Instant::now();
        act.begin();
        let ends = begun + step.lasts;
        // Repeated deeds, and those that were impossible at first.
        while let Some(pause) = act.pause() {
            let instant = step.lasts.is_zero();
            let last = if instant { begun + Act::PATIENCE } else { ends };
            let next = Instant::now() + pause;
            if next >= last || !self.sleep_until(next) {
                break;
            }
            act.again();
        }
        self.sleep_until(ends);
        act.end();
        let healed = self.recorder.now();
        self.recorder.record_at(healed, &Deed::Healed { step: record_number });
        Some(Carried { step: number, began, healed, effective: act.is_effective() })
    }

    /// Whether the time has come, and the end has not come before it.
    fn sleep_until(&self, time: Instant) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let left = time.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(over, left, |over| !*over);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Milliseconds.
const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
