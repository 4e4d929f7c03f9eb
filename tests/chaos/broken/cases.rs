//! Which flaw shows under which circumstances.

use std::time::Duration;

use lock_tests::chaos::check::Property::{self, *};
use lock_tests::chaos::{Deployment, Fault, How, Plan, Step};

/// A flaw, the circumstances that reveal it, and the property that it breaks.
pub(super) struct Case {
    pub(super) flaw: &'static str,
    /// The property that it breaks.
    pub(super) breaks: Property,
    /// The circumstances.
    pub(super) scene: Scene,
}

/// Circumstances under which some flaws show, and under which a lock without a flaw is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Scene {
    /// No fault. One server, with high contention.
    Calm,
    /// No fault, and a lock is released after each holder.
    Fair,
    /// No fault, a release after each holder, and one task for each worker, so that locks are often free.
    Quiet,
    /// Sections that last for most of a lease, and some for longer than any waiter waits.
    Slow,
    /// Readers and writers.
    Readers,
    Permits,
    Barrier,
    /// All workers but one stand still for longer than a lease, again and again.
    Pauses,
    /// One worker stands still for longer than a lease, again and again.
    OnePauses,
    /// As `Pauses`, with values that one worker makes and all read.
    Cells,
    /// As `Pauses`, over a quorum.
    QuorumPauses,
    /// No fault. A value beside a mutex that all workers change, read and follow.
    Pages,
    /// As `Pauses`, with such a value.
    PagePauses,
    /// The links of a worker are as slow as leases are short.
    SlowLinks,
    /// The links of a worker are closed for a while.
    CutOff,
    /// All workers but one are killed at once.
    Killed,
    /// As `Killed`, with one task for each worker. Otherwise the tasks of one worker pass the lock on among themselves,
    /// and a polling task of another worker may starve.
    SinglesKilled,
    /// Connections are closed once.
    Disconnected,
    /// Everything is deleted.
    Flushed,
    /// Nothing fails, over five servers.
    Quorum,
    /// Each of three workers does not reach another of three servers.
    Ring,
    /// Single packets arrive late, and each of three workers does not reach another of three servers.
    Stragglers,
    /// Two workers share one server of three, which is set back to what it was before, now and then.
    Stale,
}

pub(super) const CASES: &[Case] = &[
    case("no-owner-check", Exclusion, Scene::Pauses),
    case("no-validity", Exclusion, Scene::SlowLinks),
    case("extension-from-acquire", Exclusion, Scene::Pauses),
    case("check-then-subscribe", Wakeups, Scene::Calm),
    case("no-recheck", Recovery, Scene::CutOff),
    case("silent-head", Wakeups, Scene::Calm),
    case("dead-grant", Wakeups, Scene::Killed),
    case("no-write-back", Tokens, Scene::Ring),
    case("blind-write-back", Tokens, Scene::QuorumPauses),
    case("marker-alone", Exclusion, Scene::Stale),
    case("renew-recreates", Exclusion, Scene::Pauses),
    case("renew-zero", Exclusion, Scene::Slow),
    case("reused-ballot", Exclusion, Scene::Stragglers),
    case("half-majority", Exclusion, Scene::Quorum),
    case("no-deadline-check", Exclusion, Scene::Pauses),
    case("reused-token", Tokens, Scene::Calm),
    case("queue-ignored", Order, Scene::Calm),
    case("no-budget", Overtaking, Scene::Fair),
    case("other-token", Resource, Scene::Calm),
    case("plain-counter", Tokens, Scene::Flushed),
    case("upgrade-gap", Conversions, Scene::Readers),
    case("check-then-take", Permits, Scene::Permits),
    case("stale-try", Tries, Scene::Quiet),
    case("no-ttl", Recovery, Scene::Killed),
    case("leak-connection", Leaks, Scene::Calm),
    case("leak-key", Leaks, Scene::Calm),
    case("endless", Errors, Scene::Slow),
    case("mute-loss", Exclusion, Scene::Pauses),
    case("no-reconnect", Recovery, Scene::Disconnected),
    case("early-barrier", Barriers, Scene::Barrier),
    case("blind-store", Values, Scene::Cells),
    case("blind-commit", Commits, Scene::PagePauses),
    case("early-load", Commits, Scene::Pages),
    case("halved-value", Snapshots, Scene::Pages),
    case("forgotten-version", Commits, Scene::Pages),
    case("deaf-stream", Snapshots, Scene::Pages),
];

pub(super) const fn case(flaw: &'static str, breaks: Property, scene: Scene) -> Case {
    Case { flaw, breaks, scene }
}

/// Each worker lacks another server, from this time on.
fn ring(at: Duration, time: Duration) -> Vec<Step> {
    let lacks = |worker: usize| {
        let lack = Step::new(Fault::Partition, at, time);
        lack.servers(&[(worker + 2) % 3], 3).workers(&[worker])
    };
    [0, 1, 2].map(lacks).into()
}

/// Single packets come seconds after a client has given up waiting for their answers. Each
/// worker has a bare majority, so one vote that is lost is enough for a second holder.
fn stragglers() -> Vec<Step> {
    // Holds are long: it takes this time until each task has had its turns.
    let (at, time) = (ms(2_500), ms(20_000));
    let late = Step::new(Fault::Straggle, at, time).how(How::By(ms(2_000)));
    let late = late.servers(&[0, 1, 2], 3).workers(&[0, 1, 2]);
    ring(at, time).into_iter().chain([late]).collect()
}

/// Two workers have one server in common. It comes back with old data, again and again.
fn stale() -> Vec<Step> {
    let lacks = [(0, 2), (1, 0)].map(|(worker, server)| {
        let lack = Step::new(Fault::Partition, ms(1_500), ms(15_000));
        lack.servers(&[server], 3).workers(&[worker])
    });
    // A holder that a server has forgotten is still there when the server is back, also on a machine that
    // is busy: leases are long beside the time that a start takes.
    let back = [3_000, 6_500, 10_000, 13_500].map(|at| {
        let back = Step::new(Fault::KillStale, ms(at), ms(1_350)).how(How::By(ms(1_300)));
        back.servers(&[1], 3)
    });
    lacks.into_iter().chain(back).collect()
}

/// The only server answers one worker late.
fn slow_link() -> Vec<Step> {
    let slow = Step::new(Fault::Delay, ms(1_500), ms(7_000)).how(How::By(ms(300)));
    vec![slow.servers(&[0], 1).workers(&[0])]
}

/// One worker loses the only server for a moment, again and again.
fn cuts() -> Vec<Step> {
    let cut = |at| Step::new(Fault::Partition, ms(at), ms(500)).servers(&[0], 1).workers(&[0]);
    [2_000, 3_500, 5_000].map(cut).into()
}

fn disconnection() -> Step {
    Step::new(Fault::KillClients, ms(2_000), ms(300)).servers(&[0], 1)
}

impl Scene {
    pub(super) fn plan(self, seed: u64) -> Plan {
        use Fault::*;

        let ttl = ms(600);
        let one = |steps| {
            let plan = Plan::of(Deployment::Redis, steps).with_ttl(ttl);
            Plan { seed, workers: 3, tasks: 5, hold: ms(10), fair: false, ..plan }
        };
        let many = |nodes, steps| Plan { deployment: Deployment::Quorum(nodes), ..one(steps) };
        match self {
            Self::Calm | Self::Readers | Self::Permits | Self::Barrier | Self::Pages => {
                Plan { tasks: 8, wait_limit: ms(6_000), ..one(vec![]) }
            }
            Self::Fair => Plan { fair: true, tasks: 8, hold: ms(20), ..one(vec![]) },
            Self::Quiet => Plan { workers: 2, tasks: 1, hold: ms(80), ..one(vec![]) },
            // Such long holds leave few turns: a queue deals them out to all workers.
            Self::Slow => Plan { hold: ms(500), wait_limit: ms(700), fair: true, ..one(vec![]) },
            Self::OnePauses => Plan { hold: ms(500), ..one(pauses_of_one(5, ttl)) },
            Self::Pauses | Self::Cells => Plan { hold: ms(500), ..one(pauses(5, ttl)) },
            // All tasks want one lock.
            Self::PagePauses => Plan { tasks: 3, hold: ms(150), ..one(pauses(5, ttl)) },
            Self::QuorumPauses => Plan { tasks: 2, ..many(3, pauses(8, ms(100))) },
            Self::SlowLinks => {
                let plan = Plan { workers: 2, tasks: 3, hold: ms(700), ..one(slow_link()) };
                Plan { fair: true, ..plan.with_ttl(ms(400)) }
            }
            Self::CutOff => Plan { hold: ms(100), wait_limit: ms(20_000), ..one(cuts()) },
            Self::Killed => {
                let kill = Step::new(KillWorker, ms(2_000), ms(100)).workers(&[0, 1, 2, 3, 4]);
                let plan = Plan { workers: 6, tasks: 4, hold: ms(100), ..one(vec![kill]) };
                Plan { wait_limit: ms(12_000), ..plan.with_ttl(ms(2_500)) }
            }
            Self::SinglesKilled => Plan { tasks: 1, ..Self::Killed.plan(seed) },
            Self::Disconnected => Plan { wait_limit: ms(12_000), ..one(vec![disconnection()]) },
            Self::Flushed => one(vec![Step::new(Flush, ms(2_500), ms(0)).servers(&[0], 1)]),
            Self::Quorum => many(5, vec![]),
            Self::Ring => many(3, ring(ms(1_500), ms(5_000))),
            Self::Stragglers => Plan { hold: ms(400), ..many(3, stragglers()) },
            Self::Stale => {
                let plan = Plan { workers: 2, tasks: 2, hold: ms(1_000), ..many(3, stale()) };
                plan.with_ttl(ms(1_200))
            }
        }
    }

    /// How many runs it takes about until a flaw shows.
    pub(super) fn runs(self) -> u32 {
        match self {
            Self::Stragglers => 2,
            _ => 1,
        }
    }

    /// What the workers take.
    pub(super) fn primitives(self) -> &'static str {
        match self {
            Self::Readers => "rwlock",
            Self::Permits => "semaphore",
            Self::Barrier => "barrier",
            Self::Cells => "cell",
            Self::Pages | Self::PagePauses => "stored",
            _ => "mutex",
        }
    }
}

/// All but one of three workers stand still for longer than a lease: most of the time, one of them holds each
/// lock. In between, all run for at least that long.
fn pauses(count: u32, between: Duration) -> Vec<Step> {
    let pause = |number: u32| {
        let at = ms(2_500) + (ms(1_300) + between) * number;
        let stopped = [[0, 1], [1, 2], [2, 0]][number as usize % 3];
        Step::new(Fault::StopWorker, at, ms(1_000)).workers(&stopped)
    };
    (0..count).map(pause).collect()
}

/// One of three workers stands still for longer than a lease, one after another.
fn pauses_of_one(count: u32, between: Duration) -> Vec<Step> {
    let pause = |number: u32| {
        let at = ms(2_500) + (ms(1_300) + between) * number;
        Step::new(Fault::StopWorker, at, ms(1_000)).workers(&[number as usize % 3])
    };
    (0..count).map(pause).collect()
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
