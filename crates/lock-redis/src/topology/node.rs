//! One server, with everything that belongs to it alone.

use std::sync::Arc;

use lock_core::{Acquire, Error};

use crate::batch::Batches;
use crate::commit::{Committers, Marker, Wish};
use crate::hub::{Channel, Hub, Inbox, Listening, Registry};
use crate::keys::Names;
use crate::link::{Answer, Link, Quarantine, Settings};
use crate::wire::{Call, Failure};

/// One server: the way to it, the messages from it, and the requests to it that begin together.
#[derive(Debug)]
pub(crate) struct Node {
    link: Link,
    hub: Hub,
    batches: Batches,
    /// The most claims that may wait for a key; 0 if none is to be queued.
    queue_limit: u32,
    /// Has grants confirmed.
    committers: Committers,
}

/// What all servers of a deployment have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) listening: Listening,
    pub(crate) queue_limit: u32,
    /// Draws the name of an inbox.
    pub(crate) draw_inbox: Arc<dyn Fn() -> Result<Channel, Error> + Send + Sync>,
}

impl Node {
    /// Sends nothing and starts nothing.
    ///
    /// # Errors
    ///
    /// If the operating system gives no random bytes.
    pub(super) fn new(settings: Settings, common: &Common, by_slot: bool) -> Result<Self, Error> {
        let Common { listening, queue_limit, draw_inbox } = common;
        let inbox = if *queue_limit > 0 { Some(draw_inbox()?) } else { None };
        let registry = Arc::new(Registry::new(inbox));
        let hearing = Arc::clone(&registry);
        let link = Link::new(settings, Arc::new(move |push| hearing.hear(push)));
        let hub = Hub::new(link.clone(), registry, *listening);
        let batches = Batches::new(&link, by_slot);
        let committers = Committers::default();
        Ok(Self { link, hub, batches, queue_limit: *queue_limit, committers })
    }
}

/// A server, for one attempt of a request. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    node: Arc<Node>,
    /// The slot is being moved to this server, which serves requests that know of it.
    asking: bool,
    /// How grants are to be confirmed.
    wish: Option<Wish>,
}

impl Site {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node, asking: false, wish: None }
    }

    /// The server to which a slot is being moved.
    pub(super) fn asking(node: Arc<Node>) -> Self {
        Self { node, asking: true, wish: None }
    }

    /// The server, for a request whose grant is to be confirmed in this way.
    pub(crate) fn confirming(self, wish: Option<Wish>) -> Self {
        Self { wish, ..self }
    }

    /// Calls a script, and loads it first if the server does not know it.
    ///
    /// # Errors
    ///
    /// After a [`Failure::Error`] that is retryable the script may have run.
    pub(crate) async fn run(&self, call: Call) -> Result<Answer, Failure> {
        let call = if self.asking { call.asking() } else { call };
        self.node.link.run(call).await
    }

    /// Sends a request, and has its replicas confirm what it was `granted`. The inner error is that they did not.
    ///
    /// # Errors
    ///
    /// As those of the request. If the server does not say what a confirmation needs, the request is not sent.
    pub(crate) async fn confirmed<T, F>(
        &self,
        names: &Names<'_>,
        request: impl FnOnce() -> F,
        granted: impl Fn(&T) -> bool,
    ) -> Result<Result<T, Error>, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let Node { link, committers, .. } = &*self.node;
        let Some(wish) = self.wish else { return Ok(Ok(request().await?)) };
        let marker = Marker::new(&names.marker(), names.lock(), self.asking);
        let stint = Box::pin(committers.begin(wish, link, &marker)).await?;
        let answer = request().await?;
        if !granted(&answer) {
            return Ok(Ok(answer));
        }
        Ok(Box::pin(stint.commit(link, &marker)).await.map(|()| answer))
    }

    pub(crate) fn link(&self) -> &Link {
        &self.node.link
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.node.hub
    }

    /// Whether a grant that is pushed is only a reason to ask: for the commit, or because its server may have forgotten
    /// the leases of a slot.
    pub(crate) fn confirms(&self) -> bool {
        let quarantine = &self.link().settings().quarantine;
        self.wish.is_some() || quarantine.as_ref().is_some_and(Quarantine::is_by_slot)
    }

    /// The inbox for messages about the lock of a request; `None` if this client does not watch the lock. If the
    /// request is to be queued, a place in the queue is expected.
    pub(crate) fn inbox_of(&self, names: &Names<'_>, request: &Acquire) -> Option<Inbox> {
        self.hub().inbox_of(names, request, self.confirms())
    }

    /// The requests that begin together. None is served before its slot has been moved.
    pub(crate) fn batches(&self) -> Option<&Batches> {
        (!self.asking).then_some(&self.node.batches)
    }

    /// The most claims that may wait for a key; 0 if none is to be queued.
    pub(crate) fn queue_limit(&self) -> u32 {
        self.node.queue_limit
    }

    /// Whether it is the server of the other site.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.is_at(&other.node)
    }

    pub(super) fn is_at(&self, node: &Arc<Node>) -> bool {
        Arc::ptr_eq(&self.node, node)
    }
}
