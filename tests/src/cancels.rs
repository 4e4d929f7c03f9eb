//! Requests that are dropped at any of their polls: cases for clients of every store.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lock_core::{
    Acquire, Backend, CellBackend, Claim, Convert, ConvertBackend, InspectBackend, Mode, Released,
};

use crate::requests::{claim, granted, long};
use crate::{SOON, eventually_async};

/// After how many polls a future is dropped.
pub const POLLS: [u32; 10] = [0, 1, 2, 3, 4, 6, 9, 14, 20, 40];

/// Polls a future so often, with pauses in which other threads go on, and drops it.
pub async fn drop_after(polls: u32, future: impl Future) {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if polled.await.is_ready() {
            return;
        }
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
}

/// Waits until no lease and no place of these claims is left.
async fn nothing_is_held(store: &impl InspectBackend, claims: &[Claim]) {
    for claim in claims {
        eventually_async("nothing is held or waited for", SOON, async || {
            let left = store.inspect(&claim.key).await.expect("an inspection");
            left.holding == 0 && left.waiting == 0
        })
        .await;
    }
}

async fn release(store: &impl Backend, claim: &Claim) -> Released {
    store.release(claim).await.expect("a release")
}

/// A dropped request leaves nothing behind once it is released.
///
/// # Panics
///
/// If something is left.
pub async fn a_dropped_request(one: &impl Backend, other: &impl InspectBackend) {
    for polls in POLLS {
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Permits { take: 1, of: 2 }];
        for (index, mode) in modes.into_iter().enumerate() {
            let ours = claim(format!("{polls}/{index}")).in_mode(mode);
            drop_after(polls, one.try_acquire(&Acquire::new(ours.clone(), long()))).await;
            release(one, &ours).await;
            let theirs = claim(format!("{polls}/{index}"));
            granted(other, &theirs, long()).await;
            release(other, &theirs).await;
            nothing_is_held(other, &[ours]).await;
        }
    }
}

/// Several requests that are dropped together can be released.
///
/// # Panics
///
/// If something is left.
pub async fn dropped_requests_of_one_call(store: &impl InspectBackend) {
    for polls in POLLS {
        let claims: Vec<Claim> = (0..6).map(|index| claim(format!("{polls}/{index}"))).collect();
        let requests: Vec<_> = claims.iter().map(|it| Acquire::new(it.clone(), long())).collect();
        drop_after(polls, store.try_acquire_all(&requests)).await;
        for claim in &claims {
            release(store, claim).await;
        }
        nothing_is_held(store, &claims).await;
    }
}

/// A dropped wait leaves the queue.
///
/// # Panics
///
/// If something is left.
pub async fn a_dropped_wait(one: &impl InspectBackend, other: &impl Backend) {
    for polls in POLLS {
        let (ours, theirs) = (claim(format!("{polls}")), claim(format!("{polls}")));
        granted(one, &ours, long()).await;
        drop_after(polls, other.watch(&theirs.key)).await;
        let _watch = other.watch(&theirs.key).await.expect("a watch");
        drop_after(polls, other.try_acquire(&Acquire::new(theirs.clone(), long()).queued())).await;
        release(other, &theirs).await;
        release(one, &ours).await;
        nothing_is_held(one, &[ours]).await;
    }
}

/// A commit, a conversion and a release that are dropped can be followed by a release.
///
/// # Panics
///
/// If something is left.
pub async fn a_dropped_change<B>(store: &B)
where
    B: CellBackend + ConvertBackend + InspectBackend,
{
    for polls in POLLS {
        let key = format!("{polls}");
        let ours = claim(&key);
        let token = granted(store, &ours, long()).await.tokens.first();
        drop_after(polls, store.commit(&ours, token, b"value")).await;
        release(store, &ours).await;
        nothing_is_held(store, &[ours]).await;

        let written = claim(&key);
        granted(store, &written, long()).await;
        let convert = Convert::new(written.clone(), Mode::Shared, long());
        drop_after(polls, store.convert(&convert)).await;
        release(store, &written).await;
        release(store, &written.clone().in_mode(Mode::Shared)).await;
        nothing_is_held(store, &[written]).await;

        let ours = claim(&key);
        granted(store, &ours, long()).await;
        drop_after(polls, store.release(&ours)).await;
        let released = release(store, &ours).await;
        assert!(matches!(released, Released::Freed { .. } | Released::NotHeld), "{released:?}");
        nothing_is_held(store, &[ours]).await;
    }
}
