//! One node, as this process sees it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Ballot, Clock, Error, ErrorKind, Instant, QuorumNode, Renew, Renewal, Ttl, Vote};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::agenda::Agenda;
use crate::guarded::Guarded;
use crate::hash::hash;
use crate::pace::Pace;
use crate::presence::{Presence, State};

/// A store that votes, its name for people, and its recent state.
pub(crate) struct Node<N> {
    pub(crate) name: Box<str>,
    pub(crate) backend: N,
    /// A hash of the name.
    pub(crate) hash: u64,
    /// How long the node may take to answer, if this node has a limit of its own.
    timeout: Option<Duration>,
    /// What the quorum still has to do at the node. No thread holds two of the agenda, the pace and the state: threads
    /// that took them in different orders would wait for one another.
    pub(crate) agenda: Guarded<Agenda>,
    pub(crate) pace: Guarded<Pace>,
    presence: Presence,
    /// How many more releases may be repeated.
    ending: Arc<Semaphore>,
}

impl<N> Node<N> {
    pub(crate) fn new(
        name: Box<str>,
        backend: N,
        timeout: Option<Duration>,
        presence: Presence,
    ) -> Self {
        let (agenda, pace) = (Guarded::new(Agenda::new()), Guarded::new(Pace::new()));
        let hash = hash(name.as_bytes());
        let ending = Arc::new(Semaphore::new(Self::MAX_BEHIND));
        Self { name, backend, hash, timeout, agenda, pace, presence, ending }
    }

    /// How many answers a node may owe before the quorum asks it no more. Without this limit, a stopped node
    /// would collect requests until each has timed out, and a node far away would collect more votes than it
    /// releases.
    const MAX_BEHIND: usize = 256;

    /// Fails if asking the node is of no use.
    ///
    /// # Errors
    ///
    /// If the node is far behind with its answers.
    pub(crate) fn check_answers(&self) -> Result<(), Error> {
        let behind = self.pace.lock().behind();
        if behind < Self::MAX_BEHIND {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Timeout, format!("not asked: {behind} answers are overdue")))
    }

    /// Fails if asking the node for a vote is of no use.
    ///
    /// # Errors
    ///
    /// As [`check_answers`](Self::check_answers), and also if the node has many ballots to release first.
    pub(crate) fn check_votes(&self) -> Result<(), Error> {
        let left = self.agenda.lock().releases();
        if left < Self::MAX_BEHIND {
            return self.check_answers();
        }
        Err(Error::new(ErrorKind::Timeout, format!("not asked: {left} releases come first")))
    }

    /// The right to repeat a release. The number of these rights is limited.
    pub(crate) fn ends_again(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.ending).try_acquire_owned().ok()
    }

    /// Whether the node may stay silent, or not vote: it owes an answer, or [is out](Self::is_out).
    pub(crate) fn is_away(&self) -> bool {
        self.is_out() || self.pace.lock().behind() > 0
    }

    /// Whether the node failed lately, is in quarantine, or has to catch up.
    fn is_out(&self) -> bool {
        self.state(|state| state.is_out()) || self.agenda.lock().is_behind()
    }

    /// Whether the node [is out](Self::is_out), or is silent.
    pub(crate) fn is_missing(&self, now: Instant, after: Duration) -> bool {
        self.is_out() || self.pace.lock().is_silent(now, after)
    }

    /// Makes a request, and notes how long its answer took.
    pub(crate) async fn timed<'a, F: Future>(
        &'a self,
        clock: Clock,
        request: impl FnOnce(&'a N) -> F,
    ) -> F::Output {
        let sent = clock.now();
        let answer = request(&self.backend).await;
        self.pace.lock().answered(sent, clock.now());
        answer
    }

    /// How long this node may take to answer: its own limit, or else the `usual` limit of the nodes.
    pub(crate) fn limit(&self, usual: Duration) -> Duration {
        self.timeout.unwrap_or(usual)
    }

    /// Looks at the state of the node, or changes it. Observers hear of a change.
    pub(crate) fn state<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        self.presence.with(&self.name, change)
    }

    /// Passes an answer on, logs it, and keeps its error as the trouble of the node.
    pub(crate) fn noted<T>(&self, verb: &str, answer: Result<T, Error>) -> Result<T, Error> {
        let node = &*self.name;
        match &answer {
            Ok(_) => {
                let trip = || self.pace.lock().trip();
                tracing::trace!(target: "lock_redlock::node", node, verb, trip = ?trip());
            }
            Err(error) => {
                let kind = error.kind();
                tracing::debug!(target: "lock_redlock::node", node, verb, ?kind, %error);
            }
        }
        let mut trouble = answer.as_ref().err().cloned();
        // The old error is dropped outside all locks.
        self.state(|state| std::mem::swap(&mut state.trouble, &mut trouble));
        answer
    }
}

/// A node gives no lease that is shorter than its limit. If it gives a longer lease, only the requested time counts.
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

    /// Lengthens a requested lease that is too short for the node. Returns until when the lease counts.
    fn lengthen(&self, ttl: &mut Ttl) -> Instant {
        let (asked, shortest) = (*ttl, self.backend.shortest_ttl());
        if shortest <= asked {
            return Instant::FAR_FUTURE;
        }
        *ttl = shortest;
        asked.valid_until(self.backend.clock().now())
    }
}
