//! The hints that a watcher has not seen yet.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::task::AtomicWaker;
use lock_core::foreign::survive;
use lock_core::{Hint, OwnerToken};

/// The hints that a watcher has not seen yet. Equal hints are stored once, and there are hints about no more than
/// [`MOST_CLAIMS`] claims. So a mailbox does not grow while its watcher is away.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    unseen: AtomicU8,
    /// The latest hint about each waiting claim. It counts where the bit `CLAIMS` is set.
    claims: Mutex<Vec<(OwnerToken, Hint)>>,
    waker: AtomicWaker,
}

/// The most claims with hints. If there are more, a hint says that the watcher has missed some.
const MOST_CLAIMS: usize = 64;
const ENDED: u8 = 1 << 7;
const CLAIMS: u8 = 1 << 6;
const RESYNC: u8 = 1;
/// In the order in which the watcher gets them, after the hints about claims.
const HINTS: [(u8, Hint); 5] = [
    (RESYNC, Hint::Resync),
    (1 << 1, Hint::Released),
    (1 << 2, Hint::Expired),
    (1 << 3, Hint::Changed),
    (1 << 4, Hint::Contended),
];

impl Mailbox {
    /// Leaves a hint. The waker of the watcher is code of others, so the caller wakes it, under no lock.
    pub(crate) fn post(&self, hint: Hint) -> Woken {
        let bit = match hint {
            Hint::Granted { owner, .. } | Hint::Next { owner, .. } => {
                let mut claims = self.claims();
                claims.retain(|(other, _)| *other != owner);
                if claims.len() == MOST_CLAIMS {
                    claims.remove(0);
                    self.unseen.fetch_or(RESYNC, Ordering::AcqRel);
                }
                claims.push((owner, hint));
                CLAIMS
            }
            hint => HINTS.iter().find(|(_, known)| *known == hint).map_or(0, |(bit, _)| *bit),
        };
        self.unseen.fetch_or(bit, Ordering::AcqRel);
        Woken(self.waker.take().into_iter().collect())
    }

    /// Says that no more hints come.
    pub(crate) fn end(&self) {
        self.unseen.fetch_or(ENDED, Ordering::AcqRel);
        self.waker.wake();
    }

    /// The next hint; `None` at the end.
    pub(crate) fn poll_next(&self, context: &Context<'_>) -> Poll<Option<Hint>> {
        if let ready @ Poll::Ready(_) = self.take() {
            return ready;
        }
        self.waker.register(context.waker());
        self.take()
    }

    fn take(&self) -> Poll<Option<Hint>> {
        let unseen = self.unseen.load(Ordering::Acquire);
        if unseen & CLAIMS != 0
            && let Some(hint) = self.take_about_claim()
        {
            return Poll::Ready(Some(hint));
        }
        for (bit, hint) in HINTS {
            if unseen & bit != 0 {
                self.unseen.fetch_and(!bit, Ordering::AcqRel);
                return Poll::Ready(Some(hint));
            }
        }
        if unseen & ENDED != 0 { Poll::Ready(None) } else { Poll::Pending }
    }

    /// Clears the bit with the last of these hints, under the lock under which a hint is added before the bit is set.
    fn take_about_claim(&self) -> Option<Hint> {
        let mut claims = self.claims();
        let first = (!claims.is_empty()).then(|| claims.remove(0));
        if claims.is_empty() {
            self.unseen.fetch_and(!CLAIMS, Ordering::AcqRel);
        }
        first.map(|(_, hint)| hint)
    }

    fn claims(&self) -> MutexGuard<'_, Vec<(OwnerToken, Hint)>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wakers of watchers that have a new hint. Dropping this wakes the watchers.
#[derive(Debug, Default)]
#[must_use = "the watchers are woken when this is dropped"]
pub(crate) struct Woken(Vec<Waker>);

impl Woken {
    /// Adds the watchers of another hint.
    pub(crate) fn and(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        for waker in self.0.drain(..) {
            // A waker that panics stops no other waker.
            survive(|| waker.wake());
        }
    }
}

/// Ends a mailbox when it is dropped.
#[derive(Debug)]
pub(crate) struct Keeper(pub(crate) Arc<Mailbox>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker;
    use lock_core::{FencingToken, Grant, Instant, TokenRange};

    use super::*;

    fn drain(mailbox: &Mailbox) -> Vec<Poll<Option<Hint>>> {
        let waker = noop_waker();
        let context = Context::from_waker(&waker);
        let mut all = Vec::new();
        while let next @ Poll::Ready(Some(_)) = mailbox.poll_next(&context) {
            all.push(next);
        }
        all.push(mailbox.poll_next(&context));
        all
    }

    fn some(hint: Hint) -> Poll<Option<Hint>> {
        Poll::Ready(Some(hint))
    }

    #[test]
    fn hints_wait_until_they_are_seen_and_are_seen_once() {
        let mailbox = Mailbox::default();
        drop(mailbox.post(Hint::Contended));
        drop(mailbox.post(Hint::Released));
        drop(mailbox.post(Hint::Resync));
        drop(mailbox.post(Hint::Released));
        let told = [some(Hint::Resync), some(Hint::Released), some(Hint::Contended), Poll::Pending];
        assert_eq!(drain(&mailbox), told);
        assert_eq!(drain(&mailbox), [Poll::Pending]);
    }

    #[test]
    fn every_owner_hears_of_its_grant() {
        let mailbox = Mailbox::default();
        let [one, other] = [1, 2].map(|byte| OwnerToken::from_bytes([byte; 16]));
        let grant = Grant::new(TokenRange::single(FencingToken::new(7)), Instant::from_nanos(7));
        for (owner, grant) in [(one, None), (other, None), (one, Some(grant.clone()))] {
            drop(mailbox.post(Hint::Granted { owner, grant }));
        }
        drop(mailbox.post(Hint::Changed));
        assert_eq!(
            drain(&mailbox),
            [
                some(Hint::Granted { owner: other, grant: None }),
                some(Hint::Granted { owner: one, grant: Some(grant) }),
                some(Hint::Changed),
                Poll::Pending
            ]
        );
        assert_eq!(drain(&mailbox), [Poll::Pending]);
        drop(mailbox.post(Hint::Granted { owner: one, grant: None }));
        assert_eq!(drain(&mailbox).len(), 2);
    }

    #[test]
    fn the_end_comes_last_and_stays() {
        let keeper = Keeper(Arc::default());
        let mailbox = Arc::clone(&keeper.0);
        drop(keeper);
        drop(mailbox.post(Hint::Expired));
        assert_eq!(drain(&mailbox), [some(Hint::Expired), Poll::Ready(None)]);
        assert_eq!(drain(&mailbox), [Poll::Ready(None)]);
    }
}
