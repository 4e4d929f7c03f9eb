//! A reader-writer lock.

use std::sync::Arc;

use lock_sync::{
    OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, RwLock,
    RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard, UpgradeError,
};
use lock_tests::chaos::history::Way;

use super::ask;
use crate::worker::grip::Grip;
use crate::worker::op::{Holding, Subject, Turned};
use crate::worker::polls::Whim;
use crate::worker::refusal::Denial;
use crate::worker::shelf::RWLOCKS;
use crate::worker::task::{Patience, Task};

pub(super) async fn act(task: &mut Task) {
    let which = task.random.below(RWLOCKS.len());
    match task.random.below(20) {
        0 => block(task, which).await,
        1..=8 => read(task, which).await,
        9..=13 => write(task, which).await,
        _ => upgradable(task, which).await,
    }
}

async fn block(task: &mut Task, which: usize) {
    if task.random.percent(50) {
        let (lock, subject) = subject(task, which, Way::Read);
        let taken = task.take_blocking(subject, move || lock.blocking_read_owned()).await;
        task.use_up_anywhere(taken).await;
    } else {
        let (lock, subject) = subject(task, which, Way::Write);
        let taken = task.take_blocking(subject, move || lock.blocking_write_owned()).await;
        task.use_up_anywhere(taken).await;
    }
}

async fn read(task: &mut Task, which: usize) {
    let (lock, subject) = subject(task, which, Way::Read);
    if task.random.percent(50) {
        let taken = ask!(task, &[subject], lock.[read, read_timeout, try_read]());
        task.use_up(taken).await;
    } else {
        let taken = ask!(
            task, &[subject],
            lock.[read_owned, read_owned_timeout, try_read_owned]()
        );
        task.use_up_anywhere(taken).await;
    }
}

async fn write(task: &mut Task, which: usize) {
    let (lock, subject) = subject(task, which, Way::Write);
    if task.random.percent(50) {
        let taken = ask!(task, &[subject], lock.[write, write_timeout, try_write]());
        descend(task, taken).await;
    } else {
        let taken = ask!(
            task, &[subject],
            lock.[write_owned, write_owned_timeout, try_write_owned]()
        );
        descend(task, taken).await;
    }
}

async fn upgradable(task: &mut Task, which: usize) {
    let (lock, subject) = subject(task, which, Way::Upgradable);
    if task.random.percent(50) {
        let taken = ask!(
            task, &[subject],
            lock.[upgradable_read, upgradable_read_timeout, try_upgradable_read]()
        );
        climb(task, taken).await;
    } else {
        let taken = ask!(
            task, &[subject],
            lock.[
                upgradable_read_owned,
                upgradable_read_owned_timeout,
                try_upgradable_read_owned
            ]()
        );
        climb(task, taken).await;
    }
}

fn subject(task: &Task, which: usize, way: Way) -> (Arc<RwLock<()>>, Subject) {
    (Arc::clone(&task.crew.shelf.rwlocks[which]), Subject { key: RWLOCKS[which], way })
}

/// Writes, and perhaps reads afterwards.
async fn descend<W: Writes>(task: &mut Task, taken: Option<Holding<W>>) {
    let Some(mut holding) = taken else { return };
    task.visit(&mut holding).await;
    match task.random.below(10) {
        0..=4 => task.part(holding).await,
        5..=7 => down(task, holding, Way::Read, W::down).await,
        _ => down(task, holding, Way::Upgradable, W::down_to_upgradable).await,
    }
}

/// Reads with the prospect of writing, and does, or does not.
async fn climb<U: Climbs>(task: &mut Task, taken: Option<Holding<U>>) {
    let Some(mut holding) = taken else { return };
    if task.random.percent(80) {
        task.visit(&mut holding).await;
    }
    if task.random.percent(20) {
        return down(task, holding, Way::Read, U::down).await;
    }
    let (patience, whim) = (task.patience(), task.whim());
    let limit = task.limit(patience);
    match holding.turn((Way::Write, limit), whim, |guard| guard.up(patience)).await {
        Turned::Yes(holding) => descend(task, Some(holding)).await,
        Turned::No(holding) => task.use_up(Some(holding)).await,
        Turned::Over => {}
    }
}

/// Holds less from now on, which cannot fail, and needs nobody's leave.
async fn down<G: Grip, H: Grip>(
    task: &mut Task,
    holding: Holding<G>,
    way: Way,
    convert: impl FnOnce(G) -> H,
) {
    let convert = |guard| std::future::ready(Ok::<_, (G, Never)>(convert(guard)));
    let none = task.limit(Patience::None);
    match holding.turn((way, none), Whim::Steady, convert).await {
        Turned::Yes(holding) => task.use_up(Some(holding)).await,
        Turned::No(_) | Turned::Over => {}
    }
}

/// An error that there is none of.
enum Never {}

impl Denial for Never {
    fn refusal(&self) -> lock_tests::chaos::history::Refusal {
        match *self {}
    }
}

/// A guard that writes.
trait Writes: Grip + Sized {
    type Reader: Grip;
    type Upgradable: Grip;

    fn down(self) -> Self::Reader;

    fn down_to_upgradable(self) -> Self::Upgradable;
}

/// A guard that reads, and may write.
trait Climbs: Grip + Sized {
    type Writer: Writes;
    type Reader: Grip;
    type Error: Denial;

    fn up(
        self,
        patience: Patience,
    ) -> impl Future<Output = Result<Self::Writer, (Self, Self::Error)>> + Send;

    fn down(self) -> Self::Reader;
}

/// Why an upgrade did not come to pass.
enum NotUp {
    Waited(lock_sync::LockError),
    Tried(lock_sync::TryLockError),
}

impl Denial for NotUp {
    fn refusal(&self) -> lock_tests::chaos::history::Refusal {
        match self {
            Self::Waited(error) => error.refusal(),
            Self::Tried(error) => error.refusal(),
        }
    }
}

macro_rules! conversions {
    ($([$($lifetime:lifetime)?] $write:ty, $upgradable:ty, $read:ty;)*) => {$(
        impl$(<$lifetime>)? Writes for $write {
            type Reader = $read;
            type Upgradable = $upgradable;

            fn down(self) -> $read {
                self.downgrade()
            }

            fn down_to_upgradable(self) -> $upgradable {
                self.downgrade_to_upgradable()
            }
        }

        impl$(<$lifetime>)? Climbs for $upgradable {
            type Writer = $write;
            type Reader = $read;
            type Error = NotUp;

            async fn up(self, patience: Patience) -> Result<$write, (Self, NotUp)> {
                let waited = match patience {
                    Patience::Usual => self.upgrade().await,
                    Patience::Within(limit) => self.upgrade_timeout(limit).await,
                    Patience::None => {
                        return self.try_upgrade().await.map_err(|error| {
                            let (guard, error) = UpgradeError::into_parts(error);
                            (guard, NotUp::Tried(error))
                        });
                    }
                };
                waited.map_err(|error| {
                    let (guard, error) = UpgradeError::into_parts(error);
                    (guard, NotUp::Waited(error))
                })
            }

            fn down(self) -> $read {
                self.downgrade()
            }
        }
    )*};
}

conversions! {
    ['a] RwLockWriteGuard<'a, ()>, RwLockUpgradableReadGuard<'a, ()>, RwLockReadGuard<'a, ()>;
    [] OwnedRwLockWriteGuard<()>, OwnedRwLockUpgradableReadGuard<()>, OwnedRwLockReadGuard<()>;
}
