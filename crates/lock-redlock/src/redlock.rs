//! The quorum as a backend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Capabilities, Claim, ClientMark, Clock, Error, ErrorKind,
    Key, Label, Limits, Mode, QuorumNode, Released, Renew, Renewal, Ttl, Watch,
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
/// random token for the next attempt. So the release of a dead ballot ends no other vote, no matter when it arrives.
/// The process remembers a claim with dead ballots as long as it asks for the claim, and for at least twice the
/// [longest lease](Builder::max_ttl) after that.
///
/// The process knows the ballots of its claims. If another process asked for a claim, this process renews and
/// releases the claim by its first ballots. But if the other process has given up a ballot of the claim before,
/// [`renew`](Backend::renew) answers that the lease is lost and [`release`](Backend::release) that it is not held,
/// although the other process may hold it. That lease ends by itself.
///
/// # Cancel safety
///
/// As [`Backend`] says. There is one request for a claim at a time. A repeated request waits for the outcome of the
/// first request. The repeated request asks the nodes itself if the first request is dropped, fails, takes too long, or
/// is granted for another ttl or another number of tokens. A dropped request releases its votes, unless the claim
/// already has its lease. In the background, the quorum releases a vote that arrives after the decision, unless the
/// claim is held. The quorum repeats a release that a node has missed until the longest lease would be over.
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
    /// For nodes of different types, make each node an `Arc<dyn QuorumNode>`.
    pub fn builder() -> Builder<N> {
        Builder::new()
    }

    /// The nodes, with their names.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &N)> {
        self.core.nodes.iter().map(|node| (&*node.name, &node.backend))
    }

    /// The shortest time for which the lease of a dead client blocks the key. The lease itself may be shorter.
    ///
    /// A node may have a [shortest lease](QuorumNode::shortest_ttl). If a client wants a shorter lease, the quorum asks
    /// such a node for its shortest lease, and counts only the wanted time. The next client needs a majority of nodes
    /// at which the lease is over. So the result is the longest limit within the majority with the shortest limits: a
    /// minority of nodes with long limits costs nothing.
    pub fn shortest_ttl(&self) -> Ttl {
        self.of_fastest(N::shortest_ttl)
    }

    /// The longest limit within the majority with the shortest limits.
    fn of_fastest<T: Ord + Copy>(&self, limit: impl Fn(&N) -> T) -> T {
        let nodes = self.core.nodes.iter();
        let mut limits: Vec<_> = nodes.map(|node| limit(&node.backend)).collect();
        limits.sort_unstable();
        limits[self.core.quorum.needed() - 1]
    }

    pub(crate) fn new(core: Arc<Core<N>>, open: Open) -> Self {
        Self { core, _open: open }
    }

    pub(crate) fn core(&self) -> &Arc<Core<N>> {
        &self.core
    }

    /// Vouches for all nodes at once. The caller asserts that no client holds a lock that a node may have forgotten.
    ///
    /// A node that is new, has restarted or was flushed does not vote until a client has watched it for the
    /// longest lease. A new deployment need not wait for that. **Do not call `init` when a process starts**:
    /// on nodes that are in use, it undoes the protection against restarts, and two clients can hold one
    /// lock.
    ///
    /// # Errors
    ///
    /// The call has to reach every node. The error names each failed node, and is as retryable as the errors of these
    /// nodes. The call has vouched for the other nodes. While no client holds a lock, it is safe to repeat the call.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the call may have vouched for some nodes and not for others.
    pub async fn init(&self) -> Result<(), Error> {
        status::init(&self.core).await
    }

    /// Makes the node `new` of this quorum take the place of the node `old`, which this quorum does not have.
    ///
    /// 1. Start the new server, empty.
    /// 2. Call this method once, with a quorum of the new set of nodes. The replaced node may be dead.
    /// 3. Restart the clients with the new nodes. From the call on, clients with the former nodes get no lock, and
    ///    their leases end.
    ///
    /// The remaining nodes vote again after about half a second. The new node votes after its quarantine.
    ///
    /// # Why it is safe
    ///
    /// Each node records the membership of its quorum, and ballots and renewals count only at nodes of their quorum.
    /// First, so many of the remaining nodes leave the former membership that the nodes that keep it are no majority.
    /// From then on, clients with the former nodes get no new lease, and half a second later they renew no lease. Only
    /// then does the new node begin its quarantine, which lasts longer than the longest lease. So all these leases are
    /// over when the quarantine ends. Until then, clients with the new nodes need a majority without the new node. Each
    /// such majority has a node that still has the former lease.
    ///
    /// The argument assumes that the new node was empty, and that all clients use the quarantine. It also assumes that
    /// no node loses its data while clients with the former nodes are still there: such a node takes the membership of
    /// the first client that asks. A node that restarts with its data keeps its membership. Replace one node at a time.
    /// To change the number of nodes, stop all clients, wait for the longest lease, and call [`init`](Self::init).
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidConfig`] if the names do not fit, or the new node votes already;
    /// - the errors of the nodes, if too few remaining nodes answered, or the new node did not. Then it is possible
    ///   that no client gets a lock until the call is repeated.
    ///
    /// A node that did not answer does not vote for clients with the new nodes until the call is repeated. It is safe
    /// to repeat the call. The new node then begins its quarantine again.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves the nodes as after an error: repeat the call.
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

    /// Asks each node for its status now. Returns the statuses in the order in which the builder got the nodes.
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
            Mode::Permits { .. } => return Err(Error::new(ErrorKind::Unsupported, CANNOT_COUNT)),
            Mode::Joint { .. } => return Err(Error::new(ErrorKind::Unsupported, CANNOT_JOIN)),
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

    /// Each limit is the longest limit within the majority with the shortest limits, as in
    /// [`shortest_ttl`](Self::shortest_ttl).
    fn limits(&self) -> Limits {
        let usual = Limits::default().with_min_ttl(self.shortest_ttl());
        let (step, lag) = (|it: &N| it.limits().step, |it: &N| it.limits().lag);
        usual.with_step(self.of_fastest(step)).with_lag(self.of_fastest(lag))
    }

    fn capabilities(&self) -> Capabilities<'_> {
        // The other capabilities depend on the type of the nodes.
        Capabilities::none().without_queue()
    }
}

const CANNOT_COUNT: &str = "a quorum cannot count permits: two on each of three nodes can be granted to three holders, \
                            each of whom has two nodes";
const CANNOT_JOIN: &str = "a quorum does not let several owners hold a lock as one: see the docs of lock-redlock for what \
                           to do instead";
