//! Several nodes asked at once.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, Stream};
use lock_core::{Error, ErrorKind, Instant};
use tokio::time::Sleep;

use crate::inner::Core;
use crate::quorum::NodeSet;

/// Requests to nodes that are under way, polled by whoever waits for the answers.
///
/// An answer that is read where it is awaited wakes no other thread. What is left once a quorum has answered
/// goes on elsewhere.
pub(crate) struct Asked<N, T> {
    core: Arc<Core<N>>,
    requests: FuturesUnordered<BoxFuture<'static, (usize, Result<T, Error>)>>,
    /// How many requests each node has still to answer.
    open: Vec<usize>,
    limit: Duration,
    deadline: Instant,
    /// Made when there is something to wait for.
    timer: Option<Pin<Box<Sleep>>>,
}

/// The answers that have arrived, and from whom.
pub(crate) type Batch<T> = Vec<(usize, Result<T, Error>)>;

impl<N, T> Asked<N, T>
where
    N: Send + Sync + 'static,
    T: Send + 'static,
{
    /// Nobody is asked yet. Answers are waited for no longer than `limit`.
    pub(crate) fn new(core: &Arc<Core<N>>, limit: Duration) -> Self {
        Self {
            core: Arc::clone(core),
            requests: FuturesUnordered::new(),
            open: vec![0; core.quorum.nodes()],
            limit,
            deadline: core.clock.now() + limit,
            timer: None,
        }
    }

    /// Asks a node. The request is sent with the next call of [`answers`](Self::answers), like all others.
    pub(crate) fn ask(
        &mut self,
        node: usize,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) {
        // Somebody else's runtime may end under a request, and then timers panic.
        let request = AssertUnwindSafe(request).catch_unwind().map(move |answer| {
            let panicked = |_| Err(Error::new(ErrorKind::Other, "the request panicked"));
            (node, answer.unwrap_or_else(panicked))
        });
        self.requests.push(request.boxed());
        self.open[node] += 1;
    }

    /// Waits for as long again as at first.
    pub(crate) fn extend(&mut self) {
        self.deadline = self.core.clock.now() + self.limit;
        self.timer = None;
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// The nodes that have still to answer.
    pub(crate) fn open(&self) -> NodeSet {
        (0..self.open.len()).filter(|&node| self.open[node] > 0).collect()
    }

    /// Every answer that has arrived, once there is one. `None` when all have, or the time is over.
    ///
    /// No request is left unsent: each was polled before any answer is returned.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no answer.
    pub(crate) async fn answers(&mut self) -> Option<Batch<T>> {
        poll_fn(|context| self.poll_answers(context)).await
    }

    fn poll_answers(&mut self, context: &mut Context<'_>) -> Poll<Option<Batch<T>>> {
        let core = Arc::clone(&self.core);
        let _entered = core.background.enter();
        let mut batch = Vec::new();
        while let Poll::Ready(Some((node, answer))) =
            Pin::new(&mut self.requests).poll_next(context)
        {
            self.open[node] -= 1;
            batch.push((node, answer));
        }
        if !batch.is_empty() {
            return Poll::Ready(Some(batch));
        }
        if self.requests.is_empty() {
            return Poll::Ready(None);
        }
        let left = self.deadline.saturating_duration_since(core.clock.now());
        if left.is_zero() {
            return Poll::Ready(None);
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(left)));
        timer.as_mut().poll(context).map(|()| None)
    }

    /// Has what is left go on without whoever asked, and each answer looked after there. A node that does not
    /// answer in time has given an error.
    pub(crate) fn finish(mut self, then: impl FnMut(usize, Result<T, Error>) + Send + 'static) {
        if self.open().is_empty() {
            return;
        }
        self.extend();
        let core = Arc::clone(&self.core);
        let backlog = Backlog::new(Arc::clone(&core), self.open());
        let mut rest = Rest { asked: self, then, backlog };
        core.background.spawn_near(async move {
            while let Some(batch) = rest.asked.answers().await {
                for (node, answer) in batch {
                    rest.backlog.answered(node);
                    (rest.then)(node, answer);
                }
            }
        });
    }
}

/// What is left of some requests, and what becomes of the answers.
struct Rest<N, T, F>
where
    N: Send + Sync + 'static,
    T: Send + 'static,
    F: FnMut(usize, Result<T, Error>),
{
    asked: Asked<N, T>,
    then: F,
    backlog: Backlog<N>,
}

/// Whoever has not answered by then is too late: also if it is because the runtime has ended that waited.
impl<N, T, F> Drop for Rest<N, T, F>
where
    N: Send + Sync + 'static,
    T: Send + 'static,
    F: FnMut(usize, Result<T, Error>),
{
    fn drop(&mut self) {
        for node in self.asked.open().iter() {
            (self.then)(node, Err(late(self.asked.limit)));
        }
    }
}

/// Nodes that are behind by one request each.
struct Backlog<N> {
    core: Arc<Core<N>>,
    nodes: NodeSet,
}

impl<N> Backlog<N> {
    fn new(core: Arc<Core<N>>, nodes: NodeSet) -> Self {
        nodes.iter().for_each(|node| core.nodes[node].falls_behind());
        Self { core, nodes }
    }

    fn answered(&mut self, node: usize) {
        if self.nodes.remove(node) {
            self.core.nodes[node].catches_up();
        }
    }
}

impl<N> Drop for Backlog<N> {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|node| self.core.nodes[node].catches_up());
    }
}

/// A node that has not answered.
pub(crate) fn late(limit: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("no answer within {limit:?}"))
}
