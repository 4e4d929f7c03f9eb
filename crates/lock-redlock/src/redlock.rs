//! The quorum as a backend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, ClientMark, Clock, Error, ErrorKind, Key, Label, Mode,
    QuorumNode, Released, Renew, Renewal, Ttl, Watch,
};

use crate::background::Open;
use crate::inner::Core;
use crate::{Builder, NodeStatus};
use crate::{acquire, capabilities, release, renew, replace, status, watching};

/// Several independent stores as one: the client with the votes of a majority holds a lock.
///
/// It is a [`Backend`] like any other, so all primitives of `lock-sync` that a majority can carry work over it:
/// the mutex, the `RwLock` without upgradable reads, and the primitives built from these. Clones share everything.
///
/// # Ballots
///
/// A node knows a claim by a *ballot*: an owner token for one attempt at that node. The first ballot of a claim has the
/// owner token of the claim. A ballot that was given up is dead: the process does not use its token again, and draws a
/// random one for the next attempt. So the release of a dead ballot ends no other vote, whenever it arrives. The
/// process remembers that a claim has dead ballots for as long as the claim is asked for, and for the
/// [longest lease](Builder::max_ttl) after that.
///
/// The process knows the ballots of its claims. A claim that the process does not know, because another process asked
/// for it, is renewed and released by its first ballots. If that process has given up a ballot of the claim before,
/// [`renew`](Backend::renew) answers that the lease is lost and [`release`](Backend::release) that it is not held,
/// although the other process may hold it. Its lease ends by itself.
///
/// # Cancel safety
///
/// As [`Backend`] says. There is one request for a claim at a time. A repeated request waits for the first and gets its
/// outcome. If the first is dropped or fails, the repeated request asks for itself. A request that is dropped gives its
/// votes back, unless the claim already has its lease. In addition, the quorum works in the background: it gives up a vote that arrives after its
/// request was decided, and repeats a release that a node has missed until the lease is over.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Key, OwnerToken, Ttl};
/// use lock_redlock::Redlock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let nodes = [MemoryBackend::new(), MemoryBackend::new(), MemoryBackend::new()];
/// let quorum = Redlock::builder().nodes(nodes.clone()).build().await?;
/// // These nodes are new.
/// quorum.init().await?;
///
/// let claim = Claim::exclusive(Key::new("orders/42")?, OwnerToken::generate()?);
/// nodes[0].faults().cut();
/// let attempt = quorum.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?;
/// assert!(matches!(attempt, AcquireOutcome::Granted(_)));
///
/// nodes[1].faults().cut();
/// let error = quorum.release(&claim).await.unwrap_err();
/// assert!(error.is_retryable());
/// assert!(error.to_string().starts_with("1 of 3 nodes released it, 2 are needed: 1: "));
/// # Ok(())
/// # }
/// ```
pub struct Redlock<N: QuorumNode = Arc<dyn QuorumNode>> {
    core: Arc<Core<N>>,
    _open: Open,
}

impl<N: QuorumNode> Redlock<N> {
    /// Sets up a quorum.
    ///
    /// For nodes of different types, make each an `Arc<dyn QuorumNode>`.
    pub fn builder() -> Builder<N> {
        Builder::new()
    }

    /// The nodes, with their names.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &N)> {
        self.core.nodes.iter().map(|node| (&*node.name, &node.backend))
    }

    /// How long a lease blocks the key at least, if its client dies: no matter how short the lease is.
    ///
    /// A node may have a [shortest lease](QuorumNode::shortest_ttl). If a client asks for a shorter one, it asks such a node
    /// for the shortest instead, and counts only the time that it asked for. The next client needs a majority of nodes
    /// where the lease is over. So this is the limit of the node with the longest limit in the majority of nodes with the
    /// shortest limits: a minority of slow stores costs nothing.
    pub fn shortest_ttl(&self) -> Ttl {
        let nodes = self.core.nodes.iter();
        let mut limits: Vec<_> = nodes.map(|node| node.backend.shortest_ttl()).collect();
        limits.sort_unstable();
        limits[self.core.quorum.needed() - 1]
    }

    pub(crate) fn new(core: Arc<Core<N>>, open: Open) -> Self {
        Self { core, _open: open }
    }

    pub(crate) fn core(&self) -> &Arc<Core<N>> {
        &self.core
    }

    /// Vouches for all nodes at once: no client holds a lock that a node may have forgotten.
    ///
    /// A node that is new, has restarted or was flushed does not vote until a client has watched it for as
    /// long as the longest lease lives. A new deployment need not wait for that. **Do not call it when a
    /// process starts**: on nodes that were in use it undoes the protection against restarts, and two clients
    /// can hold one lock.
    ///
    /// # Errors
    ///
    /// Every node has to be reached. The error names each node that failed, and is as retryable as the errors of these
    /// nodes. The other nodes stay vouched for. Repeating the call is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open which nodes were vouched for.
    pub async fn init(&self) -> Result<(), Error> {
        status::init(&self.core).await
    }

    /// Has the node `new` of this quorum take the place of the node `old`, which this quorum does not have.
    ///
    /// 1. Start the new server, empty.
    /// 2. Call this once, with a quorum of the nodes as they will be. The replaced node may be dead.
    /// 3. Restart the clients with the new nodes. From the call on, clients with the former nodes get no lock, and their
    ///    leases end.
    ///
    /// The remaining nodes vote again after about half a second. The new node votes after its quarantine.
    ///
    /// # Why it is safe
    ///
    /// Each node records the membership of its quorum, and ballots and renewals count only at nodes of their quorum.
    /// First, so many of the remaining nodes leave the former membership that the others are no majority. After that the
    /// clients with the former nodes get no lease and, after half a second, renew none. So all their leases are over one
    /// longest lease later. Only then does the new node begin its quarantine, which lasts longer than that. Until then the
    /// clients with the new nodes need a majority without the new node. Each such majority has a node that still holds
    /// the former lease.
    ///
    /// This assumes that the new node was empty, and that all clients use the quarantine. It also assumes that no node
    /// loses its data while clients with the former nodes are still there: such a node takes the membership of the first
    /// client that looks. A node that restarts with its data keeps its membership. Replace one node at a time. To
    /// change the number of nodes, stop all clients, wait for the longest lease, and call [`init`](Self::init).
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidConfig`] if the names do not fit, or the new node votes already;
    /// - the errors of the nodes, if too few remaining nodes answered or the new node did not. No client may then get a
    ///   lock until the call is repeated.
    ///
    /// Nodes that did not answer do not vote until the call is repeated. Repeating it is safe. The new node then begins
    /// its quarantine again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the nodes as after an error: repeat the call.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_redlock::Redlock;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let [paris, dublin, milan, madrid] = [(); 4].map(|()| MemoryBackend::new());
    /// let before = Redlock::builder()
    ///     .node("paris", paris.client())
    ///     .node("dublin", dublin.client())
    ///     .node("milan", milan.client())
    ///     .build()
    ///     .await?;
    /// before.init().await?;
    ///
    /// let after = Redlock::builder()
    ///     .node("paris", paris.client())
    ///     .node("dublin", dublin.client())
    ///     .node("madrid", madrid.client())
    ///     .build()
    ///     .await?;
    /// after.replace("milan", "madrid").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn replace(&self, old: &str, new: &str) -> Result<(), Error> {
        replace::replace(&self.core, old, new).await
    }

    /// Asks each node for its status now, and returns them in the order in which the builder got the nodes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn status(&self) -> Vec<NodeStatus> {
        status::status(&self.core).await
    }
}

impl<N: QuorumNode> Clone for Redlock<N> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), _open: self._open.clone() }
    }
}

impl<N: QuorumNode> fmt::Debug for Redlock<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.core.nodes.iter().map(|node| &*node.name).collect();
        f.debug_struct("Redlock").field("nodes", &names).finish_non_exhaustive()
    }
}

#[async_trait]
impl<N: QuorumNode> Backend for Redlock<N> {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        match request.claim.mode {
            Mode::Permits { .. } => return Err(cannot_count()),
            Mode::Joint { .. } => return Err(cannot_join()),
            _ => self.core.settings.check(request.ttl)?,
        }
        acquire::acquire(&self.core, request).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        renew::renew(&self.core, request).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        release::release(&self.core, claim).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        watching::watch(&self.core, key).await
    }

    async fn introduce(
        &self,
        client: ClientMark,
        label: &Label,
        keep: Duration,
    ) -> Result<(), Error> {
        capabilities::introduce(&self.core, client, label, keep).await
    }

    fn clock(&self) -> Clock {
        self.core.clock
    }
}

fn cannot_count() -> Error {
    let message = "a quorum cannot count permits: two on each of three nodes can be granted to three \
                   holders, each of whom has two nodes";
    Error::new(ErrorKind::Unsupported, message)
}

fn cannot_join() -> Error {
    let message = "a quorum does not let several owners hold a lock as one: see the docs of lock-redlock for \
                   what to do instead";
    Error::new(ErrorKind::Unsupported, message)
}
