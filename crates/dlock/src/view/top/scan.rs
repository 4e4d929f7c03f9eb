//! Looks at the store in small steps, spread over time.

use std::num::NonZeroU32;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use lock_core::{Cursor, Error, ErrorKind, Key, List, Listed};
use lock_sync::Locks;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

/// How many keys the store looks at in one step.
const PAGE: NonZeroU32 = NonZeroU32::new(100).unwrap();
/// How many inspections run at once.
const AT_ONCE: usize = 16;

/// The finding of a step.
#[derive(Debug)]
pub(super) enum News {
    /// These locks have holders or waiters. A lock from a look out of turn may also be free.
    Locks(Vec<Listed>),
    /// The walk is over, and the next one begins.
    RoundOver,
    /// The step failed.
    Failed(Error),
}

/// The wishes of the screen.
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    /// The locks to look at out of turn in each period.
    pub(super) hot: Vec<Key>,
    pub(super) is_paused: bool,
}

/// How much to look at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The time in which the scan looks at each hot lock once.
    pub(super) period: Duration,
    /// How many keys the walk looks at in this time.
    pub(super) keys: u32,
}

impl Pace {
    /// The number of steps in a period, and the time between two of them.
    fn steps(self) -> (u32, Duration) {
        let steps = self.keys.div_ceil(PAGE.get()).max(1);
        (steps, self.period / steps)
    }
}

/// Walks through the locks with this prefix again and again, until the screen is gone.
pub(super) async fn run(
    locks: Locks,
    prefix: Vec<u8>,
    pace: Pace,
    wish: watch::Receiver<Wish>,
    news: mpsc::Sender<News>,
) {
    let (steps, gap) = pace.steps();
    let mut ticks = interval(gap);
    // After a slow answer the walk is late. The walk does not catch up, because that would be a burst of requests.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let first = List::of(&prefix).pages_of(PAGE);
    let mut from = None;
    for step in (0..steps).cycle() {
        ticks.tick().await;
        let Wish { hot, is_paused } = wish.borrow().clone();
        if is_paused {
            continue;
        }
        let mut found = page(&locks, &first, &mut from).await;
        if step == 0 && !hot.is_empty() {
            found.push(look(&locks, hot).await);
        }
        for it in found {
            if news.send(it).await.is_err() {
                return;
            }
        }
    }
}

/// One page of the walk.
async fn page(locks: &Locks, first: &List, from: &mut Option<Cursor>) -> Vec<News> {
    let list = match from.clone() {
        Some(cursor) => first.clone().from(cursor),
        None => first.clone(),
    };
    match locks.list(&list).await {
        Ok(page) => {
            let mut news = vec![News::Locks(page.locks)];
            if page.next.is_none() {
                news.push(News::RoundOver);
            }
            *from = page.next;
            news
        }
        // The servers have changed since the last page, so the walk begins anew.
        Err(error) if error.kind() == ErrorKind::InvalidConfig && from.is_some() => {
            *from = None;
            Vec::new()
        }
        Err(error) => vec![News::Failed(error)],
    }
}

/// Looks at these locks.
async fn look(locks: &Locks, keys: Vec<Key>) -> News {
    let looks = stream::iter(keys).map(async |key| {
        let seen = locks.inspect(key.clone()).await;
        seen.map(|seen| Listed::new(key, seen))
    });
    let seen: Vec<_> = looks.buffer_unordered(AT_ONCE).collect().await;
    seen.into_iter().collect::<Result<_, _>>().map_or_else(News::Failed, News::Locks)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lock_core::AnyBackend;
    use lock_core::memory::MemoryBackend;

    use super::*;

    #[test]
    fn the_steps_of_a_period_are_small_and_even() {
        let pace = |keys| Pace { period: Duration::from_secs(1), keys }.steps();
        assert_eq!(pace(1_000), (10, Duration::from_millis(100)));
        assert_eq!(pace(1), (1, Duration::from_secs(1)));
        assert_eq!(pace(101), (2, Duration::from_millis(500)));
    }

    #[tokio::test]
    async fn a_walk_shows_every_lock_in_steps_and_hot_locks_each_time() {
        let store = MemoryBackend::new();
        let locks = Locks::new(AnyBackend::new(store));
        let mut guards = Vec::new();
        for number in 0..250 {
            guards.push(locks.lock(format!("lock/{number}")).await.unwrap());
        }
        let hot = vec![Key::new("lock/7").unwrap(), Key::new("free").unwrap()];
        let (_wishes, wish) = watch::channel(Wish { hot, is_paused: false });
        let (sender, mut news) = mpsc::channel(4);
        let pace = Pace { period: Duration::from_millis(5), keys: 100 };
        tokio::spawn(run(locks.clone(), b"lock/".to_vec(), pace, wish, sender));
        let (mut seen, mut sevens) = (BTreeSet::new(), 0);
        loop {
            match news.recv().await.unwrap() {
                News::Locks(locks) => {
                    assert!(locks.len() <= 2 * PAGE.get() as usize);
                    for lock in locks {
                        sevens += usize::from(lock.key.as_bytes() == b"lock/7");
                        seen.insert(lock.key);
                    }
                }
                News::RoundOver => break,
                News::Failed(error) => panic!("{error}"),
            }
        }
        assert_eq!(seen.iter().filter(|key| key.as_bytes().starts_with(b"lock/")).count(), 250);
        assert!(sevens >= 3, "it was on a page, and looked at in each period: {sevens}");
    }
}
