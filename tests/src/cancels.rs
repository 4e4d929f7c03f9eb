//! Requests that are dropped at any of their polls: cases for clients of every store.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Backend, CellBackend, Claim, Convert, ConvertBackend, InspectBackend,
    Mode, Released, Renew, Renewal,
};
use lock_sync::Locks;

use crate::requests::{attempt, claim, granted, long};
use crate::{SOON, eventually_async, soon};

/// Each case drops its futures after each number of polls up to this one, even if they end sooner: in another turn they
/// may be slower.
const LEAST: u32 = 9;

/// Up to here, each number of polls has its turn. Above, the steps grow.
const EACH: u32 = 20;

/// After how many polls a future is dropped at most.
const MOST: u32 = 5_000;

/// The numbers of polls after which a case drops its futures: each number to 20, then growing steps, until all futures of a turn end.
///
/// # Examples
///
/// ```
/// use lock_tests::cancels::Polls;
///
/// # #[tokio::main]
/// # async fn main() {
/// let (mut polls, mut seen) = (Polls::new(), 0);
/// while let Some(count) = polls.next() {
///     polls.drop_after(async { tokio::task::yield_now().await }).await;
///     assert_eq!(count, seen);
///     seen += 1;
/// }
/// assert_eq!(seen, 10);
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Polls {
    count: Option<u32>,
    /// Whether a future of the present turn has not ended.
    is_cut: bool,
}

impl Polls {
    /// Begins with no poll at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next number. `None` if every future of the last turn has ended, after nine polls at least.
    ///
    /// # Panics
    ///
    /// If a future does not end within some thousands of polls.
    #[expect(clippy::should_implement_trait, reason = "the turns in between change it")]
    pub fn next(&mut self) -> Option<u32> {
        let next = match self.count {
            None => 0,
            Some(count) if count >= LEAST && !self.is_cut => return None,
            Some(count) if count < EACH => count + 1,
            Some(count) => count * 3 / 2,
        };
        assert!(next <= MOST, "a request has not ended after {MOST} polls");
        self.is_cut = false;
        self.count = Some(next);
        self.count
    }

    /// Polls a future as often as it is the turn, with pauses in which other threads go on, and drops it.
    pub async fn drop_after(&mut self, future: impl Future) {
        let mut future = pin!(future);
        for _ in 0..self.count.unwrap_or_default() {
            let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
            if polled.await.is_ready() {
                return;
            }
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        self.is_cut = true;
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
    let mut turns = Polls::new();
    while let Some(polls) = turns.next() {
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Permits { take: 1, of: 2 }];
        for (index, mode) in modes.into_iter().enumerate() {
            let ours = claim(format!("{polls}/{index}")).in_mode(mode);
            turns.drop_after(one.try_acquire(&Acquire::new(ours.clone(), long()))).await;
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
    let mut turns = Polls::new();
    while let Some(polls) = turns.next() {
        let claims: Vec<Claim> = (0..6).map(|index| claim(format!("{polls}/{index}"))).collect();
        let requests: Vec<_> = claims.iter().map(|it| Acquire::new(it.clone(), long())).collect();
        turns.drop_after(store.try_acquire_all(&requests)).await;
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
    let mut turns = Polls::new();
    while let Some(polls) = turns.next() {
        let (ours, theirs) = (claim(format!("{polls}")), claim(format!("{polls}")));
        granted(one, &ours, long()).await;
        turns.drop_after(other.watch(&theirs.key)).await;
        let _watch = other.watch(&theirs.key).await.expect("a watch");
        turns.drop_after(other.try_acquire(&Acquire::new(theirs.clone(), long()).queued())).await;
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
    let mut turns = Polls::new();
    while let Some(polls) = turns.next() {
        let key = format!("{polls}");
        let ours = claim(&key);
        let token = granted(store, &ours, long()).await.tokens.first();
        turns.drop_after(store.commit(&ours, token, b"value")).await;
        release(store, &ours).await;
        nothing_is_held(store, &[ours]).await;

        let written = claim(&key);
        granted(store, &written, long()).await;
        let convert = Convert::new(written.clone(), Mode::Shared, long());
        turns.drop_after(store.convert(&convert)).await;
        release(store, &written).await;
        release(store, &written.clone().in_mode(Mode::Shared)).await;
        nothing_is_held(store, &[written]).await;

        let ours = claim(&key);
        granted(store, &ours, long()).await;
        turns.drop_after(store.release(&ours)).await;
        let released = release(store, &ours).await;
        assert!(matches!(released, Released::Freed { .. } | Released::NotHeld), "{released:?}");
        nothing_is_held(store, &[ours]).await;
    }
}

/// After a dropped renewal, the lease can be renewed and released.
///
/// # Panics
///
/// If the lease is over, or something is left.
pub async fn a_dropped_renewal(store: &impl InspectBackend) {
    let ours = claim("renewed");
    granted(store, &ours, long()).await;
    let renew = Renew::new(ours.clone(), long());
    let mut turns = Polls::new();
    while turns.next().is_some() {
        turns.drop_after(store.renew(&renew)).await;
        let renewal = store.renew(&renew).await;
        assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    }
    let released = release(store, &ours).await;
    assert!(matches!(released, Released::Freed { .. }), "{released:?}");
    nothing_is_held(store, &[ours]).await;
}

/// A release that asks for the next lease in the same step, and is dropped, can be followed by the release of both. The
/// client that waits gets the lease.
///
/// # Panics
///
/// If the client that waits gets nothing, or something is left.
pub async fn a_dropped_requeue(one: &impl InspectBackend, other: &impl Backend) {
    let mut turns = Polls::new();
    while let Some(polls) = turns.next() {
        let [ours, next, theirs] = [(); 3].map(|()| claim(format!("{polls}")));
        granted(one, &ours, long()).await;
        // A client that does not listen gets no place.
        let _here = one.watch(&ours.key).await.expect("a watch");
        let _there = other.watch(&theirs.key).await.expect("a watch");
        let waiting = Acquire::new(theirs.clone(), long()).queued();
        let place = other.try_acquire(&waiting).await.expect("an answer");
        assert!(matches!(place, AcquireOutcome::Queued { .. }), "{place:?}");
        let again = Acquire::new(next.clone(), long()).queued();
        turns.drop_after(one.release_and_requeue(&ours, &again)).await;
        release(one, &ours).await;
        release(one, &next).await;
        eventually_async("the client that waits has the lease", SOON, async || {
            let outcome = attempt(other, &theirs, long()).await;
            matches!(outcome.expect("an answer"), AcquireOutcome::Granted(_))
        })
        .await;
        release(other, &theirs).await;
        nothing_is_held(one, &[ours]).await;
    }
}

/// After a dropped call of `lock`, of `release` or of both, another process gets the lock, whether the lock was free or
/// was passed on.
///
/// # Panics
///
/// If the other process does not get the lock.
pub async fn a_dropped_lock<B: Backend + 'static>(one: B, other: B) {
    let locks = |store| Locks::builder(store).build().expect("the system has threads");
    let (here, there) = (locks(one), locks(other));
    let mut turns = Polls::new();
    while let Some(polls) = turns.next() {
        let name = format!("{polls}");
        let take = async || soon(there.lock(&name)).await.expect("a lock");
        turns.drop_after(here.lock(&name)).await;
        let held = take().await;
        let ask = async {
            here.lock(&name).await.expect("a lock").release().await.expect("a release");
        };
        tokio::join!(turns.drop_after(ask), async {
            held.release().await.expect("a release");
        });
        drop(take().await);
    }
}
