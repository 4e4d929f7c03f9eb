//! A reader-writer lock.

use std::sync::Arc;

use lock_sync::{
    OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, UpgradeError,
};
use lock_tests::chaos::history::Way;

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
    let lock = Arc::clone(&task.crew.shelf.rwlocks[which]);
    let subject = |way| Subject { key: RWLOCKS[which], way };
    if task.random.percent(50) {
        let ask = move || lock.blocking_read_owned();
        if let Some(mut holding) = task.take_blocking(subject(Way::Read), ask).await {
            task.visit(&mut holding).await;
            task.part_anywhere(holding).await;
        }
    } else {
        let ask = move || lock.blocking_write_owned();
        if let Some(mut holding) = task.take_blocking(subject(Way::Write), ask).await {
            task.visit(&mut holding).await;
            task.part_anywhere(holding).await;
        }
    }
}

/// Takes a lock in one of three ways, for a guard that borrows the lock or one that owns it. `$then` is
/// what comes afterwards.
macro_rules! take {
    (
        $task:ident, $which:ident, $way:expr,
        [$ask:ident, $ask_timeout:ident, $try:ident],
        [$ask_owned:ident, $ask_owned_timeout:ident, $try_owned:ident],
        $holding:ident => $then:expr, $owned:ident => $then_owned:expr $(,)?
    ) => {
        let lock = Arc::clone(&$task.crew.shelf.rwlocks[$which]);
        let subjects = [Subject { key: RWLOCKS[$which], way: $way }];
        let patience = $task.patience();
        let tries = patience.tries();
        if $task.random.percent(50) {
            let taken = match patience {
                Patience::Usual => $task.take(&subjects, tries, lock.$ask()).await,
                Patience::Within(limit) => {
                    $task.take(&subjects, tries, lock.$ask_timeout(limit)).await
                }
                Patience::None => $task.take(&subjects, tries, lock.$try()).await,
            };
            if let Some($holding) = taken {
                $then
            }
        } else {
            let taken = match patience {
                Patience::Usual => $task.take(&subjects, tries, lock.$ask_owned()).await,
                Patience::Within(limit) => {
                    $task.take(&subjects, tries, lock.$ask_owned_timeout(limit)).await
                }
                Patience::None => $task.take(&subjects, tries, lock.$try_owned()).await,
            };
            if let Some($owned) = taken {
                $then_owned
            }
        }
    };
}

async fn read(task: &mut Task, which: usize) {
    take!(
        task, which, Way::Read,
        [read, read_timeout, try_read],
        [read_owned, read_owned_timeout, try_read_owned],
        holding => {
            let mut holding = holding;
            task.visit(&mut holding).await;
            task.part(holding).await;
        },
        holding => {
            let mut holding = holding;
            task.visit(&mut holding).await;
            task.part_anywhere(holding).await;
        },
    );
}

async fn write(task: &mut Task, which: usize) {
    take!(
        task, which, Way::Write,
        [write, write_timeout, try_write],
        [write_owned, write_owned_timeout, try_write_owned],
        holding => descend(task, holding).await,
        holding => descend(task, holding).await,
    );
}

async fn upgradable(task: &mut Task, which: usize) {
    take!(
        task, which, Way::Upgradable,
        [upgradable_read, upgradable_read_timeout, try_upgradable_read],
        [upgradable_read_owned, upgradable_read_owned_timeout, try_upgradable_read_owned],
        holding => climb(task, holding).await,
        holding => climb(task, holding).await,
    );
}

/// Writes, and perhaps reads afterwards.
async fn descend<W: Writes>(task: &mut Task, mut holding: Holding<W>) {
    task.visit(&mut holding).await;
    match task.random.below(10) {
        0..=4 => task.part(holding).await,
        5..=7 => down(task, holding, Way::Read, W::down).await,
        _ => down(task, holding, Way::Upgradable, W::down_to_upgradable).await,
    }
}

/// Reads with the prospect of writing, and does, or does not.
async fn climb<U: Climbs>(task: &mut Task, mut holding: Holding<U>) {
    if task.random.percent(80) {
        task.visit(&mut holding).await;
    }
    if task.random.percent(20) {
        return down(task, holding, Way::Read, U::down).await;
    }
    let (patience, whim) = (task.patience(), task.whim());
    match holding.turn(Way::Write, whim, |guard| guard.up(patience)).await {
        Turned::Yes(holding) => descend(task, holding).await,
        Turned::No(mut holding) => {
            task.visit(&mut holding).await;
            task.part(holding).await;
        }
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
    match holding.turn(way, Whim::Steady, convert).await {
        Turned::Yes(mut holding) => {
            task.visit(&mut holding).await;
            task.part(holding).await;
        }
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
