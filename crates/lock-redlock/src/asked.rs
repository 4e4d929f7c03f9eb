//! Asking several nodes at once.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, Stream};
use lock_core::{Error, ErrorKind, Instant, QuorumNode};

use crate::background::Timer;
use crate::inner::Core;
use crate::quorum::NodeSet;

/// Requests to nodes that are under way. The caller that waits for the answers polls them.
///
/// So an answer wakes no other thread. Once a quorum has answered, the remaining requests go on
/// [by themselves](Self::finish).
pub(crate) struct Asked<N, T> {
    core: Arc<Core<N>>,
    requests: FuturesUnordered<BoxFuture<'static, (usize, Result<T, Error>)>>,
    /// The answers that have come and were not taken yet.
    ready: VecDeque<(usize, Result<T, Error>)>,
    /// How many answers of each node are still to be taken.
    open: Vec<usize>,
    /// The last error of each node.
    said: Vec<Option<Error>>,
    began: Instant,
    /// When the time limits began to run.
    since: Instant,
    /// How long a node may take to answer, unless it has another limit.
    limit: Duration,
    timer: Timer,
}

impl<N, T> Asked<N, T>
where
    N: QuorumNode,
    T: Send + 'static,
{
    /// Asks no node yet. The wait for the answer of a node takes at most `limit`, or as long as that node may take.
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

    /// Asks a node. The request is sent with the next call of [`next`](Self::next), like all others.
    pub(crate) fn ask(
        &mut self,
        node: usize,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) {
        // The runtime of another caller may end during a request, and then timers panic.
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

    /// The next answer, or `None` in place of an answer for a node that has failed. Ends when all nodes have answered,
    /// or the time is over.
    ///
    /// No request is left unsent: this polls each request before it returns an answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no answer.
    pub(crate) async fn next(&mut self) -> Option<(usize, Option<T>)> {
        self.next_until(self.deadline()).await
    }

    /// As [`next`](Self::next), with another end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no answer.
    pub(crate) async fn next_until(&mut self, at: Instant) -> Option<(usize, Option<T>)> {
        poll_fn(|context| self.poll_next(at, context)).await
    }

    /// All answers that come in time, without those of nodes that have failed.
    pub(crate) async fn all(&mut self) -> Vec<(usize, T)> {
        let mut all = Vec::new();
        while let Some((node, answer)) = self.next().await {
            all.extend(answer.map(|answer| (node, answer)));
        }
        all
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

    /// Whether there are answers that were not taken yet.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether the time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.core.clock.now() >= self.deadline()
    }

    /// What each node has said: its error, or that it has not answered.
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

    /// The error of a node that has answered with one.
    pub(crate) fn error_of(&self, node: usize) -> Option<&Error> {
        self.said[node].as_ref()
    }

    /// The error for too few answers.
    pub(crate) fn failure(&self, what: &str, answered: usize) -> Error {
        self.core.failure(self.core.quorum.needed(), what, answered, &self.said())
    }

    /// Lets the remaining requests go on without the caller, and passes each answer to `then`, which may ask for more.
    /// When the time is over, the nodes that have not answered have failed.
    ///
    /// The worker of the quorum polls the requests. This starts no task, so `Drop` may call it.
    pub(crate) fn finish(self, then: impl FnMut(&mut Self, usize, Option<T>) + Send + 'static) {
        if self.requests.is_empty() && self.ready.is_empty() {
            return;
        }
        let (core, end) = (Arc::clone(&self.core), self.core.clock.now() + self.longest());
        let behind = self.open();
        behind.iter().for_each(|node| core.nodes[node].falls_behind(self.began));
        let mut rest = Rest { asked: self, then: Box::new(then), behind };
        while let Some((node, answer)) = rest.asked.pop() {
            rest.note(node, answer);
        }
        if rest.asked.requests.is_empty() {
            return;
        }
        core.background.hand_over(async move {
            while let Some((node, answer)) = rest.asked.next_until(end).await {
                rest.note(node, answer);
            }
        });
    }
}

/// The function that gets the answers to the remaining requests. `None` for a node that has failed, or is late.
type Then<N, T> = dyn FnMut(&mut Asked<N, T>, usize, Option<T>) + Send;

/// The remaining requests.
struct Rest<N: QuorumNode, T: Send + 'static> {
    asked: Asked<N, T>,
    then: Box<Then<N, T>>,
    /// The nodes that owe an answer.
    behind: NodeSet,
}

impl<N: QuorumNode, T: Send + 'static> Rest<N, T> {
    fn note(&mut self, node: usize, answer: Option<T>) {
        if self.behind.remove(node) {
            self.asked.core.nodes[node].catches_up();
        }
        (self.then)(&mut self.asked, node, answer);
    }
}

/// Each node that has not answered by then is too late, also if the runtime that waited has ended.
impl<N: QuorumNode, T: Send + 'static> Drop for Rest<N, T> {
    fn drop(&mut self) {
        while let Some((node, answer)) = self.asked.pop() {
            self.note(node, answer);
        }
        self.asked.open().iter().for_each(|node| self.note(node, None));
    }
}

/// The error for a node that has not answered.
pub(crate) fn late(limit: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("no answer within {limit:?}"))
}
