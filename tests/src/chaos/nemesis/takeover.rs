//! Faults after which another server has the part of a server.

use std::sync::MutexGuard;

use crate::chaos::stage::{Link, Stage};
use crate::chaos::{Fault, Step};

/// Such a fault during its execution.
#[derive(Debug, Default)]
pub(super) struct Takeover<'a> {
    turn: Option<MutexGuard<'a, ()>>,
    /// The primary, and the replica that takes over.
    victim: Option<(usize, usize)>,
    moves: usize,
}

impl<'a> Takeover<'a> {
    /// Returns whether anything was done.
    pub(super) fn begin(&mut self, stage: &'a Stage, number: usize) -> bool {
        let (site, step) = (stage.site(), &stage.plan().steps[number]);
        self.turn = Some(site.turn());
        if step.fault == Fault::MoveSlot {
            return self.again(stage, step);
        }
        self.victim = site.victim(step.servers[0]);
        let Some((primary, replica)) = self.victim else { return false };
        match step.fault {
            Fault::FailOver => site.promote(replica),
            Fault::KillPrimary => site.kill(primary),
            Fault::CutAndFailOver => site.keep_cut(primary, true),
            Fault::PausePrimary => site.stop(primary),
            Fault::PartitionPrimary => part(stage, number, primary),
            _ => return false,
        }
        true
    }

    pub(super) fn again(&mut self, stage: &Stage, step: &Step) -> bool {
        self.moves += 1;
        step.fault == Fault::MoveSlot && stage.site().move_a_slot(step.servers[0] + self.moves)
    }

    /// Heals the fault: another server has taken over, and all servers that run agree on that.
    pub(super) fn end(&mut self, stage: &Stage, number: usize) {
        let (site, step) = (stage.site(), &stage.plan().steps[number]);
        if let Some((primary, replica)) = self.victim.take() {
            let lives = step.fault == Fault::CutAndFailOver && !step.workers.is_empty();
            if lives {
                // The holder of that lock goes on.
                site.differ(primary, replica, false);
                part(stage, number, primary);
            } else if step.fault == Fault::CutAndFailOver {
                site.force(primary, replica);
            }
            site.replaced(primary, replica);
            match step.fault {
                Fault::PausePrimary => site.cont(primary),
                Fault::KillPrimary => site.revive(primary),
                Fault::CutAndFailOver if lives => {
                    let next = site.primaries()[0];
                    site.differ(primary, next, true);
                    site.part(primary, false);
                    site.keep_cut(primary, false);
                    links(stage, step, |link| link.end(number));
                }
                Fault::CutAndFailOver => site.reunite(primary),
                Fault::PartitionPrimary => {
                    site.part(primary, false);
                    links(stage, step, |link| link.end(number));
                }
                _ => {}
            }
        }
        site.settle();
        self.turn = None;
    }
}

/// Parts a primary from sentinels and replicas, and some workers from the sentinels.
fn part(stage: &Stage, number: usize, primary: usize) {
    let step = &stage.plan().steps[number];
    links(stage, step, |link| link.begin(number, Fault::Partition, step.how));
    stage.site().part(primary, true);
}

/// The links of some workers to all sentinels.
fn links(stage: &Stage, step: &Step, act: impl Fn(&Link)) {
    for &worker in &step.workers {
        stage.post(worker).0.links().iter().for_each(&act);
    }
}
