//! One node, as this process sees it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{Ballot, Clock, Error, ErrorKind, Instant, QuorumNode, Renew, Renewal, Ttl, Vote};

use crate::agenda::Agenda;
use crate::first;
use crate::guarded::Guarded;
use crate::presence::{Presence, State};

/// A store that votes, its name for people, and its recent state.
pub(crate) struct Node<N> {
    pub(crate) name: Box<str>,
    pub(crate) backend: N,
    /// A hash of the name.
    pub(crate) hash: u64,
    /// How long the node may take to answer, if that was said for this node.
    pub(crate) timeout: Option<Duration>,
    /// What the quorum still has to do at the node. No thread locks it and the state at once: two threads that did so in
    /// different orders would wait for each other.
    pub(crate) agenda: Guarded<Agenda>,
    presence: Presence,
    /// How many unanswered requests there are that no caller waits for any more.
    behind: AtomicUsize,
    /// When the first of these was asked, and when the node last answered anything, in nanoseconds on the clock of the
    /// quorum.
    behind_since: AtomicU64,
    heard: AtomicU64,
    /// When the node was last asked although it was missing, in nanoseconds on the clock of the quorum.
    looked: AtomicU64,
    /// The round trip in nanoseconds, smoothed; zero before the first answer.
    trip: AtomicU64,
}

impl<N> Node<N> {
    pub(crate) fn new(
        name: Box<str>,
        backend: N,
        timeout: Option<Duration>,
        presence: Presence,
    ) -> Self {
        Self {
            hash: first::hash(name.as_bytes()),
            timeout,
            name,
            backend,
            agenda: Guarded::new(Agenda::new()),
            presence,
            behind: AtomicUsize::new(0),
            behind_since: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            trip: AtomicU64::new(0),
        }
    }

    /// How many answers a node may owe before it is no longer asked. Otherwise a stopped node would collect every
    /// request until each has timed out, and a node far away would collect more votes than it releases.
    const MAX_BEHIND: usize = 256;

    /// How often a missing node is asked, to find out whether it is back.
    const LOOK_AFTER: Duration = Duration::from_secs(1);

    /// The caller of a request no longer waits for the answer.
    pub(crate) fn falls_behind(&self, asked: Instant) {
        if self.behind.fetch_add(1, Ordering::Relaxed) == 0 {
            self.behind_since.store(asked.as_nanos(), Ordering::Relaxed);
        }
    }

    pub(crate) fn catches_up(&self) {
        self.behind.fetch_sub(1, Ordering::Relaxed);
    }

    /// Fails if asking the node is of no use.
    ///
    /// # Errors
    ///
    /// If it is far behind with its answers.
    pub(crate) fn check_answers(&self) -> Result<(), Error> {
        let behind = self.behind.load(Ordering::Relaxed);
        if behind < Self::MAX_BEHIND {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Timeout, format!("not asked: {behind} answers are overdue")))
    }

    /// Whether the node may not answer, or not vote: it owes an answer, or [is out](Self::is_out).
    pub(crate) fn is_away(&self) -> bool {
        self.is_out() || self.behind.load(Ordering::Relaxed) > 0
    }

    /// Whether the node failed lately, is in quarantine, or has ballots to release or to give.
    fn is_out(&self) -> bool {
        self.state(|state| state.is_out()) || self.agenda.lock().len() > 0
    }

    /// Whether the node [is out](Self::is_out), or owes an answer and has answered nothing for the time `after`. A node
    /// that is merely the last of a majority to answer is not missing.
    pub(crate) fn is_missing(&self, now: Instant, after: Duration) -> bool {
        let since =
            self.behind_since.load(Ordering::Relaxed).max(self.heard.load(Ordering::Relaxed));
        let is_silent = now > Instant::from_nanos(since) + after;
        self.is_out() || is_silent && self.behind.load(Ordering::Relaxed) > 0
    }

    /// Whether it is time to ask a missing node again: it may be back. Returns `true` once in each
    /// [`LOOK_AFTER`](Self::LOOK_AFTER).
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let looked = self.looked.load(Ordering::Relaxed);
        let is_due = now > Instant::from_nanos(looked) + Self::LOOK_AFTER;
        is_due
            && self
                .looked
                .compare_exchange(looked, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Fails if asking the node for a vote is of no use.
    ///
    /// # Errors
    ///
    /// As [`check_answers`](Self::check_answers), and also if the node has many ballots to release first.
    pub(crate) fn check_votes(&self) -> Result<(), Error> {
        let left = self.agenda.lock().len();
        if left < Self::MAX_BEHIND {
            return self.check_answers();
        }
        Err(Error::new(ErrorKind::Timeout, format!("not asked: {left} releases come first")))
    }

    /// Makes a request, and notes how long its answer took.
    pub(crate) async fn timed<'a, F: Future>(
        &'a self,
        clock: Clock,
        request: impl FnOnce(&'a N) -> F,
    ) -> F::Output {
        let sent = clock.now();
        let answer = request(&self.backend).await;
        let now = clock.now();
        self.heard.store(now.as_nanos(), Ordering::Relaxed);
        let took = now.saturating_duration_since(sent);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let before = self.trip.load(Ordering::Relaxed);
        let smoothed = if before == 0 { took } else { before - before / 8 + took / 8 };
        self.trip.store(smoothed, Ordering::Relaxed);
        answer
    }

    /// How long this node may take to answer, where the nodes of the quorum have this limit.
    pub(crate) fn limit(&self, usual: Duration) -> Duration {
        self.timeout.unwrap_or(usual)
    }

    /// How long an answer takes, on a smoothed average. `None` before the first answer.
    pub(crate) fn trip(&self) -> Option<Duration> {
        let nanos = self.trip.load(Ordering::Relaxed);
        (nanos > 0).then_some(Duration::from_nanos(nanos))
    }

    /// Looks at what is known of the node, or changes it. Observers hear of a change.
    pub(crate) fn state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        self.presence.with(&self.name, change)
    }

    /// Passes an answer on, logs it, and keeps its error as the node's trouble.
    pub(crate) fn noted<T>(&self, verb: &str, answer: Result<T, Error>) -> Result<T, Error> {
        let node = &*self.name;
        match &answer {
            Ok(_) => {
                tracing::trace!(target: "lock_redlock::node", node, verb, trip = ?self.trip());
                // An error is dropped while nothing is locked.
                drop(self.state(|state| state.trouble.take()));
            }
            Err(error) => {
                let kind = error.kind();
                tracing::debug!(target: "lock_redlock::node", node, verb, ?kind, %error);
                let error = error.clone();
                drop(self.state(|state| state.trouble.replace(error)));
            }
        }
        answer
    }
}

/// A node gives no lease that is shorter than its limit. Of a longer lease, only the time counts that was asked for.
impl<N: QuorumNode> Node<N> {
    /// Asks for a vote.
    pub(crate) async fn vote(&self, clock: Clock, mut ballot: Ballot) -> Result<Vote, Error> {
        let counts = self.lengthen(&mut ballot.request.ttl);
        let mut vote = self.timed(clock, |it| it.vote(&ballot)).await?;
        if let Vote::Granted(grant) = &mut vote {
            grant.valid_until = grant.valid_until.min(counts);
        }
        Ok(vote)
    }

    /// Asks for a renewal.
    pub(crate) async fn renew(&self, clock: Clock, mut request: Renew) -> Renewal {
        let counts = self.lengthen(&mut request.ttl);
        let mut renewal = self.timed(clock, |it| it.renew(&request)).await;
        if let Renewal::Renewed { valid_until, .. } = &mut renewal {
            *valid_until = (*valid_until).min(counts);
        }
        renewal
    }

    /// Lengthens a lease that is too short for the node, and is about to be asked for. Returns until when it counts.
    fn lengthen(&self, ttl: &mut Ttl) -> Instant {
        let (asked, shortest) = (*ttl, self.backend.shortest_ttl());
        if shortest <= asked {
            return Instant::FAR_FUTURE;
        }
        *ttl = shortest;
        asked.valid_until(self.backend.clock().now())
    }
}
