//! Stories without trouble, in which everything has to go well at once.

use std::sync::Arc;
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Mode, OwnerToken, Released, Renew, Renewal, Ttl,
};
use lock_redlock::Redlock;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::key_of;
use crate::history::Wrong;
use crate::node::SimNode;
use crate::plan::{Cut, Flaw, Plan};
use crate::rng::Rng;
use crate::story::{Ending, join_all, paused};
use crate::world::World;

/// Long enough for everything that is under way, and shorter than any lease of these stories.
pub(crate) const DONE: Duration = Duration::from_secs(10);

/// Clients that come one after another get a free lock with the first request, whether a minority of nodes is
/// dead or not, and leave nothing behind.
pub(crate) fn take_turns(flaw: Flaw, seed: u64, is_logged: bool) -> Ending {
    let mut rng = Rng::new(seed);
    let nodes = rng.pick(&[3, 5]);
    let (clients, noticed) = (3, rng.chance(50));
    let dead: Vec<_> = (0..rng.index(nodes / 2 + 1)).map(|step| (step * 2 + 1) % nodes).collect();
    let cuts = vec![Cut::dead(clients, &dead, noticed)];
    let plan = Plan { flaw, pace: rng.pick(&[0, 2, 20]), cuts, ..Plan::calm(nodes, clients) };
    paused(async {
        let world = World::new(plan, rng.fork(), is_logged);
        let origin = world.now();
        let quorums = join_all(&world).await;
        for turn in 0..6 {
            let quorum = &quorums[rng.index(clients)];
            let claim = Claim::exclusive(key_of(0), OwnerToken::from_bytes([turn; 16]));
            let claim = if rng.chance(30) { claim.in_mode(Mode::Shared) } else { claim };
            let went_well = take(quorum, claim, rng.index(3)).await;
            if let Err(what) = went_well {
                world.wrong(Wrong::Refused, || what);
            }
        }
        sleep(DONE).await;
        look_for_leaks(&world, 0);
        Ending::of(&world, origin)
    })
}

async fn take(quorum: &Redlock<SimNode>, claim: Claim, renewals: usize) -> Result<(), String> {
    let request = Acquire::new(claim.clone(), Ttl::DEFAULT);
    let attempt = quorum.try_acquire(&request).await;
    let Ok(AcquireOutcome::Granted(_)) = attempt else { return Err(format!("{attempt:?}")) };
    for _ in 0..renewals {
        sleep(Duration::from_millis(100)).await;
        let renewal = quorum.renew(&Renew::new(claim.clone(), Ttl::DEFAULT)).await;
        let Renewal::Renewed { .. } = renewal else { return Err(format!("{renewal:?}")) };
    }
    let released = quorum.release(&claim).await;
    let Ok(Released::Freed { .. }) = released else { return Err(format!("{released:?}")) };
    Ok(())
}

/// Of clients that ask for one free lock at once, exactly one is granted. Returns the number of rounds of all clients
/// together.
pub(crate) fn contend(clients: usize, seed: u64, is_logged: bool) -> (Ending, u64) {
    let mut rng = Rng::new(seed);
    let nodes = rng.pick(&[3, 5]);
    let plan = Plan { pace: rng.pick(&[0, 1, 5, 10]), ..Plan::calm(nodes, clients) };
    paused(async {
        let world = World::new(plan, rng.fork(), is_logged);
        let origin = world.now();
        let mut contenders = JoinSet::new();
        for quorum in join_all(&world).await {
            let (start, mut owner) = (rng.millis(0, 3), [0; 16]);
            owner[..8].copy_from_slice(&rng.next().to_le_bytes());
            let claim = Claim::exclusive(key_of(0), OwnerToken::from_bytes(owner));
            contenders.spawn(async move {
                sleep(start).await;
                // A quorum that is dropped repeats no release, so keep it.
                (quorum.try_acquire(&Acquire::new(claim, Ttl::DEFAULT)).await, quorum)
            });
        }
        let answers = contenders.join_all().await;
        let granted = |answer: &&_| matches!(answer, &&(Ok(AcquireOutcome::Granted(_)), _));
        let grants = answers.iter().filter(granted).count();
        if grants != 1 {
            let answers: Vec<_> = answers.iter().map(|(answer, _)| answer).collect();
            world.wrong(Wrong::Refused, || format!("{grants} are granted: {answers:?}"));
        }
        sleep(DONE).await;
        look_for_leaks(&world, nodes);
        let ballots: u64 = (0..clients).map(|client| world.ballots(client)).sum();
        (Ending::of(&world, origin), ballots / nodes as u64)
    })
}

pub(crate) fn look_for_leaks(world: &Arc<World>, most: usize) {
    let left: usize = world.nodes.iter().map(MemoryBackend::live_leases).sum();
    if left > most {
        world.wrong(Wrong::Leak, || format!("{left} leases are left, and not {most}"));
    }
}
