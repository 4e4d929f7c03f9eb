//! Downgrades from writing to reading, with no other writer in between.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{
    AcquireOutcome, Backend, Claim, Convert, ConvertBackend, Error, ErrorKind, Released,
};
use lock_sync::{
    Locks, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLockReadGuard, RwLockWriteGuard,
};
use tokio::runtime::Handle;
use tokio::task::yield_now;

use super::{SOON, begin, rwlocks, soon, still_waits};
use crate::layered::{Layer, Layered};
use crate::support::{Pair, eventually};

#[tokio::test]
async fn no_writer_that_waits_here_gets_in_between() {
    let pair = Pair::local();
    let (here, _) = rwlocks(&pair);
    let mut guard = here.write().await.unwrap();
    let mut other = Box::pin(here.write());
    begin(other.as_mut()).await;
    let mut later = Box::pin(here.read());
    begin(later.as_mut()).await;
    *guard = 1;
    let guard = guard.downgrade();
    still_waits(other.as_mut()).await;
    // As with tokio's: a writer is next in line.
    still_waits(later.as_mut()).await;
    assert_eq!(*guard, 1);
    drop(guard);
    *soon(other).await.unwrap() = 2;
    assert_eq!(*soon(later).await.unwrap(), 2);
}

#[tokio::test]
async fn it_waits_for_no_answer_and_leaks_nothing() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    let writing = here.write().await.unwrap();
    let gate = pair.ours.faults().on(Verb::Acquire).hold_requests();
    let reading = writing.downgrade();
    assert!(RwLockReadGuard::lease(&reading).is_valid());
    // Given up before the store has received the downgrade.
    drop(reading);
    drop(gate);
    pair.ours.faults().heal();
    RwLockWriteGuard::release(soon(there.write()).await.unwrap()).await.unwrap();
    pair.all_released().await;
}

#[tokio::test]
async fn while_the_closure_runs_all_others_are_excluded() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let writing = here.write().await.unwrap();
    let mut reading = Box::pin(here.read());
    begin(reading.as_mut()).await;

    let refused = RwLockWriteGuard::try_downgrade_map(writing, |_| {
        assert!(futures::FutureExt::now_or_never(here.try_read()).unwrap().is_err());
        None::<&u32>
    });
    let Err(writing) = refused else { panic!("there is nothing to map to") };
    still_waits(reading.as_mut()).await;
    assert!(there.try_read().await.is_err(), "it writes as before");

    let ran = Cell::new(false);
    let narrowed = RwLockWriteGuard::downgrade_map(writing, |value| {
        ran.set(futures::FutureExt::now_or_never(here.try_read()).unwrap().is_err());
        value
    });
    assert!(ran.get());
    let reading = soon(reading).await.unwrap();
    assert!(std::ptr::eq(&*narrowed, &*reading));
    assert!(soon(there.read()).await.is_ok());
}

#[tokio::test]
async fn owned_guards_do_the_same() {
    let pair = Pair::local();
    let (here, there) = rwlocks(&pair);
    let here = Arc::new(here);
    let write = || Arc::clone(&here).write_owned();

    let reading = soon(write()).await.unwrap().downgrade();
    assert!(soon(there.read()).await.is_ok() && there.try_write().await.is_err());
    OwnedRwLockReadGuard::release(reading).await.unwrap();

    let refused =
        OwnedRwLockWriteGuard::try_downgrade_map(soon(write()).await.unwrap(), |_| None::<&u32>);
    let Err(writing) = refused else { panic!("there is nothing to map to") };
    assert!(there.try_read().await.is_err());
    let Ok(reading) = OwnedRwLockWriteGuard::try_downgrade_map(writing, |value| Some(value)) else {
        panic!("there is something to map to")
    };
    assert!(soon(there.read()).await.is_ok());
    OwnedRwLockReadGuard::release(reading).await.unwrap();

    let reading = OwnedRwLockWriteGuard::downgrade_map(soon(write()).await.unwrap(), |value| value);
    assert!(soon(there.read()).await.is_ok());
    OwnedRwLockReadGuard::release(reading).await.unwrap();
    pair.all_released().await;
}

#[tokio::test]
async fn a_closure_that_panics_leaks_nothing() {
    let pair = Pair::threaded();
    let (here, there) = rwlocks(&pair);
    type Narrowing = fn(RwLockWriteGuard<'_, u32>);
    let panics: [Narrowing; 4] = [
        |guard| drop(RwLockWriteGuard::map(guard, |_| -> &mut u32 { panic!("as planned") })),
        |guard| drop(RwLockWriteGuard::try_map(guard, |_| -> Option<&mut u32> { panic!("too") })),
        |guard| drop(RwLockWriteGuard::downgrade_map(guard, |_| -> &u32 { panic!("and") })),
        |guard| {
            drop(RwLockWriteGuard::try_downgrade_map(guard, |_| -> Option<&u32> { panic!("this") }))
        },
    ];
    for narrow in panics {
        let guard = soon(here.write()).await.unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| narrow(guard))).is_err());
        RwLockWriteGuard::release(soon(there.write()).await.unwrap()).await.unwrap();
    }
    let guard = soon(here.read()).await.unwrap();
    let narrowing = || lock_sync::RwLockReadGuard::map(guard, |_| -> &u32 { panic!("at last") });
    assert!(catch_unwind(AssertUnwindSafe(narrowing)).is_err());
    pair.all_released().await;
    drop(soon(here.write()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_stays_lost() {
    let pair = Pair::local_with(|builder| builder.ttl(SOON));
    let (here, there) = rwlocks(&pair);
    let writing = here.write().await.unwrap();
    pair.store.forget();
    RwLockWriteGuard::lease(&writing).lost().await;
    let reading = writing.downgrade();
    assert!(!RwLockReadGuard::lease(&reading).is_valid());
    assert!(there.try_write().await.is_ok(), "and nothing was asked of the store");
    drop(reading);
    eventually("all is quiet", || pair.store.live_leases() == 0).await;
}

/// A store may renew a lease although it refuses to convert the lease, for example a full etcd.
#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_become_weaker_is_renewed_and_released() {
    let ttl = Duration::from_secs(6);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let (here, there) = rwlocks(&pair);
    let writing = here.write().await.unwrap();
    pair.ours.faults().on(Verb::Acquire).fail(ErrorKind::NotReady);
    let reading = writing.downgrade();
    tokio::time::sleep(ttl * 3).await;
    assert!(RwLockReadGuard::lease(&reading).is_valid());
    let begin = tokio::time::Instant::now();
    RwLockReadGuard::release(reading).await.unwrap();
    assert!(begin.elapsed() < ttl / 10, "it took {:?}", begin.elapsed());
    RwLockWriteGuard::release(soon(there.write()).await.unwrap()).await.unwrap();
}

/// No answer tells the mode of the lease.
#[tokio::test(start_paused = true)]
async fn a_lease_whose_mode_is_unknown_is_released_at_once() {
    for carried_out in [false, true] {
        let pair = Pair::local();
        let (here, there) = rwlocks(&pair);
        let writing = here.write().await.unwrap();
        let (faults, asked) = (pair.ours.faults(), pair.ours.stats().acquires);
        let converting = faults.on(Verb::Acquire);
        if carried_out {
            converting.lose_replies(1);
        } else {
            converting.fail(ErrorKind::NotReady);
        }
        faults.on(Verb::Renew).fail(ErrorKind::NotReady);
        let reading = writing.downgrade();
        while pair.ours.stats().acquires == asked {
            yield_now().await;
        }
        converting.fail(ErrorKind::NotReady);
        assert_eq!(there.try_read().await.is_ok(), carried_out);
        soon(RwLockReadGuard::release(reading)).await.unwrap();
        assert_eq!(pair.ours.stats().releases, 1 + u64::from(carried_out));
        RwLockWriteGuard::release(soon(there.write()).await.unwrap()).await.unwrap();
    }
}

/// A layer that takes a conversion to the store just before the next release. The client has given it up.
#[derive(Default)]
struct Late {
    request: Mutex<Option<Convert>>,
}

#[async_trait]
impl Layer for Late {
    async fn convert(&self, _: &MemoryBackend, request: &Convert) -> Result<AcquireOutcome, Error> {
        self.request.lock().unwrap().get_or_insert_with(|| request.clone());
        Err(Error::new(ErrorKind::NotReady, "no answer in time"))
    }

    async fn release(&self, store: &MemoryBackend, claim: &Claim) -> Result<Released, Error> {
        let late = self.request.lock().unwrap().take();
        if let Some(late) = late {
            drop(store.convert(&late).await?);
        }
        store.release(claim).await
    }
}

/// Meanwhile a renewal has said that the lease has its former mode.
#[tokio::test(start_paused = true)]
async fn a_lease_whose_mode_changes_late_is_released() {
    let pair = Pair::local();
    let store = pair.ours.clone();
    let here = Locks::builder(Layered { store, layer: Late::default() });
    let here = here.on_runtime(Handle::current()).build().unwrap().rwlock("it", 0).unwrap();
    let (_, there) = rwlocks(&pair);
    let reading = here.write().await.unwrap().downgrade();
    while pair.ours.stats().renewals == 0 {
        yield_now().await;
    }
    soon(RwLockReadGuard::release(reading)).await.unwrap();
    RwLockWriteGuard::release(soon(there.write()).await.unwrap()).await.unwrap();
}
