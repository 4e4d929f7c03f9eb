//! Requests to several nodes at once.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, Stream};
use lock_core::{Claim, Error, ErrorKind, FencingToken, Instant, OwnerToken, QuorumNode};

use crate::background::Timer;
use crate::ballot::Ballot;
use crate::inner::Core;
use crate::quorum::NodeSet;

/// Requests to nodes that are under way. The caller that waits for the answers polls them.
///
/// So an answer wakes no other thread. Once a quorum has answered, the remaining requests go on
/// [without the caller](Self::finish).
pub(crate) struct Asked<N, T> {
    core: Arc<Core<N>>,
    requests: FuturesUnordered<BoxFuture<'static, (usize, Result<T, Error>)>>,
    /// The answers that have come, and that the caller has not taken yet.
    ready: VecDeque<(usize, Result<T, Error>)>,
    /// How many answers of each node the caller has still to take.
    open: Vec<usize>,
    /// The last error of each node.
    said: Vec<Option<Error>>,
    began: Instant,
    /// When the time limits began to run.
    since: Instant,
    /// How long a node may take to answer, unless it has a limit of its own.
    limit: Duration,
    timer: Timer,
}

impl<N, T> Asked<N, T>
where
    N: QuorumNode,
    T: Send + 'static,
{
    /// Asks no node yet. The wait for the answer of a node takes at most `limit`, or the own limit of that node.
    pub(crate) fn new(core: &Arc<Core<N>>, limit: Duration) -> Self {
        let now = core.clock.now();
        Self {
            core: Arc::clone(core),
            requests: FuturesUnordered::new(),
            ready: VecDeque::new(),
            open: vec![0; core.quorum.nodes()],
            said: vec![None; core.quorum.nodes()],
            began: now,
            since: now,
            limit,
            timer: Timer::default(),
        }
    }

    /// Asks a node. The next call of [`next`](Self::next) sends the request.
    pub(crate) fn ask(
        &mut self,
        node: usize,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) {
        // The runtime of another caller may end during a request, and its timers then panic.
        let request = AssertUnwindSafe(request).catch_unwind().map(move |answer| {
            let panicked = |_| Err(Error::new(ErrorKind::Other, "the request panicked"));
            (node, answer.unwrap_or_else(panicked))
        });
        self.requests.push(request.boxed());
        self.open[node] += 1;
    }

    /// Starts the time limits anew.
    pub(crate) fn extend(&mut self) {
        self.since = self.core.clock.now();
    }

    /// How long the nodes that still have to answer may take.
    fn longest(&self) -> Duration {
        let limits = self.open().iter().map(|node| self.core.nodes[node].limit(self.limit)).max();
        limits.unwrap_or(self.limit)
    }

    fn deadline(&self) -> Instant {
        self.since + self.longest()
    }

    /// The nodes that still have to answer.
    pub(crate) fn open(&self) -> NodeSet {
        (0..self.open.len()).filter(|&node| self.open[node] > 0).collect()
    }

    /// The next answer of a node, or `None` in place of the answer if the node has failed. Ends when all nodes have
    /// answered, or the time is over.
    ///
    /// It polls each request before it returns an answer, so that no request stays unsent.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no answer.
    pub(crate) async fn next(&mut self) -> Option<(usize, Option<T>)> {
        self.next_until(self.deadline()).await
    }

    /// As [`next`](Self::next), with another end of the time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no answer.
    pub(crate) async fn next_until(&mut self, at: Instant) -> Option<(usize, Option<T>)> {
        poll_fn(|context| self.poll_next(at, context)).await
    }

    /// All answers that come in time, without the failures.
    pub(crate) async fn all(&mut self) -> Vec<(usize, T)> {
        let mut all = Vec::new();
        while let Some((node, answer)) = self.next().await {
            all.extend(answer.map(|answer| (node, answer)));
        }
        all
    }

    /// As [`all`](Self::all).
    ///
    /// # Errors
    ///
    /// If the nodes that answer in time are no majority.
    pub(crate) async fn majority(&mut self, what: &str) -> Result<Vec<(usize, T)>, Error> {
        let all = self.all().await;
        let is_enough = self.core.quorum.is_met_by(all.len());
        if is_enough { Ok(all) } else { Err(self.failure(what, all.len())) }
    }

    /// An answer that has come.
    fn pop(&mut self) -> Option<(usize, Option<T>)> {
        let (node, answer) = self.ready.pop_front()?;
        self.open[node] -= 1;
        Some((node, answer.map_err(|error| self.said[node] = Some(error)).ok()))
    }

    fn poll_next(
        &mut self,
        at: Instant,
        context: &mut Context<'_>,
    ) -> Poll<Option<(usize, Option<T>)>> {
        let core = Arc::clone(&self.core);
        let _entered = core.background.enter();
        while let Poll::Ready(Some(answer)) = Pin::new(&mut self.requests).poll_next(context) {
            self.ready.push_back(answer);
        }
        if self.has_ready() || self.requests.is_empty() {
            return Poll::Ready(self.pop());
        }
        self.timer.poll(core.clock, at, context).map(|()| None)
    }

    /// Notes what a node said in place of an answer.
    pub(crate) fn say(&mut self, node: usize, error: Error) {
        self.said[node] = Some(error);
    }

    /// Whether there are answers that the caller has not taken yet.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The nodes whose answers are still to come, if the time is not over.
    pub(crate) fn awaited(&self) -> NodeSet {
        if self.core.clock.now() >= self.deadline() {
            return NodeSet::default();
        }
        self.open().without(self.ready.iter().map(|(node, _)| *node).collect())
    }

    /// What each node has said: its error, or a note that it has not answered.
    pub(crate) fn said(&self) -> Vec<Option<Error>> {
        let mut said = self.said.clone();
        for node in self.open().iter() {
            let yet = || Error::new(ErrorKind::Timeout, "no answer yet");
            let limit = self.core.nodes[node].limit(self.limit);
            let is_late = self.core.clock.now() >= self.since + limit;
            said[node].get_or_insert_with(|| if is_late { late(limit) } else { yet() });
        }
        said
    }

    /// The error of a node, if it has answered with an error.
    pub(crate) fn error_of(&self, node: usize) -> Option<&Error> {
        self.said[node].as_ref()
    }

    /// The error for too few answers.
    pub(crate) fn failure(&self, what: &str, answered: usize) -> Error {
        self.core.failure(self.core.quorum.needed(), what, answered, &self.said())
    }

    /// Lets the remaining requests go on without the caller. The quorum drops the requests that have not ended when the
    /// time is over.
    ///
    /// The worker of the quorum polls the requests. The call starts no task, so `Drop` may call it.
    pub(crate) fn finish(mut self) {
        while self.pop().is_some() {}
        if self.requests.is_empty() {
            return;
        }
        let (core, end) = (Arc::clone(&self.core), self.core.clock.now() + self.longest());
        let behind = |node: usize| (node, core.nodes[node].pace.lock().falls_behind(self.began));
        let mut behind: Vec<_> = self.open().iter().map(behind).collect();
        core.background.hand_over(async move {
            while let Some((node, _)) = self.next_until(end).await {
                behind.retain(|(behind, _)| *behind != node);
            }
        });
    }
}

/// An answer of a node: to the request, or to the question whether it confirms a token.
pub(crate) enum Reply<T> {
    Said(T),
    Confirmed(FencingToken, bool),
}

impl<N, T> Asked<N, Reply<T>>
where
    N: QuorumNode,
    T: Send + 'static,
{
    /// Asks nodes to confirm a token for their ballots of a claim.
    pub(crate) fn confirm(
        &mut self,
        claim: &Claim,
        owner: OwnerToken,
        (token, nodes): (FencingToken, NodeSet),
    ) {
        for node in nodes.iter() {
            let (core, claim) = (Arc::clone(&self.core), Ballot { node, owner }.claim(claim));
            self.ask(node, async move {
                let confirm = core.nodes[node].timed(core.clock, |it| it.confirm(&claim, token));
                Ok(Reply::Confirmed(token, core.noted(node, "confirm", confirm.await)?))
            });
        }
    }
}

/// The error for a node that has not answered.
pub(crate) fn late(limit: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("no answer within {limit:?}"))
}
