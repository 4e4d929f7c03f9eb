//! One story, from the first request to the last lease.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Instant, Mode, OwnerToken};
use lock_redlock::{Redlock, Voting};
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;

use crate::client::{Client, key_of};
use crate::history::{Lease, Wrong};
use crate::node::SimNode;
use crate::plan::{Faults, Flaw, Plan, SLOWEST};
use crate::quiet::{DONE, look_for_leaks};
use crate::rng::Rng;
use crate::world::{World, name_of, until};

/// When the last of the planned faults is over.
const QUIET: Duration = Duration::from_millis(6000);

/// What is over and above what the rules say: messages, timers that round up, pauses.
const SLACK: Duration = Duration::from_millis(300);

/// How a story ended.
pub(crate) struct Ending {
    pub(crate) wrongs: Vec<(Wrong, String)>,
    pub(crate) leases: Vec<Lease>,
    /// The first instant.
    pub(crate) origin: Instant,
    /// Everything that happened, if it was to be told.
    pub(crate) story: String,
}

/// Runs one story to its end, in no time.
pub(crate) fn tell(faults: Faults, flaw: Flaw, seed: u64, is_logged: bool) -> Ending {
    let mut rng = Rng::new(seed);
    let plan = Plan::new(faults, flaw, &mut rng);
    paused(async {
        let world = World::new(plan, rng.fork(), is_logged);
        let origin = world.now();
        play(&world).await;
        Ending::of(&world, origin)
    })
}

impl Ending {
    pub(crate) fn of(world: &World, origin: Instant) -> Self {
        let (leases, wrongs) = world.history(|history| {
            history.check();
            (std::mem::take(&mut history.leases), std::mem::take(&mut history.wrongs))
        });
        Self { wrongs, leases, origin, story: format!("{:?}\n{}", world.plan, world.story()) }
    }
}

/// Runs something on a runtime of its own, where time passes only when nothing else can.
pub(crate) fn paused<T>(what: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(what)
}

/// A client of the quorum.
pub(crate) async fn join(world: &Arc<World>, number: usize) -> Redlock<SimNode> {
    let plan = &world.plan;
    join_as(world, number, plan.members.get(number).cloned().unwrap_or_else(|| plan.latest()))
        .await
        .unwrap()
}

/// A client of the quorum that these nodes make.
pub(crate) async fn join_as(
    world: &Arc<World>,
    number: usize,
    members: Vec<usize>,
) -> lock_core::Result<Redlock<SimNode>> {
    let plan = &world.plan;
    let mut builder = Redlock::builder();
    for node in members {
        builder = builder.node(name_of(node), SimNode::new(world, number, node));
    }
    builder = builder.max_ttl(plan.max_ttl).allow_any_number().on_runtime(Handle::current());
    if let Some(timeout) = plan.node_timeout {
        builder = builder.node_timeout(timeout);
    }
    if plan.faults.unguarded {
        builder = builder.without_quarantine();
    }
    builder.build().await
}

/// Replaces the first node by the last, and asks again until that is done, or until this time.
async fn replace(world: &Arc<World>, limit: Instant) {
    let (last, number) = (world.plan.nodes - 1, world.plan.clients());
    while world.now() < limit {
        if let Ok(operator) = join_as(world, number, world.plan.latest()).await {
            let replaced = operator.replace(&name_of(0), &name_of(last)).await;
            world.log(|| format!("the operator is answered {replaced:?}"));
            if replaced.is_ok() {
                return;
            }
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// All the clients of a new deployment. Trouble begins.
pub(crate) async fn join_all(world: &Arc<World>) -> Vec<Redlock<SimNode>> {
    let operator = join_as(world, world.plan.clients(), world.plan.earliest()).await.unwrap();
    operator.init().await.unwrap();
    let mut quorums = Vec::new();
    for number in 0..world.plan.clients() {
        quorums.push(join(world, number).await);
    }
    world.begin_trouble();
    quorums
}

async fn play(world: &Arc<World>) {
    let mut quorums = join_all(world).await;
    let quiet = world.now() + QUIET;
    let nodes = tokio::spawn(Arc::clone(world).restart_nodes());
    let mut clients = Vec::new();
    for (number, quorum) in quorums.iter().enumerate() {
        for _ in 0..world.plan.tasks {
            let (world, quorum, rng) = (Arc::clone(world), quorum.clone(), world.rng());
            clients.push(tokio::spawn(Client { world, number, quorum, rng }.run()));
        }
    }
    if world.plan.faults.passing {
        quorums.clear();
    }
    if world.plan.faults.replacing {
        sleep(world.rng().millis(0, 2500)).await;
        replace(world, quiet).await;
    }
    for client in clients {
        client.await.unwrap();
    }
    nodes.await.unwrap();
    until(quiet).await;
    world.end_trouble();
    world.log(|| "all is quiet".into());
    if world.plan.faults.replacing {
        // Some nodes may not have answered before.
        replace(world, world.now() + QUIET).await;
    }
    recover(world, &quorums).await;
}

/// What must come about by itself once there are no more faults.
async fn recover(world: &Arc<World>, quorums: &[Redlock<SimNode>]) {
    let plan = &world.plan;
    let quiet = world.now();
    if plan.faults.lasting {
        sleep(DONE).await;
        look_for_leaks(world, 0);
    }
    let mut newcomer = join(world, plan.clients()).await;
    for key in 0..plan.keys {
        acquire_in_time(world, &mut newcomer, key, quiet).await;
    }
    until(quiet + SLOWEST + out_for(plan) + SLACK).await;
    for (number, quorum) in quorums.iter().enumerate() {
        let has_former = plan.faults.replacing && plan.members[number] != plan.latest();
        if !world.has_crashed(number) && !plan.faults.unguarded && !has_former {
            let status = quorum.status().await;
            if let Some(out) = status.iter().find(|node| node.voting != Voting::Yes) {
                world.wrong(Wrong::StaysOut, || format!("{out:?}, as client {number} sees it"));
            }
        }
    }
    sleep(plan.max_ttl.duration()).await;
    look_for_leaks(world, 0);
}

/// For how long nodes that have restarted may be quarantined after that.
fn out_for(plan: &Plan) -> Duration {
    match plan.restarts.is_empty() && !plan.faults.replacing {
        true => Duration::ZERO,
        // The clock of a node ends it, and may be set back to the first look.
        false if plan.faults.passing => 3 * plan.max_ttl.duration(),
        // A client watches for the time of a lease, and looks once a second.
        false => plan.quarantine() + Duration::from_secs(1),
    }
}

async fn acquire_in_time(
    world: &Arc<World>,
    quorum: &mut Redlock<SimNode>,
    key: usize,
    quiet: Instant,
) {
    let plan = &world.plan;
    // A lease may have begun with the last request that was under way.
    let limit = SLOWEST + plan.max_ttl.duration() + out_for(plan) + SLACK;
    let owner = OwnerToken::from_bytes([key as u8; 16]);
    let request = Acquire::new(Claim::exclusive(key_of(key), owner), plan.max_ttl);
    let asked = world.now();
    loop {
        let attempt = quorum.try_acquire(&request).await;
        world.log(|| format!("the newcomer is answered {attempt:?}"));
        let now = world.now();
        if let Ok(AcquireOutcome::Granted(grant)) = attempt {
            let lease = Lease {
                client: plan.clients(),
                key,
                mode: Mode::Exclusive,
                tokens: (grant.tokens.first(), grant.tokens.last()),
                falls: false,
                asked,
                granted: now,
                until: now,
            };
            world.history(|history| history.leases.push(lease));
            break;
        }
        if now.saturating_duration_since(quiet) > limit {
            return world.wrong(Wrong::Stuck, || format!("key {key} after {limit:?}: {attempt:?}"));
        }
        sleep(Duration::from_millis(50)).await;
        if plan.faults.passing {
            *quorum = join(world, plan.clients()).await;
        }
    }
    if let Err(error) = quorum.release(&request.claim).await {
        world.wrong(Wrong::Stuck, || format!("key {key} cannot be released: {error}"));
    }
}
