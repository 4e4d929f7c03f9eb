//! What observers hear of acquisitions, holds and leases.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use lock_core::Mode;
use lock_core::memory::MemoryBackend;
use lock_core::observer::{
    AcquireBegun, AcquireEnd, AcquireEnded, AcquireWaits, AcquisitionId, DriverStalled, HandedOver,
    HoldBegun, HoldEnded, HoldId, LeaseRenewed, Loss, Observer,
};
use lock_sync::{Locks, Mutex as Lock, MutexGuard as Guard, OwnedMutexGuard};
use tokio::runtime::Handle;

use crate::support::{Pair, poll_once};

/// Writes everything down, and checks that the pairs are pairs.
#[derive(Default)]
pub(crate) struct Diary(Mutex<Page>);

#[derive(Default)]
struct Page {
    said: Vec<String>,
    acquiring: BTreeMap<AcquisitionId, Mode>,
    holding: BTreeMap<HoldId, (Option<AcquisitionId>, Mode)>,
    /// The holds to which acquisitions have led, and which have not begun.
    granted: Vec<HoldId>,
}

impl Diary {
    fn page(&self) -> MutexGuard<'_, Page> {
        self.0.lock().unwrap()
    }

    fn say(&self, what: String) {
        self.page().said.push(what);
    }

    /// What has been said since the last call.
    pub(crate) fn said(&self) -> Vec<String> {
        std::mem::take(&mut self.page().said)
    }

    /// How many callers wait, and how many guards there are.
    pub(crate) fn open(&self) -> (usize, usize) {
        let page = self.page();
        (page.acquiring.len(), page.holding.len())
    }
}

impl Observer for Diary {
    fn acquire_begun(&self, event: &AcquireBegun<'_>) {
        assert!(self.page().acquiring.insert(event.id, event.mode).is_none(), "{event:?}");
        self.say("begun".into());
    }

    fn acquire_waits(&self, event: &AcquireWaits<'_>) {
        assert!(self.page().acquiring.contains_key(&event.id), "{event:?}");
        self.say("waits".into());
    }

    fn acquire_ended(&self, event: &AcquireEnded<'_>) {
        let mut page = self.page();
        assert_eq!(page.acquiring.remove(&event.id), Some(event.mode), "{event:?}");
        let said = match event.outcome {
            AcquireEnd::Granted { hold, entered } => {
                page.granted.push(hold);
                format!("granted {}", entered.name())
            }
            outcome => outcome.name().to_owned(),
        };
        page.said.push(said);
    }

    fn hold_begun(&self, event: &HoldBegun<'_>) {
        let mut page = self.page();
        let known = page.granted.iter().position(|hold| *hold == event.id);
        assert_eq!(known.is_some(), event.acquisition.is_some(), "{event:?}");
        known.map(|known| page.granted.remove(known));
        let hold = (event.acquisition, event.mode);
        assert_eq!(page.holding.insert(event.id, hold), None, "{event:?}");
        page.said.push("holds".into());
    }

    fn hold_ended(&self, event: &HoldEnded<'_>) {
        let mut page = self.page();
        let hold = Some((event.acquisition, event.mode));
        assert_eq!(page.holding.remove(&event.id), hold, "{event:?}");
        page.said.push(format!("hold {}", event.how.name()));
    }

    fn lease_renewed(&self, event: &LeaseRenewed<'_>) {
        self.say(event.outcome.name().into());
    }

    fn lease_lost(&self, event: &Loss<'_>) {
        let page = self.page();
        assert!(event.holds.iter().all(|hold| page.holding.contains_key(hold)), "{event:?}");
        drop(page);
        self.say(format!("lost {}", event.reason.name()));
    }

    fn handed_over(&self, _: &HandedOver<'_>) {
        self.say("given".into());
    }
}

/// Two clients, the first of which has this observer.
pub(crate) fn watched(diary: &Arc<impl Observer + 'static>) -> (Pair, Arc<Lock<u32>>) {
    let store = MemoryBackend::new();
    let (ours, theirs) = (store.client(), store.client());
    let builder = |backend| Locks::builder(backend).on_runtime(Handle::current());
    let here = builder(ours.clone()).observer(diary.clone()).build().unwrap();
    let there = builder(theirs).build().unwrap();
    let lock = Arc::new(here.mutex("it", 0).unwrap());
    (Pair { store, ours, here, there }, lock)
}

#[tokio::test(start_paused = true)]
async fn the_way_to_the_lock_is_named() {
    let diary = Arc::new(Diary::default());
    let (pair, lock) = watched(&diary);
    let first = lock.lock().await.unwrap();
    assert_eq!(diary.said(), ["begun", "granted free", "holds"]);
    let mut second = pin!(lock.lock());
    assert!(poll_once(second.as_mut()).await.is_pending());
    assert_eq!(diary.said(), ["begun", "waits"]);
    assert_eq!(diary.open(), (1, 1));
    drop(first);
    assert_eq!(diary.said(), ["hold dropped"]);
    let second = second.await.unwrap();
    assert_eq!(diary.said(), ["granted handoff", "holds"]);
    Guard::release(second).await.unwrap();
    assert_eq!(diary.said(), ["hold released"]);

    let cached = pair.here.mutex("cached", 0).unwrap().with_cache(Duration::from_secs(60));
    drop(cached.lock().await.unwrap());
    drop(cached.lock().await.unwrap());
    let once = ["begun", "granted free", "holds", "hold dropped"];
    let again = ["begun", "granted cached", "holds", "hold dropped"];
    assert_eq!(diary.said(), [once, again].concat());
    assert_eq!(diary.open(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_grant_of_the_store_comes_by_itself() {
    let diary = Arc::new(Diary::default());
    let (pair, here) = watched(&diary);
    let there = Arc::new(pair.there.mutex("it", 0).unwrap());
    let theirs = there.lock().await.unwrap();
    let waiting = tokio::spawn(here.clone().lock_owned());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(diary.said(), ["begun", "waits"]);
    Guard::release(theirs).await.unwrap();
    let ours = waiting.await.unwrap().unwrap();
    assert_eq!(diary.said(), ["granted granted", "holds"]);
    let waiting = tokio::spawn({
        let there = there.clone();
        async move { drop(there.lock().await.unwrap()) }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    diary.said();
    OwnedMutexGuard::release(ours).await.unwrap();
    waiting.await.unwrap();
    assert_eq!(diary.said(), ["hold released", "given"]);
}

#[tokio::test(start_paused = true)]
async fn every_end_of_a_wait_is_reported_once() {
    let diary = Arc::new(Diary::default());
    let (pair, lock) = watched(&diary);
    let there = pair.there.mutex("it", 0).unwrap();
    let guard = there.lock().await.unwrap();
    assert!(lock.try_lock().await.is_err());
    assert_eq!(diary.said(), ["begun", "busy"]);
    assert!(lock.lock_timeout(Duration::from_secs(1)).await.is_err());
    assert_eq!(diary.said(), ["begun", "waits", "timeout"]);
    // Never polled: the caller never wanted the lock.
    drop(lock.lock());
    assert_eq!(diary.said(), [""; 0]);
    let mut dropped = Box::pin(lock.lock());
    assert!(poll_once(dropped.as_mut()).await.is_pending());
    drop(dropped);
    let said = diary.said();
    assert_eq!((said.first(), said.last()), (Some(&"begun".into()), Some(&"abandoned".into())));
    pair.ours.faults().cut();
    let impatient = pair.here.mutex("other", 0).unwrap().with_outage_limit(Duration::ZERO);
    assert!(impatient.lock().await.is_err());
    assert_eq!(diary.said().last(), Some(&"failed".into()));
    pair.ours.faults().heal();
    let mut waiting = Box::pin(lock.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.here.shutdown().await;
    assert!(waiting.await.is_err());
    assert_eq!(diary.said().last(), Some(&"closed".into()));
    assert_eq!(diary.open(), (0, 0));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_in_a_panic_is_abandoned() {
    let diary = Arc::new(Diary::default());
    let (_pair, lock) = watched(&diary);
    let guard = lock.lock().await.unwrap();
    let mut waiting = Box::pin(lock.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    diary.said();
    let ends = AssertUnwindSafe(move || {
        let _waiting = waiting;
        panic!("a caller");
    });
    assert!(catch_unwind(ends).is_err());
    assert_eq!(diary.said(), ["abandoned"]);
    drop(guard);
    assert_eq!(diary.open(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_names_its_holds_and_each_hold_ends_with_its_guard() {
    let diary = Arc::new(Diary::default());
    let (pair, lock) = watched(&diary);
    let guard = lock.lock().await.unwrap();
    diary.said();
    pair.store.forget();
    let lost = Guard::lease(&guard).lost().await;
    assert_eq!(lost.reason(), lock_sync::LossReason::Revoked);
    tokio::task::yield_now().await;
    assert_eq!(diary.said(), ["lost revoked", "lost"], "the lease, and then the renewal");
    assert_eq!(diary.open(), (0, 1));
    drop(guard);
    assert_eq!(diary.said(), ["hold lost"]);
    assert_eq!(diary.open(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn renewals_are_reported_with_their_outcome() {
    let diary = Arc::new(Diary::default());
    let (pair, lock) = watched(&diary);
    let guard = lock.lock().await.unwrap();
    diary.said();
    tokio::time::sleep(Duration::from_secs(11)).await;
    // The watch that begins may ask for one more.
    let said = diary.said();
    assert!(!said.is_empty() && said.iter().all(|it| it == "renewed"), "{said:?}");
    pair.ours.faults().cut();
    tokio::time::sleep(Duration::from_secs(40)).await;
    let said = diary.said();
    assert_eq!(said.first(), Some(&"failed".into()));
    assert_eq!(said.iter().filter(|it| *it == "lost expired").count(), 1, "{said:?}");
    drop(guard);
    assert_eq!(diary.said(), ["hold lost"]);
}

#[tokio::test(start_paused = true)]
async fn readers_upgrades_and_permits_have_their_pairs() {
    let diary = Arc::new(Diary::default());
    let (pair, _) = watched(&diary);
    let data = pair.here.rwlock("data", 0).unwrap();
    let (one, other) = (data.read().await.unwrap(), data.read().await.unwrap());
    let read = ["begun", "granted free", "holds", "begun", "granted joined", "holds"];
    assert_eq!(diary.said(), read);
    drop((one, other));
    assert_eq!(diary.said(), ["hold dropped", "hold dropped"]);
    let reading = data.upgradable_read().await.unwrap();
    let writing = lock_sync::RwLockUpgradableReadGuard::upgrade(reading).await.ok().unwrap();
    assert_eq!(diary.said().last(), Some(&"granted upgraded".into()));
    assert_eq!(diary.open(), (0, 1), "the upgraded hold goes on");
    drop(writing);
    assert_eq!(diary.open(), (0, 0));
    diary.said();
    let permits = pair.here.semaphore("permits", 5).unwrap();
    let mut three = permits.acquire_many(3).await.unwrap();
    let one = three.split(1).unwrap();
    assert_eq!(diary.said(), ["begun", "granted free", "holds", "holds"]);
    one.forget();
    drop(three);
    assert_eq!(diary.said(), ["hold forgotten", "hold dropped"]);
    let all = pair.here.lock_all(["x", "y"]).await.unwrap();
    assert_eq!(diary.open(), (0, 2));
    drop(all);
    assert_eq!(diary.open(), (0, 0));
}

/// An observer that panics at every event.
struct Panics;

macro_rules! panics {
    ($($event:ident: $type:ty),* $(,)?) => {
        impl Observer for Panics {
            $(fn $event(&self, _: &$type) {
                panic!("an observer at {}", stringify!($event));
            })*
        }
    };
}

panics!(
    acquire_begun: AcquireBegun<'_>,
    acquire_waits: AcquireWaits<'_>,
    acquire_ended: AcquireEnded<'_>,
    hold_begun: HoldBegun<'_>,
    hold_ended: HoldEnded<'_>,
    lease_renewed: LeaseRenewed<'_>,
    lease_lost: Loss<'_>,
    handed_over: HandedOver<'_>,
    driver_stalled: DriverStalled,
);

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_hurts_nothing() {
    let (pair, lock) = watched(&Arc::new(Panics));
    let guard = lock.lock().await.unwrap();
    let mut waiting = Box::pin(lock.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    // A drop during the unwinding of another panic as well.
    let ends = AssertUnwindSafe(move || {
        let _guard = guard;
        panic!("a holder");
    });
    assert!(catch_unwind(ends).is_err());
    let guard = waiting.await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(Guard::lease(&guard).is_valid(), "the driver goes on");
    pair.store.forget();
    Guard::lease(&guard).lost().await;
    drop(guard);
    assert!(lock.lock().await.is_ok());
}
