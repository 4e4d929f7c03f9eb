//! A reader-writer lock.

use std::sync::Arc;

use lock_core::Fixed;
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
use crate::worker::shelf::{RWLOCKS, RwLocks};
use crate::worker::task::{Patience, Task};

/// Waits by blocking a thread.
macro_rules! to_block {
    ($task:ident, $lock:ident, $which:ident) => {{
        if $task.random.percent(50) {
            let asking = move || $lock.blocking_read_owned();
            let taken = $task.take_blocking(subject($which, Way::Read), asking).await;
            $task.use_up_anywhere(taken).await;
        } else {
            let asking = move || $lock.blocking_write_owned();
            let taken = $task.take_blocking(subject($which, Way::Write), asking).await;
            $task.use_up_anywhere(taken).await;
        }
    }};
}

macro_rules! to_read {
    ($task:ident, $lock:ident, $which:ident) => {{
        let subject = subject($which, Way::Read);
        if $task.random.percent(50) {
            let taken = ask!($task, &[subject], $lock.[read, read_timeout, try_read]());
            $task.use_up(taken).await;
        } else {
            let taken = ask!(
                $task, &[subject],
                $lock.[read_owned, read_owned_timeout, try_read_owned]()
            );
            $task.use_up_anywhere(taken).await;
        }
    }};
}

/// Writes, and continues with the last argument.
macro_rules! to_write {
    ($task:ident, $lock:ident, $which:ident, $goes_on:ident) => {{
        let subject = subject($which, Way::Write);
        if $task.random.percent(50) {
            let taken = ask!($task, &[subject], $lock.[write, write_timeout, try_write]());
            $goes_on($task, taken).await;
        } else {
            let taken = ask!(
                $task, &[subject],
                $lock.[write_owned, write_owned_timeout, try_write_owned]()
            );
            $goes_on($task, taken).await;
        }
    }};
}

pub(super) async fn act(task: &mut Task) {
    let which = task.random.below(RWLOCKS.len());
    let crew = Arc::clone(&task.crew);
    match &crew.shelf.rwlocks {
        RwLocks::Convertible(locks) => {
            let lock = Arc::clone(&locks[which]);
            match task.random.below(20) {
                0 => to_block!(task, lock, which),
                1..=8 => to_read!(task, lock, which),
                9..=13 => to_write!(task, lock, which, descend),
                _ => upgradable(task, lock, which).await,
            }
        }
        RwLocks::Fixed(locks) => {
            let lock = Arc::clone(&locks[which]);
            match task.random.below(20) {
                0 => to_block!(task, lock, which),
                1..=10 => to_read!(task, lock, which),
                _ => to_write!(task, lock, which, settle),
            }
        }
    }
}

async fn upgradable(task: &mut Task, lock: Arc<RwLock<()>>, which: usize) {
    let subject = subject(which, Way::Upgradable);
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

fn subject(which: usize, way: Way) -> Subject {
    Subject { key: RWLOCKS[which], way }
}

/// Writes, and perhaps reads afterwards.
async fn settle<W: Settles>(task: &mut Task, taken: Option<Holding<W>>) {
    let Some(mut holding) = taken else { return };
    task.visit(&mut holding).await;
    match task.random.below(10) {
        0..=4 => task.part(holding).await,
        _ => down(task, holding, Way::Read, W::down).await,
    }
}

/// Writes, and perhaps reads afterwards, upgradable or not.
async fn descend<W: Writes>(task: &mut Task, taken: Option<Holding<W>>) {
    let Some(mut holding) = taken else { return };
    task.visit(&mut holding).await;
    match task.random.below(10) {
        0..=4 => task.part(holding).await,
        5..=7 => down(task, holding, Way::Read, W::down).await,
        _ => down(task, holding, Way::Upgradable, W::down_to_upgradable).await,
    }
}

/// Reads as an upgradable reader, and upgrades or not.
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

/// Weakens the hold, which cannot fail, and waits for no other task.
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

/// An error that cannot occur.
enum Never {}

impl Denial for Never {
    fn refusal(&self) -> lock_tests::chaos::history::Refusal {
        match *self {}
    }
}

/// A guard that writes.
trait Settles: Grip + Sized {
    type Reader: Grip;

    fn down(self) -> Self::Reader;
}

/// A guard that writes, and whose reader may upgrade again.
trait Writes: Settles {
    type Upgradable: Grip;

    fn down_to_upgradable(self) -> Self::Upgradable;
}

/// A guard that reads, and may upgrade.
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

/// The reason why an upgrade failed.
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

macro_rules! downgrades {
    ($([$($lifetime:lifetime)?] $write:ty, $read:ty;)*) => {$(
        impl$(<$lifetime>)? Settles for $write {
            type Reader = $read;

            fn down(self) -> $read {
                self.downgrade()
            }
        }
    )*};
}

downgrades! {
    ['a] RwLockWriteGuard<'a, ()>, RwLockReadGuard<'a, ()>;
    [] OwnedRwLockWriteGuard<()>, OwnedRwLockReadGuard<()>;
    ['a] RwLockWriteGuard<'a, (), Fixed>, RwLockReadGuard<'a, ()>;
    [] OwnedRwLockWriteGuard<(), Fixed>, OwnedRwLockReadGuard<(), (), Fixed>;
}

macro_rules! conversions {
    ($([$($lifetime:lifetime)?] $write:ty, $upgradable:ty, $read:ty;)*) => {$(
        impl$(<$lifetime>)? Writes for $write {
            type Upgradable = $upgradable;

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
