//! One run: a stage is set, a plan is executed on it, and the events are checked.

mod machine;
mod report;
mod soak;
mod suite;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use report::Report;
pub use soak::{Soaked, soak};
pub use suite::{Suite, Summary};

use super::check::{self, Findings, Left, Property, Terms, Trouble, Verdict, Violation};
use super::history::{self, Event};
use super::stage::{Cast, Remains, Stage};
use super::{Carried, Deployment, Nemesis, Plan};

/// The number of grants before the first fault, for each task.
const TRAFFIC: usize = 2;

/// How long the workers work before their resources are read.
const WARM_UP: Duration = Duration::from_millis(500);

/// How long all may take to come to rest, beyond their longest wait.
const REST: Duration = Duration::from_secs(30);

/// The most connections of a worker to a server: those of its tasks and of the driver, each with one for
/// messages.
const CONNECTIONS: usize = 4;

/// Four for verbs, two for renewals, and one that listens.
const CONNECTIONS_TO_POSTGRES: usize = 7;

/// Executes a plan, and returns the report. Takes the time of the plan and of the recovery.
///
/// # Panics
///
/// If the stage cannot be set, or a fault cannot be healed.
pub fn run(plan: &Plan, cast: &Cast) -> Report {
    let folder = match TempDir::with_prefix("chaos-") {
        Ok(folder) => folder,
        Err(error) => panic!("no folder for the history: {error}"),
    };
    let begin = Instant::now();
    let stage = Stage::set(plan, folder.path(), cast);
    let mut terms = terms(plan);
    if cast.flaw.is_some() && matches!(plan.deployment, Deployment::Quorum(_)) {
        // That lock looks at the fate of the others only now and then.
        terms.prompt = terms.wakeup;
    }
    let mut played = Played::on(&stage, folder.path(), &mut terms);
    played.tally = stage.resource().tally();
    drop(stage);
    let (findings, events) = played.judge(terms, folder.path());
    let kept = (findings.verdict() == Verdict::Broken).then(|| folder.keep());
    Report {
        plan: plan.clone(),
        effective: played.effective(),
        findings,
        events,
        writes: (played.tally.accepted, played.tally.refused),
        took: begin.elapsed(),
        folder: kept,
    }
}

/// The terms of the plan.
fn terms(plan: &Plan) -> Terms {
    let mut terms = Terms::new(plan.deployment, longest_lease(plan));
    terms.max_ttl = plan.max_ttl;
    terms.wait_limit = plan.wait_limit;
    terms.request = request(plan);
    terms.traffic = TRAFFIC * plan.workers * plan.tasks as usize;
    terms.overtakes = plan.fair.then(|| Terms::fair_overtakes(plan.workers, plan.tasks as usize));
    terms
}

/// How long a lease lives in the store at most.
fn longest_lease(plan: &Plan) -> Duration {
    /// How late etcd ends a lease, or notices that a client has gone.
    const LATE: Duration = Duration::from_secs(4);
    /// How long a cluster may have no leader. The next one gives each lease its whole time again.
    const ELECTION: Duration = Duration::from_secs(2);

    match plan.deployment {
        // It counts whole seconds.
        Deployment::Etcd | Deployment::Members => {
            let whole = Duration::from_secs(plan.ttl.as_secs_f64().ceil() as u64);
            let election =
                if plan.deployment == Deployment::Members { ELECTION } else { Duration::ZERO };
            whole + LATE + election
        }
        _ => plan.ttl,
    }
}

/// The longest time until a request is answered or given up.
fn request(plan: &Plan) -> Duration {
    /// The default time limits of a client for a connection, and then for an answer.
    const ANSWER: Duration = Duration::from_secs(2);
    /// The rounds in which a quorum votes, confirms tokens, and takes votes back, as long as the votes stay
    /// the same.
    const ROUNDS: u32 = 4;

    match plan.deployment {
        // A memory backend that hangs answers when it is healed.
        Deployment::Memory => plan.steps.iter().map(|step| step.lasts).max().unwrap_or_default(),
        Deployment::Redis | Deployment::Plain => 2 * ANSWER,
        // The limit of the workers, which counts the time to connect.
        Deployment::Postgres | Deployment::Etcd | Deployment::Members => 2 * ANSWER,
        Deployment::Quorum(_) => ROUNDS * plan.node_timeout,
        // A request that no server ran is sent again for as long as it may take.
        Deployment::Cluster
        | Deployment::Service
        | Deployment::Unguarded
        | Deployment::Confirmed => 3 * ANSWER,
    }
}

/// The observations during the plan, besides the events.
#[derive(Default)]
struct Played {
    carried: Vec<Carried>,
    stood: Vec<(String, lock_core::Instant, lock_core::Instant)>,
    /// The failures that workers report of themselves.
    complaints: Vec<String>,
    left: Left,
    tally: super::resource::Tally,
}

impl Played {
    fn on(stage: &Stage, folder: &Path, terms: &mut Terms) -> Self {
        let played = machine::watched(stage, folder, || Self::through(stage, folder, terms));
        played.unwrap_or_else(|error| panic!("no history in {}: {error}", folder.display()))
    }

    fn through(stage: &Stage, folder: &Path, terms: &mut Terms) -> Self {
        let plan = stage.plan();
        let nemesis = match Nemesis::new(folder) {
            Ok(nemesis) => nemesis,
            Err(error) => panic!("no history in {}: {error}", folder.display()),
        };
        let mut played = Self::default();
        let limit = plan.wait_limit + REST;
        // The resources at rest before any fault.
        thread::sleep(WARM_UP);
        played.complaints.extend(stage.rest(limit).err());
        played.complaints.extend(stage.go(limit).err());
        played.carried = nemesis.run(stage, Instant::now());
        terms.troubles = troubles(plan, &played.carried);
        thread::sleep(terms.settles());
        played.complaints.extend(stage.rest(limit).err());
        // No task holds anything any more, so every lock is free.
        played.complaints.extend(stage.probe(limit).err());
        played.complaints.extend(stage.shut_down(limit).err());
        played.complaints.extend(stage.posts().iter().flat_map(|post| post.complaints()));
        played.left = left(stage, terms);
        let stood = stage.stood().into_iter();
        played.stood = stood.map(|it| (it.client, it.from, it.until)).collect();
        played
    }

    fn judge(&self, mut terms: Terms, folder: &Path) -> (Findings, usize) {
        let events = match history::read(folder) {
            Ok(events) => events,
            Err(error) => panic!("the history cannot be read: {error}"),
        };
        terms.stood_still.clone_from(&self.stood);
        let mut findings = check::check(&events, &self.tally, &terms);
        check::leaks(&events, &self.left).into_iter().for_each(|leak| findings.judge(leak, &terms));
        // Nothing excuses these.
        let complaints = self.complaints.iter().cloned();
        findings.violations.extend(complaints.map(complaint(&events)));
        (findings, events.len())
    }

    /// The steps of the plan that had an effect.
    fn effective(&self) -> Vec<usize> {
        self.carried.iter().filter(|it| it.effective).map(|it| it.step).collect()
    }
}

/// The steps of a plan that had an effect, as faults with times.
fn troubles(plan: &Plan, carried: &[Carried]) -> Vec<Trouble> {
    let trouble = |it: &Carried| {
        let step = &plan.steps[it.step];
        Trouble {
            fault: step.fault,
            extent: step.extent,
            servers: step.servers.clone(),
            workers: step.workers.clone(),
            begin: it.began,
            end: it.healed,
        }
    };
    carried.iter().filter(|it| it.effective).map(trouble).collect()
}

/// The failures that a worker reports of itself, at the end of these events.
fn complaint(events: &[Event]) -> impl Fn(String) -> Violation {
    let end = events.last().map_or(lock_core::Instant::from_nanos(0), |event| event.at);
    move |text| Violation::new(Property::Errors, (end, end), "a worker", text)
}

/// The tasks that the runtime of a client may have at the end and not at first.
///
/// A client opens some connections when it first needs them, from two runtimes: in a cluster those to three primaries,
/// and where replicas confirm those for the markers. Over a quorum, the task that keeps the watches of a node may move to
/// this runtime: if a subscription is not confirmed in time, the next watch starts another task on its own runtime.
fn later_tasks(deployment: Deployment) -> u64 {
    /// One moves bytes, and one watches the time.
    const EACH: u64 = 2;
    match deployment {
        Deployment::Cluster => EACH * 2 * 3,
        Deployment::Confirmed => EACH * 2,
        Deployment::Quorum(nodes) => nodes as u64,
        _ => 0,
    }
}

/// The remains on the servers when no lease can be left.
fn left(stage: &Stage, terms: &Terms) -> Left {
    let each = match stage.plan().deployment {
        Deployment::Postgres => CONNECTIONS_TO_POSTGRES,
        _ => CONNECTIONS,
    };
    let allowed = each * stage.plan().workers;
    let deadline = Instant::now() + terms.ttl + terms.slack;
    loop {
        let remains = stage.remains();
        let keys = remains.iter().flat_map(|it| it.keys.clone()).collect();
        let more = |it: &Remains| it.connections.saturating_sub(allowed);
        let connections = remains.iter().map(more).collect();
        let left = Left { keys, connections, tasks: later_tasks(stage.plan().deployment) };
        if check::leaks(&[], &left).is_empty() || Instant::now() > deadline {
            return left;
        }
        thread::sleep(Duration::from_millis(50));
    }
}
