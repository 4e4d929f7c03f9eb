//! The quorum as a backend.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Acquire, Attempt, Backend, Claim, Clock, Error, ErrorKind, Key, Mode, QuorumNode};
use lock_core::{Released, Renew, Renewal, Watch};

use crate::background::Open;
use crate::inner::Core;
use crate::{Builder, NodeStatus};
use crate::{acquire, release, renew, status, watching};

/// Several independent stores as one: whoever has the votes of a majority holds a lock.
///
/// It is a [`Backend`] like any other, so all primitives of `lock-sync` that a majority can carry work over it:
/// the mutex, the `RwLock` without upgradable reads, and what is made of them. Clones share everything.
///
/// # Cancel safety
///
/// As [`Backend`] says, and besides: a vote that comes after its request was decided is given up in the
/// background, and a release that a node has missed is repeated there until the lease is over.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Acquire, Attempt, Backend, Claim, Key, OwnerToken, Ttl};
/// use lock_redlock::Redlock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let nodes = [MemoryBackend::new(), MemoryBackend::new(), MemoryBackend::new()];
/// let quorum = Redlock::builder().nodes(nodes.clone()).build().await?;
/// // Nobody can have used these before.
/// quorum.init().await?;
///
/// let claim = Claim::exclusive(Key::new("orders/42")?, OwnerToken::generate()?);
/// nodes[0].faults().cut();
/// let attempt = quorum.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?;
/// assert!(matches!(attempt, Attempt::Granted(_)));
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

    pub(crate) fn new(core: Arc<Core<N>>, open: Open) -> Self {
        Self { core, _open: open }
    }

    pub(crate) fn core(&self) -> &Arc<Core<N>> {
        &self.core
    }

    /// Vouches for all nodes at once: that nobody holds a lock on any of them which it might have forgotten.
    ///
    /// A node that is new, has restarted or was flushed does not vote until a client has watched it for as
    /// long as the longest lease lives. A new deployment need not wait for that. **Do not call it when a
    /// process starts**: on nodes that were in use it undoes the protection against restarts, and two clients
    /// can hold one lock.
    ///
    /// # Errors
    ///
    /// As retryable as what the nodes say, each of which is named: every node has to be reached, and those that
    /// were vouched for stay so. Repeating is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open which nodes were vouched for.
    pub async fn init(&self) -> Result<(), Error> {
        status::init(&self.core).await
    }

    /// How it stands with each node, in the order in which they were given: each is asked now.
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
    async fn try_acquire(&self, request: &Acquire) -> Result<Attempt, Error> {
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
