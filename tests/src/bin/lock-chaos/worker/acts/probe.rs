//! Tries every lock, when all are free.

use std::sync::Arc;

use lock_sync::{Owner, RwLock, RwLockUpgradableReadGuard, UpgradeError};
use lock_tests::chaos::history::Way;

use super::peek;
use crate::worker::crew::Crew;
use crate::worker::grip::Grip;
use crate::worker::ledger::Ledger;
use crate::worker::op::{Holding, Subject, Turned};
use crate::worker::options::Primitive;
use crate::worker::polls::Whim;
use crate::worker::refusal::Denial;
use crate::worker::shelf::{
    ELECTION, MUTEXES, REENTRANT, RESIZED, RWLOCKS, RwLocks, SEMAPHORES, SLOT_COUNT, SLOTS, STORED,
};
use crate::worker::task::{Patience, Task};

/// The reader-writer lock that is first read, and then written.
const UPGRADED: usize = 1;

/// Tries everything in the strongest way: a lock that is refused now has a holder that must not exist.
pub(crate) async fn probe(crew: &Arc<Crew>) {
    // A task with a number of its own.
    let mut task = Task::new(crew, crew.options.tasks);
    for &primitive in &crew.options.primitives {
        match primitive {
            Primitive::Mutex => mutexes(&mut task, crew).await,
            Primitive::RwLock => rwlocks(&mut task, crew).await,
            Primitive::Semaphore => semaphores(&mut task, crew).await,
            Primitive::Reentrant => reentrant(&mut task, crew).await,
            Primitive::Slots => slots(&mut task, crew).await,
            Primitive::Election => election(&mut task, crew).await,
            Primitive::Stored => stored(&mut task, crew).await,
            // They consist of mutexes, cannot be held alone, or are new each time.
            Primitive::Together | Primitive::Barrier | Primitive::Cell => {}
        }
    }
}

async fn mutexes(task: &mut Task, crew: &Crew) {
    for (key, mutex) in MUTEXES.into_iter().zip(&crew.shelf.mutexes) {
        let holding = attempt(task, key, Way::Write, mutex.try_lock()).await;
        end(holding).await;
    }
}

async fn rwlocks(task: &mut Task, crew: &Crew) {
    match &crew.shelf.rwlocks {
        RwLocks::Convertible(locks) => {
            for (number, lock) in locks.iter().enumerate() {
                if number == UPGRADED {
                    upgrade(task, RWLOCKS[number], lock).await;
                } else {
                    end(attempt(task, RWLOCKS[number], Way::Write, lock.try_write()).await).await;
                }
            }
        }
        RwLocks::Fixed(locks) => {
            for (key, lock) in RWLOCKS.into_iter().zip(locks) {
                end(attempt(task, key, Way::Write, lock.try_write()).await).await;
            }
        }
    }
}

/// Elsewhere an upgrade may be refused, because other readers or upgrades are always there: not here.
async fn upgrade(task: &mut Task, key: &'static str, lock: &RwLock<()>) {
    let holding = attempt(task, key, Way::Upgradable, lock.try_upgradable_read()).await;
    let Some(holding) = holding else { return };
    let none = task.limit(Patience::None);
    let turned = holding
        .turn((Way::Write, none), Whim::Steady, |guard: RwLockUpgradableReadGuard<'_, ()>| async {
            guard.try_upgrade().await.map_err(UpgradeError::into_parts)
        })
        .await;
    match turned {
        Turned::Yes(holding) => end(Some(holding)).await,
        Turned::No(holding) => end(Some(holding)).await,
        Turned::Over => {}
    }
}

async fn semaphores(task: &mut Task, crew: &Crew) {
    let Some(counting) = &crew.shelf.counting else { return };
    for (which, semaphore) in counting.semaphores.iter().enumerate() {
        let (key, of) = SEMAPHORES[which];
        let count = if which == RESIZED { known(crew) } else { Some(of) };
        let Some(count) = count else { continue };
        let permits = semaphore.try_acquire_many(count);
        let holding = attempt(task, key, Way::Permits(count), permits).await;
        end(holding).await;
    }
}

/// The number of permits that were not forgotten, if it is known.
fn known(crew: &Crew) -> Option<u32> {
    let page = Ledger::of(&crew.options.folder).open()?;
    (!page.sealed).then(|| page.limit.saturating_sub(page.forgotten))
}

async fn reentrant(task: &mut Task, crew: &Crew) {
    let mut owner = Owner::new().unwrap_or_else(|error| panic!("there is no owner: {error}"));
    let (way, lock) = (Way::Owner(crew.owner()), &crew.shelf.reentrant);
    let holding = attempt(task, REENTRANT, way, lock.try_lock_as(&mut owner)).await;
    end(holding).await;
}

/// Each of them while the previous ones are held.
async fn slots(task: &mut Task, crew: &Crew) {
    let mut held = Vec::new();
    for _ in 0..SLOT_COUNT {
        let slot = crew.shelf.slots.try_acquire();
        held.extend(attempt(task, SLOTS, Way::Permits(1), slot).await);
    }
    for holding in held {
        end(Some(holding)).await;
    }
}

async fn election(task: &mut Task, crew: &Crew) {
    let campaign = crew.shelf.election.try_campaign(&crew.name);
    let holding = attempt(task, ELECTION, Way::Write, campaign).await;
    end(holding).await;
}

/// The last value is there, with the lock and without it.
async fn stored(task: &mut Task, crew: &Crew) {
    peek(task, Whim::Steady).await;
    if let Some(mut holding) = attempt(task, STORED, Way::Write, crew.shelf.stored.try_lock()).await
    {
        holding.finds();
        end(Some(holding)).await;
    }
}

async fn attempt<G: Grip, E: Denial>(
    task: &mut Task,
    key: &'static str,
    way: Way,
    ask: impl Future<Output = Result<G, E>>,
) -> Option<Holding<G>> {
    task.take_with(Whim::Steady, &[Subject { key, way }], Patience::None, ask).await
}

async fn end<G: Grip>(holding: Option<Holding<G>>) {
    if let Some(holding) = holding {
        holding.release(Whim::Steady).await;
    }
}
