//! An observer that uses the lock that it observes. The library must call it outside all of its own locks.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use lock_core::Ttl;
use lock_core::observer::{
    AcquireBegun, AcquireEnded, AcquireWaits, HandedOver, HoldBegun, HoldEnded, LeaseRenewed, Loss,
    Observer, RenewalLate,
};
use lock_sync::{Mutex as Lock, MutexGuard as Guard, OwnedMutexGuard};

use crate::observing::watched;
use crate::support::eventually;

/// At each event, the observer asks about the lock, drops a guard that it has, and polls a wait of its own.
#[derive(Default)]
struct Meddles {
    lock: OnceLock<Weak<Lock<u32>>>,
    guard: Mutex<Option<OwnedMutexGuard<u32>>>,
    waiting: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// How often it has meddled in each event.
    meddled: Mutex<BTreeMap<&'static str, u32>>,
}

impl Meddles {
    fn meddle(&self, event: &'static str) {
        let Some(lock) = self.lock.get().and_then(Weak::upgrade) else { return };
        let _ = (lock.is_held(), lock.is_cached());
        // The observer hears of these two as well.
        let guard = self.guard.lock().unwrap().take();
        drop(guard);
        let waiting = self.waiting.lock().unwrap().take();
        if let Some(mut waiting) = waiting
            && waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
        {
            *self.waiting.lock().unwrap() = Some(waiting);
        }
        *self.meddled.lock().unwrap().entry(event).or_default() += 1;
    }

    fn count(&self, event: &str) -> u32 {
        self.meddled.lock().unwrap().get(event).copied().unwrap_or_default()
    }

    /// From now on, the observer has a wait of its own.
    fn wait(&self) {
        let own = self.lock.get().and_then(Weak::upgrade).unwrap().lock_owned();
        *self.waiting.lock().unwrap() = Some(Box::pin(async move { drop(own.await) }));
    }

    /// Polls the wait of the observer until it ends.
    async fn end_wait(&self) {
        eventually("the wait ends", || {
            self.meddle("no event");
            self.waiting.lock().unwrap().is_none()
        })
        .await;
    }
}

macro_rules! meddles {
    ($($event:ident: $type:ty),* $(,)?) => {
        impl Observer for Meddles {
            $(fn $event(&self, _: &$type) {
                self.meddle(stringify!($event));
            })*
        }
    };
}

meddles!(
    acquire_begun: AcquireBegun<'_>,
    acquire_waits: AcquireWaits<'_>,
    acquire_ended: AcquireEnded<'_>,
    hold_begun: HoldBegun<'_>,
    hold_ended: HoldEnded<'_>,
    lease_renewed: LeaseRenewed<'_>,
    lease_lost: Loss<'_>,
    handed_over: HandedOver<'_>,
    renewal_late: RenewalLate<'_>,
);

#[tokio::test]
async fn an_observer_may_use_the_lock_that_it_observes() {
    let meddler = Arc::new(Meddles::default());
    let (pair, lock) = watched(&meddler);
    let there = Arc::new(pair.there.mutex("it", 0).unwrap());
    meddler.lock.set(Arc::downgrade(&lock)).unwrap();
    for _ in 0..20 {
        let kept = Arc::clone(&lock).lock_owned().await.unwrap();
        meddler.wait();
        let theirs = tokio::spawn(Arc::clone(&there).lock_owned());
        *meddler.guard.lock().unwrap() = Some(kept);
        // The event `acquire_begun` of this call makes the observer drop the guard that is in the way.
        drop(lock.lock().await.unwrap());
        drop(theirs.await.unwrap().unwrap());
    }
    meddler.end_wait().await;
    for event in ["acquire_begun", "acquire_waits", "acquire_ended", "hold_begun", "hold_ended"] {
        assert!(meddler.count(event) >= 10, "{event}: {}", meddler.count(event));
    }
    let own = pair.here.mutex("other", 0).unwrap();
    *meddler.guard.lock().unwrap() = Some(Arc::clone(&lock).lock_owned().await.unwrap());
    drop(own.lock().await.unwrap());
    assert!(meddler.guard.lock().unwrap().is_none() && !lock.is_held());
}

#[tokio::test(start_paused = true)]
async fn an_observer_may_use_its_lock_while_a_lease_is_renewed_late_and_lost() {
    let meddler = Arc::new(Meddles::default());
    let (pair, lock) = watched(&meddler);
    meddler.lock.set(Arc::downgrade(&lock)).unwrap();
    let guard = lock.lock().await.unwrap();
    meddler.wait();
    // A lease of 30 s is renewed after 10 s.
    tokio::time::advance(Duration::from_secs(18)).await;
    eventually("a renewal is late", || meddler.count("renewal_late") > 0).await;
    let longer = Ttl::new(Duration::from_secs(60)).unwrap();
    Guard::lease(&guard).extend(longer).await.unwrap();
    eventually("the lease is renewed", || meddler.count("lease_renewed") > 0).await;
    pair.store.forget();
    Guard::lease(&guard).lost().await;
    eventually("the loss is told", || meddler.count("lease_lost") > 0).await;
    drop(guard);
    meddler.end_wait().await;
    assert!(!lock.is_held());
}
