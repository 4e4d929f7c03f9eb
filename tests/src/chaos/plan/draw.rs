//! How a plan follows from a seed.

use std::time::Duration;

use super::{How, Mischief, Plan, Rights, Scope, Step};
use crate::chaos::{Deployment, Extent, Fault, Victim};
use crate::{Direction, Random};

/// The time of traffic without faults before the first fault.
const BEFORE: Duration = Duration::from_secs(1);

/// The longest fault.
const LONGEST: Duration = Duration::from_millis(3_500);

const HOUR: i64 = 3_600_000;

pub(super) fn plan(seed: u64, scope: &Scope) -> Plan {
    let mut random = Random::from_seed(seed);
    let able = |deployment: &Deployment| !scope.faults_of(*deployment).is_empty();
    let deployments: Vec<_> = scope.deployments.iter().copied().filter(able).collect();
    assert!(!deployments.is_empty(), "no fault of {scope:?} can befall any deployment of it");
    let deployment = *random.pick(&deployments);
    let mut plan = quiet(seed, deployment, &mut random);
    let faults = faults(scope, deployment, &mut random);
    let weak = random.some(deployment.minority(), deployment.servers());
    let mut draw = Draw { random, weak, plan: &plan };
    let steps = draw.steps(&faults);
    plan.steps = steps;
    plan
}

/// A plan without faults.
pub(super) fn quiet(seed: u64, deployment: Deployment, random: &mut Random) -> Plan {
    // Short leases are lost in more ways within a run.
    let ttl = Duration::from_millis(*random.pick(&[600, 800, 1_000, 1_000, 2_000, 4_000]));
    // etcd has no shorter ones.
    let ttl = if deployment.is_etcd() { ttl.max(millis(2_000)) } else { ttl };
    Plan {
        seed,
        deployment,
        ttl,
        max_ttl: ttl,
        node_timeout: ttl,
        wait_limit: ttl,
        fair: random.percent(50),
        workers: 3 + random.below(2),
        tasks: *random.pick(&[4, 6, 8]),
        hold: Duration::from_millis(*random.pick(&[2, 10, 40])),
        careless: 10,
        steps: Vec::new(),
    }
    .with_ttl(ttl)
}

/// The faults, in order.
fn faults(scope: &Scope, deployment: Deployment, random: &mut Random) -> Vec<Fault> {
    let among = scope.faults_of(deployment);
    if scope.each {
        let order = random.some(among.len(), among.len());
        return order.into_iter().map(|at| among[at]).collect();
    }
    (0..scope.steps).map(|_| *random.pick(&among)).collect()
}

struct Draw<'a> {
    random: Random,
    /// The servers of a fault of a minority: the same throughout a plan, as two minorities at once, or one
    /// soon after the other, can be a majority.
    weak: Vec<usize>,
    plan: &'a Plan,
}

impl Draw<'_> {
    fn steps(&mut self, faults: &[Fault]) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut healed = BEFORE;
        for &fault in faults {
            let pause = self.random.between(millis(500), millis(1_000));
            let at = match steps.last() {
                None => BEFORE,
                // Sometimes it begins before the last one has been healed.
                Some(last) if self.random.percent(25) && !last.lasts.is_zero() => {
                    last.at + last.lasts / 2
                }
                Some(_) => healed + pause,
            };
            let step = self.step(fault, at);
            healed = healed.max(step.ends());
            steps.push(step);
        }
        steps
    }

    fn step(&mut self, fault: Fault, at: Duration) -> Step {
        let how = self.how(fault);
        let lasts = self.lasts(fault);
        let step = Step::new(fault, at, lasts).how(how);
        match fault.victim() {
            Victim::Server => self.servers(step),
            Victim::Link => {
                let step = self.servers(step);
                // Half of the time some workers are hit, and others are not.
                let all = self.random.percent(50);
                self.workers(step, all)
            }
            Victim::Worker => self.workers(step, false),
            Victim::Memory => step,
            Victim::Part => {
                let step = self.servers(step);
                match fault {
                    // Some workers hear no sentinel.
                    Fault::PartitionPrimary => self.workers(step, false),
                    _ => step,
                }
            }
        }
    }

    fn servers(&mut self, step: Step) -> Step {
        let all = self.plan.deployment.servers();
        if self.plan.deployment.fails_over() {
            return step.servers(&[self.random.below(all)], all);
        }
        let most = self.plan.deployment.minority();
        let servers = if most == 0 || self.random.percent(25) {
            let count = most + 1 + self.random.below(all - most);
            self.random.some(count, all)
        } else {
            let count = 1 + self.random.below(most);
            self.random.some(count, most).into_iter().map(|at| self.weak[at]).collect()
        };
        let step = step.servers(&sorted(servers), all);
        debug_assert_eq!(step.extent == Extent::Minority, step.servers.len() <= most);
        step
    }

    fn workers(&mut self, step: Step, all: bool) -> Step {
        // One worker is left, so that others can wait for it.
        let count =
            if all { self.plan.workers } else { 1 + self.random.below(self.plan.workers - 1) };
        let workers = self.random.some(count, self.plan.workers);
        step.workers(&sorted(workers))
    }

    /// Shorter or longer than leases live.
    fn lasts(&mut self, fault: Fault) -> Duration {
        let ttl = self.plan.ttl;
        match fault {
            Fault::Flush | Fault::AbortTasks | Fault::Collapse | Fault::StoreForgets => {
                Duration::ZERO
            }
            Fault::FailOver | Fault::KillPrimary => Duration::ZERO,
            Fault::Straggle => self.random.between(millis(2_000), LONGEST),
            Fault::KillWorker => self.random.between(millis(100), millis(800)),
            _ if self.random.percent(50) => self.random.between(ttl * 3 / 10, ttl * 8 / 10),
            _ => self.random.between(ttl * 12 / 10, ttl * 2),
        }
        .min(LONGEST)
    }

    fn how(&mut self, fault: Fault) -> How {
        let ttl = self.plan.ttl;
        let half = (ttl / 2).as_millis() as i64;
        let random = &mut self.random;
        match fault {
            Fault::KillStale => How::By(random.between(millis(50), millis(400))),
            Fault::PauseClients => How::AllClients(random.percent(50)),
            Fault::RevokeRights => How::Without(*random.pick(&Rights::ALL)),
            Fault::ClockJump => How::Jump(*random.pick(&[half, -half, HOUR, -HOUR])),
            // By less than the drift that leases allow for.
            Fault::ClockRate => How::Rate(*random.pick(&[4_000, 8_000, -4_000, -8_000])),
            Fault::Delay if random.percent(25) => How::By(ttl * 9 / 10),
            Fault::Delay | Fault::Jitter => How::By(random.between(millis(5), millis(120))),
            Fault::Straggle => How::By(random.between(millis(1_000), millis(3_000))),
            Fault::Dribble => How::By(millis(random.below(2) as u64)),
            Fault::Silence => {
                How::Towards(*random.pick(&[Direction::ToServer, Direction::ToClient]))
            }
            Fault::AbortTasks => How::Some(1 + random.below(self.plan.tasks as usize) as u32),
            Fault::StoreFails => How::Store(*random.pick(&Mischief::ALL)),
            _ => How::Plainly,
        }
    }
}

fn sorted(mut numbers: Vec<usize>) -> Vec<usize> {
    numbers.sort_unstable();
    numbers
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_plan_follows_from_its_seed_and_another_from_another() {
        let scope = Scope::default();
        let printed: HashSet<String> =
            (0..200).map(|seed| Plan::draw(seed, &scope).to_string()).collect();
        assert_eq!(printed.len(), 200);
        for seed in 0..200 {
            assert!(printed.contains(&Plan::draw(seed, &scope).to_string()));
        }
    }

    #[test]
    fn every_plan_can_be_carried_out() {
        let (mut overlaps, mut majorities, mut all) = (0, 0, 0);
        for seed in 0..1_000 {
            let plan = Plan::draw(seed, &Scope::turn(seed as usize, 4));
            let (servers, most) = (plan.deployment.servers(), plan.deployment.minority());
            assert_eq!(plan.steps.len(), 4);
            assert!(plan.node_timeout < plan.ttl && plan.ttl <= plan.max_ttl);
            let mut weak = HashSet::new();
            for (step, next) in
                plan.steps.iter().zip(plan.steps.iter().skip(1).map(Some).chain([None]))
            {
                assert!(step.at >= BEFORE && step.lasts <= LONGEST, "{step}");
                assert!(step.fault.can_befall(plan.deployment), "{plan}");
                assert!(next.is_none_or(|next| next.at >= step.at), "{plan}");
                assert!(step.servers.iter().all(|server| *server < servers), "{step}");
                assert!(step.workers.iter().all(|worker| *worker < plan.workers), "{step}");
                let (hits, struck) = (!step.servers.is_empty(), !step.workers.is_empty());
                let expected = match step.fault.victim() {
                    Victim::Server => (true, false),
                    Victim::Link => (true, true),
                    Victim::Worker => (false, true),
                    Victim::Memory => (false, false),
                    Victim::Part => (true, step.fault == Fault::PartitionPrimary),
                };
                assert_eq!((hits, struck), expected, "{step}");
                assert_eq!(step.extent == Extent::Majority, step.servers.len() > most, "{step}");
                if step.extent == Extent::Minority {
                    weak.extend(step.servers.iter().copied());
                }
                overlaps += usize::from(next.is_some_and(|next| next.at < step.ends()));
                let quorum = matches!(plan.deployment, Deployment::Quorum(_));
                majorities += usize::from(quorum && step.extent == Extent::Majority);
                all += 1;
            }
            assert!(weak.len() <= most, "two minorities are a majority: {plan}");
        }
        assert!((all / 20..all / 3).contains(&overlaps), "{overlaps} of {all}");
        assert!((all / 30..all / 5).contains(&majorities), "{majorities} of {all}");
    }

    #[test]
    fn every_takeover_can_be_carried_out() {
        let scope = Scope::default().over(&Deployment::FAIL_OVER);
        let mut seen = HashSet::new();
        for seed in 0..300 {
            let plan = Plan::draw(seed, &scope);
            for step in &plan.steps {
                assert!(step.fault.can_befall(plan.deployment), "{plan}");
                assert!(step.servers.len() <= 1, "{plan}");
                assert!(step.servers.iter().all(|it| *it < plan.deployment.servers()), "{plan}");
                let hears_none = step.fault == Fault::PartitionPrimary;
                assert!(!hears_none || !step.workers.is_empty(), "{plan}");
                seen.insert((plan.deployment, step.fault));
            }
        }
        let can = |it: &Deployment| Fault::ALL.iter().filter(|fault| fault.can_befall(*it)).count();
        assert_eq!(seen.len(), Deployment::FAIL_OVER.iter().map(can).sum::<usize>());
    }

    #[test]
    fn a_step_is_a_line_and_a_word() {
        let step = Step::new(Fault::Silence, millis(1_250), millis(300))
            .servers(&[0, 2], 3)
            .workers(&[1])
            .how(How::Towards(Direction::ToClient));
        assert_eq!(
            step.to_string(),
            "  1.250s to   1.550s: silence to client majority servers 0,2 workers 1"
        );
        assert_eq!(step.what(), "silence-to-client-majority-servers-0-2-workers-1");
        let step = Step::new(Fault::Collapse, millis(900), Duration::ZERO).workers(&[0]);
        assert_eq!(step.what(), "collapse-workers-0");
    }
}
