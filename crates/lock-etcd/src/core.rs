//! What all tasks of a client share.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use lock_core::{Backoff, Claim, Clock, Error, Key};

use crate::decide::{Act, Ask, Attempt, Done, Refresh, Retention, Turn, Turns};
use crate::failure;
use crate::hub::{Hub, Place};
use crate::labels::Labels;
use crate::leases::Leases;
use crate::link::{Link, untold};
use crate::naming::Names;
use crate::voting::Node;

/// So many leases that are over are remembered: more than one document has parties, so that a request about a document
/// whose parties are all dead comes to an end.
const MOST_OVER: usize = 100_000;

/// A client, as its tasks see it.
pub(crate) struct Core {
    pub(crate) link: Arc<Link>,
    pub(crate) names: Arc<Names>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) turns: Turns,
    pub(crate) retention: Retention,
    pub(crate) labels: Labels,
    pub(crate) node: Node,
    pub(crate) queue_limit: NonZeroU32,
    pub(crate) limit: Duration,
    /// Leases of etcd that are over. None of them comes back, because etcd draws each number once.
    over: Mutex<HashSet<i64>>,
    numbers: AtomicU32,
}

impl Core {
    pub(crate) fn new(
        link: Arc<Link>,
        names: Arc<Names>,
        hub: Arc<Hub>,
        queue_limit: NonZeroU32,
        limit: Duration,
    ) -> Self {
        Self {
            leases: Arc::new(Leases::new(Arc::clone(&link))),
            link,
            names,
            hub,
            turns: Turns::default(),
            retention: Retention::default(),
            labels: Labels::default(),
            node: Node::default(),
            queue_limit,
            limit,
            over: Mutex::default(),
            numbers: AtomicU32::new(0),
        }
    }

    /// A number that this client has not used for a long time.
    pub(crate) fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// The leases of etcd that are known to be over.
    pub(crate) fn over(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Some leases of etcd are over.
    pub(crate) fn note_over(&self, ids: &BTreeSet<i64>) {
        if let Some(session) = self.hub.session().filter(|session| ids.contains(session)) {
            self.hub.over(session);
        }
        note(&mut self.over(), ids);
    }

    /// Waits for the turn of a request about the key.
    pub(crate) async fn turn(&self, key: &Key) -> Turn {
        self.turns.take(key, self.link.opened()).await
    }

    /// Decides a request about one key, in its turn, within the time limit.
    pub(crate) async fn decide<T: Send>(
        &self,
        ask: Ask<'_>,
        refresh: Refresh,
        act: impl Act<T>,
    ) -> Result<Done<T>, Error> {
        let deciding = async {
            let mut turns = [self.turn(ask.key).await];
            let asks = [ask];
            let attempt = Attempt::new(self, &mut turns, &asks, refresh, act);
            let done = attempt.run(|_| ()).await?;
            done.into_iter().next().ok_or_else(|| failure::protocol("no decision"))
        };
        self.bounded(deciding).await
    }

    /// Work within the time limit of a request. Observers hear of its calls when it has given back its turns.
    pub(crate) fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> {
        let work = untold::unlocked(tokio::time::timeout(self.limit, work));
        work.map(|done| done.unwrap_or_else(|_| Err(failure::timeout())))
    }

    /// Ends the places and the unclaimed grants of this client whose time is over.
    pub(crate) async fn end_places(self: Arc<Self>) {
        loop {
            let now = Clock::boot().now();
            let (due, next) = self.hub.take_due(now);
            for (claim, place) in due {
                tokio::spawn(Arc::clone(&self).end_place(claim, place));
            }
            let pause = async {
                match next {
                    Some(next) => {
                        let left = next.saturating_duration_since(Clock::boot().now());
                        tokio::time::sleep(left).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = pause => {}
                () = self.hub.places_changed.notified() => {}
            }
        }
    }

    /// Ends a place, or a grant that was not claimed. The next request of any client passes the key on, so the first
    /// claim in the queue hears that it has to ask. The task tries again until etcd has answered, or until the session
    /// has ended with its places.
    async fn end_place(self: Arc<Self>, claim: Claim, place: Place) {
        let (Some(number), Some(session)) = (place.number, self.hub.session()) else { return };
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        while !self.hub.has_place(&claim) && self.hub.session() == Some(session) {
            let ask = Ask { ending: Some((&claim, number)), ..Ask::about(&claim.key) };
            let Err(error) = self.decide(ask, Refresh::Never, |_, _, _| ()).await else { return };
            tracing::debug!(%error, "a place was not ended");
            tokio::time::sleep(backoff.fail()).await;
        }
    }

    /// Decides a request by which a claim gives up the place that it may have. If that fails, the claim may still have
    /// its place, and this client ends it.
    pub(crate) async fn give_up<T: Send>(
        &self,
        claim: &Claim,
        act: impl Act<T>,
    ) -> Result<Done<T>, Error> {
        let ask = Ask { is_ending: true, ..Ask::of(claim) };
        let done = self.decide(ask, Refresh::Never, act).await;
        match &done {
            Ok(_) => self.hub.leave(claim),
            Err(_) => self.hub.end_place(claim),
        }
        done
    }

    /// Begins to listen for hints about a key.
    pub(crate) async fn listen(&self, key: &Key) -> Result<crate::hub::Hints, Error> {
        let listening = async {
            let (hearing, ready) = self.hub.listen(key);
            let hints = crate::hub::Hints::new(Arc::clone(&self.hub), hearing);
            let ended =
                || Error::new(lock_core::ErrorKind::Unreachable, "the stream of watches has ended");
            ready.await.map_err(|_| ended())??;
            Ok(hints)
        };
        self.bounded(listening).await
    }
}

fn note(over: &mut HashSet<i64>, ids: &BTreeSet<i64>) {
    if over.len() > MOST_OVER {
        over.clear();
    }
    over.extend(ids);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document of a mebibyte has fewer parties.
    const PARTIES: i64 = 40_000;

    #[test]
    fn the_dead_parties_of_the_longest_document_are_remembered_together() {
        let mut over = HashSet::new();
        // Some may be forgotten once, whatever was remembered before.
        for id in 0..3 * PARTIES {
            note(&mut over, &BTreeSet::from([id]));
        }
        let of_document: Vec<i64> = (-PARTIES..0).collect();
        for _ in 0..2 {
            for part in of_document.chunks(128) {
                note(&mut over, &part.iter().copied().collect());
            }
        }
        assert!(of_document.iter().all(|id| over.contains(id)));
    }
}
