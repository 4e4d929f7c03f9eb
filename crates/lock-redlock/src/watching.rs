//! Listening to all nodes at once.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::Stream;
use lock_core::{Backoff, Error, ErrorKind, Hint, Instant, Key, QuorumNode, Watch};

use crate::asked::late;
use crate::background::Timer;
use crate::hints::Merger;
use crate::inner::Core;
use crate::watched;

/// How long to wait before listening again to a node that could not be reached.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// How many hints are taken from one node at a time. Then the other nodes and other tasks have their turn.
const AT_ONCE: usize = 32;

/// Listens to a key on all nodes. Returns when it listens to a quorum. The watch joins the other nodes while it is
/// polled.
pub(crate) async fn watch<N: QuorumNode>(core: &Arc<Core<N>>, key: &Key) -> Result<Watch, Error> {
    let mut watching = Watching::new(core, key);
    poll_fn(|context| watching.poll_joined(context)).await?;
    Ok(Watch::new(watching))
}

struct Watching<N> {
    core: Arc<Core<N>>,
    key: Key,
    ears: Vec<Ear>,
    merger: Merger,
    watched: watched::Watching,
    ready: VecDeque<Hint>,
    /// When the nodes must have answered for the watch to begin.
    deadline: Instant,
    timer: Timer,
}

/// The connection to one node, and its state.
struct Ear {
    state: State,
    /// When the node was last joined.
    since: Instant,
    backoff: Backoff,
    trouble: Option<Error>,
}

enum State {
    Joining(BoxFuture<'static, Result<Watch, Error>>),
    Listening(Watch),
    Waiting(Instant),
    /// The node has no hints to give.
    Deaf,
}

impl<N: QuorumNode> Watching<N> {
    fn new(core: &Arc<Core<N>>, key: &Key) -> Self {
        let since = core.clock.now();
        let ear =
            |node| Ear { state: join(core, node, key), since, backoff: BACKOFF, trouble: None };
        Self {
            core: Arc::clone(core),
            key: key.clone(),
            ears: (0..core.quorum.nodes()).map(ear).collect(),
            merger: Merger::new(core.quorum),
            watched: core.watched.watch(key),
            ready: VecDeque::new(),
            deadline: core.clock.now() + core.longest(core.settings.patience()),
            timer: Timer::default(),
        }
    }

    /// Ready when a quorum is joined, or cannot be joined in time.
    fn poll_joined(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let core = Arc::clone(&self.core);
        let _entered = core.background.enter();
        self.poll_ears(context);
        // The watch begins now, so it cannot have missed an earlier hint.
        self.ready.clear();
        if self.merger.is_sure() {
            return Poll::Ready(Ok(()));
        }
        let count = |is: fn(&State) -> bool| self.ears.iter().filter(|ear| is(&ear.state)).count();
        let listening = count(|state| matches!(state, State::Listening(_)));
        let joining = count(|state| matches!(state, State::Joining(_)));
        let is_late = core.clock.now() >= self.deadline;
        if listening + joining >= core.quorum.needed() && !is_late {
            return self
                .poll_timer(Some(self.deadline), context)
                .map(|()| Err(self.failure(listening)));
        }
        Poll::Ready(Err(self.failure(listening)))
    }

    fn failure(&self, listening: usize) -> Error {
        let limit = self.core.longest(self.core.settings.patience());
        let said = self.ears.iter().map(|ear| match ear.state {
            State::Joining(_) => Some(late(limit)),
            _ => ear.trouble.clone(),
        });
        let needed = self.core.quorum.needed();
        self.core.failure(needed, "listen", listening, &said.collect::<Vec<_>>())
    }

    /// Listens to all nodes. Returns whether it has heard all that there was. Otherwise it wakes the task.
    fn poll_ears(&mut self, context: &mut Context<'_>) -> bool {
        let mut is_all = true;
        for node in 0..self.ears.len() {
            let may_say_more = (0..AT_ONCE).all(|_| self.poll_ear(node, context));
            is_all &= !may_say_more;
        }
        if !is_all {
            context.waker().wake_by_ref();
        }
        is_all
    }

    /// Listens to one node. Returns whether something happened.
    fn poll_ear(&mut self, node: usize, context: &mut Context<'_>) -> bool {
        let now = self.core.clock.now();
        let ear = &mut self.ears[node];
        let (state, hint) = match &mut ear.state {
            State::Deaf => return false,
            State::Waiting(until) if now < *until => return false,
            State::Waiting(_) => (join(&self.core, node, &self.key), None),
            State::Joining(joining) => match joining.as_mut().poll(context) {
                Poll::Pending => return false,
                Poll::Ready(Ok(watch)) => {
                    ear.since = now;
                    ear.trouble = None;
                    (State::Listening(watch), self.merger.listen(node))
                }
                Poll::Ready(Err(error)) => (ear.fail(error, now), None),
            },
            State::Listening(watch) => match Pin::new(watch).poll_next(context) {
                Poll::Pending => return false,
                Poll::Ready(Some(hint)) => {
                    self.ready.extend(self.merger.hear(node, hint, now));
                    return true;
                }
                Poll::Ready(None) => {
                    // A watch that ends at once counts as a failure.
                    let state = if now >= ear.since + ear.backoff.pause() {
                        ear.backoff.reset();
                        join(&self.core, node, &self.key)
                    } else {
                        ear.rest(now)
                    };
                    (state, self.merger.lose(node, now))
                }
            },
        };
        self.ears[node].state = state;
        self.ready.extend(hint);
        true
    }

    fn poll_timer(&mut self, at: Option<Instant>, context: &mut Context<'_>) -> Poll<()> {
        at.map_or(Poll::Pending, |at| self.timer.poll(self.core.clock, at, context))
    }

    fn next_event(&self) -> Option<Instant> {
        let waits = self.ears.iter().filter_map(|ear| match ear.state {
            State::Waiting(until) => Some(until),
            _ => None,
        });
        waits.chain(self.merger.due()).min()
    }
}

impl Ear {
    /// What to do after a node could not be joined.
    fn fail(&mut self, error: Error, now: Instant) -> State {
        let is_deaf = error.kind() == ErrorKind::Unsupported;
        self.trouble = Some(error);
        if is_deaf { State::Deaf } else { self.rest(now) }
    }

    /// Leaves the node alone for a while, and for twice as long the next time.
    fn rest(&mut self, now: Instant) -> State {
        State::Waiting(now + self.backoff.fail())
    }
}

fn join<N: QuorumNode>(core: &Arc<Core<N>>, node: usize, key: &Key) -> State {
    let (core, key) = (Arc::clone(core), key.clone());
    let joining = async move {
        let watch = core.nodes[node].backend.watch(&key).await;
        core.noted(node, "watch", watch)
    };
    State::Joining(joining.boxed())
}

impl<N: QuorumNode> Stream for Watching<N> {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        let this = &mut *self;
        let core = Arc::clone(&this.core);
        let _entered = core.background.enter();
        loop {
            let is_all = this.poll_ears(context);
            let now = core.clock.now();
            this.ready.extend(this.merger.fire(now));
            if let Some(hint) = this.ready.pop_front() {
                if matches!(hint, Hint::Released | Hint::Expired) {
                    this.watched.turns();
                }
                return Poll::Ready(Some(hint));
            }
            if this.ears.iter().all(|ear| matches!(ear.state, State::Deaf)) {
                return Poll::Ready(None);
            }
            if !is_all || this.poll_timer(this.next_event(), context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
