//! Listens to all nodes at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::stream::{self, BoxStream, SelectAll, Stream, StreamExt};
use lock_core::{Backoff, Error, ErrorKind, Hint, Instant, Key, QuorumNode, Watch};

use crate::asked::late;
use crate::background::{Timer, pause, within};
use crate::hints::Merger;
use crate::inner::Core;
use crate::keep::BACKOFF;
use crate::watched;

/// How much to hear at a time. Then other tasks have their turn.
const AT_ONCE: usize = 64;

/// Listens to a key on all nodes. Returns when it listens to a quorum. The watch joins the other nodes while it is
/// polled.
pub(crate) async fn watch<N: QuorumNode>(core: &Arc<Core<N>>, key: &Key) -> Result<Watch, Error> {
    let ears = (0..core.quorum.nodes()).map(|node| listen(core, node, key)).collect();
    let mut watching = Watching {
        core: Arc::clone(core),
        ears,
        troubles: vec![None; core.quorum.nodes()],
        merger: Merger::new(core.quorum),
        watched: core.watched.watch(key),
        timer: Timer::default(),
    };
    watching.join().await?;
    Ok(Watch::new(watching))
}

struct Watching<N> {
    core: Arc<Core<N>>,
    ears: SelectAll<BoxStream<'static, (usize, Heard)>>,
    /// Why the process does not hear a node.
    troubles: Vec<Option<Error>>,
    merger: Merger,
    watched: watched::Watching,
    timer: Timer,
}

/// What happened at one node.
enum Heard {
    /// The process hears the node from now on.
    Joined,
    Hint(Hint),
    /// The process does not hear the node.
    Lost(Error),
}

impl<N: QuorumNode> Watching<N> {
    /// Waits until the watch has joined a quorum. The watch begins then, so it cannot have missed an earlier hint.
    async fn join(&mut self) -> Result<(), Error> {
        let core = Arc::clone(&self.core);
        let limit = core.longest(core.settings.patience());
        let hear_enough = async {
            let is_possible = |lost: usize| lost <= core.quorum.spare();
            while !self.merger.is_sure() && is_possible(self.troubles.iter().flatten().count()) {
                let heard = poll_fn(|context| {
                    let _entered = core.background.enter();
                    self.ears.poll_next_unpin(context)
                });
                let Some((node, heard)) = heard.await else { return };
                self.note(node, heard);
            }
        };
        within(&core.background, core.clock, limit, hear_enough).await;
        if self.merger.is_sure() { Ok(()) } else { Err(self.failure(limit)) }
    }

    fn failure(&self, limit: Duration) -> Error {
        let listening = self.merger.listening();
        let said = self.troubles.iter().enumerate().map(|(node, trouble)| {
            trouble.clone().or_else(|| (!listening.contains(node)).then(|| late(limit)))
        });
        let needed = self.core.quorum.needed();
        self.core.failure(needed, "listen", listening.len(), &said.collect::<Vec<_>>())
    }

    fn note(&mut self, node: usize, heard: Heard) -> Option<Hint> {
        let now = self.core.clock.now();
        self.troubles[node] = None;
        match heard {
            Heard::Joined => self.merger.listen(node),
            Heard::Hint(hint) => self.merger.hear(node, hint, now),
            Heard::Lost(error) => {
                self.troubles[node] = Some(error);
                let was_heard = self.merger.listening().contains(node);
                if was_heard { self.merger.lose(node, now) } else { None }
            }
        }
    }
}

/// The connection to one node.
struct Ear<N> {
    core: Arc<Core<N>>,
    node: usize,
    key: Key,
    watch: Option<Watch>,
    /// When the node was last joined.
    since: Instant,
    /// How long to leave the node alone. `None` if the node has no hints to give.
    rest: Option<Duration>,
    backoff: Backoff,
}

fn listen<N: QuorumNode>(
    core: &Arc<Core<N>>,
    node: usize,
    key: &Key,
) -> BoxStream<'static, (usize, Heard)> {
    let (core, key, since) = (Arc::clone(core), key.clone(), core.clock.now());
    let rest = Some(Duration::ZERO);
    let ear = Ear { core, node, key, watch: None, since, rest, backoff: BACKOFF };
    let hear = |mut ear: Ear<N>| async move { Some(((ear.node, ear.hear().await?), ear)) };
    stream::unfold(ear, hear).boxed()
}

impl<N: QuorumNode> Ear<N> {
    async fn hear(&mut self) -> Option<Heard> {
        let core = &self.core;
        if let Some(watch) = &mut self.watch {
            if let Some(hint) = watch.next().await {
                return Some(Heard::Hint(hint));
            }
            self.watch = None;
            // A watch that ends at once counts as a failure.
            let has_lasted = core.clock.now() >= self.since + self.backoff.pause();
            self.rest = Some(if has_lasted { Duration::ZERO } else { self.backoff.fail() });
            if has_lasted {
                self.backoff.reset();
            }
            return Some(Heard::Lost(Error::new(ErrorKind::Unreachable, "its watch has ended")));
        }
        pause(&core.background, core.clock, self.rest?).await;
        let watch = core.nodes[self.node].backend.watch(&self.key).await;
        match core.noted(self.node, "watch", watch) {
            Ok(watch) => {
                (self.watch, self.since) = (Some(watch), core.clock.now());
                Some(Heard::Joined)
            }
            Err(error) => {
                let is_deaf = error.kind() == ErrorKind::Unsupported;
                self.rest = if is_deaf { None } else { Some(self.backoff.fail()) };
                Some(Heard::Lost(error))
            }
        }
    }
}

impl<N: QuorumNode> Stream for Watching<N> {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        let this = &mut *self;
        let core = Arc::clone(&this.core);
        let _entered = core.background.enter();
        for _ in 0..AT_ONCE {
            let hint = match this.ears.poll_next_unpin(context) {
                Poll::Ready(Some((node, heard))) => this.note(node, heard),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    let due = this.merger.due().unwrap_or(Instant::FAR_FUTURE);
                    ready!(this.timer.poll(core.clock, due, context));
                    this.merger.fire(core.clock.now())
                }
            };
            if let Some(hint) = hint {
                if matches!(hint, Hint::Released | Hint::Expired) {
                    this.watched.turns();
                }
                return Poll::Ready(Some(hint));
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
