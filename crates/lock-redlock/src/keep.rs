//! Which server a node is, and whether it may have forgotten leases.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    Backoff, Ending, Error, ErrorKind, Instant, Quarantine, QuorumNode, Standing, Terms,
};
use tokio::time::sleep;

use crate::inner::{Core, invalid};
use crate::node::Node;
use crate::register::{Identity, twins};

/// How long to wait before asking an unreachable node again.
pub(crate) const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

impl<N: QuorumNode> Core<N> {
    /// Makes sure that a node is a server of its own, and a member of this quorum. Returns the standing that a ballot
    /// for the node has to name, or `None` if the node votes in any case.
    pub(crate) async fn identify(
        self: &Arc<Self>,
        node: usize,
    ) -> Result<Option<Arc<Standing>>, Error> {
        let known = match self.register.get(node, self.clock.now()) {
            Some(known) if known.as_ref().is_none_or(|it| self.is_member(it)) => known,
            _ => self.meet(node).await?,
        };
        let Some(standing) = known.filter(|_| self.settings.quarantine) else { return Ok(None) };
        if self.is_member(&standing) { Ok(Some(standing)) } else { self.is_no_member(node) }
    }

    pub(crate) fn is_member(&self, standing: &Standing) -> bool {
        standing.membership == self.terms.membership || !self.settings.quarantine
    }

    fn is_no_member<T>(&self, node: usize) -> Result<T, Error> {
        let it = &self.nodes[node];
        let message = format!(
            "{} is a member of a quorum of other nodes: all clients must give the same nodes the same names, and \
             Redlock::replace replaces a node",
            it.name
        );
        it.noted("standing", Err(invalid(message)))
    }

    /// Asks a node which server it is, and for its standing. `None` if the node cannot tell.
    pub(crate) async fn meet(
        self: &Arc<Self>,
        node: usize,
    ) -> Result<Option<Arc<Standing>>, Error> {
        let Some(standing) = self.look(node).await? else { return Ok(None) };
        if !self.settings.quarantine || !self.is_member(&standing) {
            self.nodes[node].state(|state| state.lookout.clear());
            return Ok(Some(standing));
        }
        match standing.max_ttl {
            None => self.keep(node, &standing.quarantine),
            Some(max_ttl) if max_ttl < self.settings.max_ttl => {
                self.vouch(node, &standing.quarantine).await?;
                return self.look(node).await;
            }
            Some(_) => self.nodes[node].state(|state| state.lookout.clear()),
        }
        Ok(Some(standing))
    }

    /// Asks a node for its standing, and notes which server it is.
    async fn look(self: &Arc<Self>, node: usize) -> Result<Option<Arc<Standing>>, Error> {
        let (it, sent) = (&self.nodes[node], self.clock.now());
        let standing = match it.backend.standing(&self.terms()).await {
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Denied) => {
                match self.register.enter_untold(node, sent) {
                    Identity::Told(_) => return it.noted("standing", Err(error)),
                    Identity::New => tracing::warn!(
                        target: "lock_redlock::node", node = &*it.name, %error,
                        "the node cannot tell whether it has forgotten leases, and votes anyway"
                    ),
                    Identity::Untold(_) => {}
                }
                return Ok(None);
            }
            answer => Arc::new(it.noted("standing", answer)?),
        };
        match self.register.enter(node, &standing, sent) {
            Ok(()) => Ok(Some(standing)),
            Err(twin) => it.noted("standing", Err(twins(&it.name, &self.nodes[twin].name))),
        }
    }

    /// The terms for the next look at a node. No quarantine ends while too few nodes are known to be members,
    /// because a node must not vote before it has replaced its predecessor.
    fn terms(&self) -> Terms {
        let is_one_quorum = self.quorum.is_met_by(self.register.members());
        let puts_off = self.terms.ending == Ending::ByClock && !is_one_quorum;
        let ending = if puts_off { Ending::Later } else { self.terms.ending };
        self.terms.clone().ending(ending)
    }

    /// Fails unless the node is a member of this quorum, or was a member at a request that was sent `within` this time.
    pub(crate) async fn stays_member(
        self: &Arc<Self>,
        node: usize,
        within: Duration,
    ) -> Result<(), Error> {
        let is_known = || self.register.is_member_within(node, within, self.clock.now());
        let is_untold = || self.register.get(node, self.clock.now()) == Some(None);
        if !self.settings.quarantine || is_known() || is_untold() {
            return Ok(());
        }
        match self.meet(node).await? {
            Some(standing) if !self.is_member(&standing) => self.is_no_member(node),
            _ => Ok(()),
        }
    }

    /// Notes that a node is in quarantine, as it has just answered, and starts the task that vouches for the node in
    /// time.
    fn keep(self: &Arc<Self>, node: usize, quarantine: &Quarantine) {
        let now = self.clock.now();
        let (is_new, begin) = self.nodes[node].state(|state| {
            let is_new = state.lookout.see(quarantine, now);
            (is_new, !std::mem::replace(&mut state.is_watched, true))
        });
        if is_new {
            let (name, max_ttl) = (&*self.nodes[node].name, self.settings.max_ttl.duration());
            tracing::info!(target: "lock_redlock::node", node = name, ?max_ttl, "the node is in quarantine");
        }
        if begin {
            self.background.spawn_while_open(Arc::clone(self).keep_watch(node));
        }
    }

    async fn keep_watch(self: Arc<Self>, node: usize) {
        let mut backoff = BACKOFF;
        while let Some((quarantine, due)) = self.due(node) {
            // A timer may be early on the clock of the leases, because it stands still while the machine sleeps.
            let left = due.saturating_duration_since(self.clock.now());
            if !left.is_zero() {
                sleep(left.min(Duration::from_secs(1))).await;
                continue;
            }
            if self.register.members() < self.quorum.needed() {
                sleep(Duration::from_secs(1)).await;
                continue;
            }
            let vouch = async {
                // If the node refuses, another quarantine has begun, or this one is over. The node tells which.
                if !self.vouch(node, &quarantine).await? {
                    self.meet(node).await?;
                }
                Ok(())
            };
            match self.in_time(node, self.settings.patience(), vouch).await {
                Ok(()) => backoff.reset(),
                Err(_) => sleep(backoff.fail()).await,
            }
        }
    }

    /// The quarantine of a node, and when this client may vouch for it. `None` ends the watch.
    fn due(&self, node: usize) -> Option<(Quarantine, Instant)> {
        self.nodes[node].state(|state| {
            let due = state.lookout.due(self.settings.max_ttl);
            let due = due.map(|(quarantine, due)| (quarantine.clone(), due));
            state.is_watched = due.is_some();
            due
        })
    }

    /// Tells a node that every lease that it may have forgotten is over. `false` if the node is not, or
    /// no longer, in this quarantine.
    async fn vouch(&self, node: usize, quarantine: &Quarantine) -> Result<bool, Error> {
        let longest = self.settings.max_ttl;
        if !self.call(node, "vouch", |it| it.vouch(quarantine, longest)).await? {
            return Ok(false);
        }
        let ended = self.nodes[node].state(|state| {
            let is_last = state.lookout.due(longest).is_some_and(|(seen, _)| seen == quarantine);
            if is_last {
                state.lookout.clear();
            }
            is_last
        });
        if ended {
            let name = &*self.nodes[node].name;
            tracing::info!(target: "lock_redlock::node", node = name, "the node votes again");
        }
        Ok(true)
    }

    /// Vouches for a node without waiting. The caller asserts that the node has forgotten no lease.
    pub(crate) async fn vouch_now(self: Arc<Self>, node: usize) -> Result<(), Error> {
        // The quarantine may change between two requests, but not again and again.
        for _ in 0..3 {
            let Some(mut standing) = self.meet(node).await? else { return Ok(()) };
            if !self.is_member(&standing) {
                let admitted = self.call(node, "admit", |it| it.admit(&self.terms)).await?;
                standing = Arc::new(admitted);
            }
            if self.vouch(node, &standing.quarantine).await? {
                return self.look(node).await.map(drop);
            }
        }
        Err(Error::new(ErrorKind::NotReady, "it forgets what was vouched for"))
    }

    /// How long a node stays in quarantine at least.
    pub(crate) fn quarantined_for(&self, node: usize) -> Option<Duration> {
        let longest = self.settings.max_ttl;
        let due = self.nodes[node].state(|state| state.lookout.due(longest).map(|(_, due)| due))?;
        Some(due.saturating_duration_since(self.clock.now()))
    }

    /// The error for a node that abstains.
    pub(crate) fn abstains(&self, node: usize) -> Error {
        let left = self.quarantined_for(node).unwrap_or_default();
        // To the second, so that errors with one cause look alike.
        let left = Duration::from_secs(left.as_secs_f64().ceil() as u64);
        let message =
            format!("quarantined for another {left:?} at least, for it may have forgotten leases");
        Error::new(ErrorKind::NotReady, message)
    }
}

impl<N> Core<N> {
    /// Whether so many nodes are in quarantine that the others make no majority.
    pub(crate) fn is_quarantined(&self) -> bool {
        let is_out = |node: &&Node<N>| node.state(|state| state.lookout.is_quarantined());
        self.nodes.iter().filter(is_out).count() > self.quorum.spare()
    }

    /// What to do if too many nodes are in quarantine.
    pub(crate) fn advice(&self) -> String {
        let max_ttl = self.settings.max_ttl.duration();
        let clock = if self.terms.ending == Ending::ByClock {
            format!(", or {:?} after any client first saw them", 2 * max_ttl)
        } else {
            String::new()
        };
        format!(
            "in a new deployment, where no client holds a lock, call Redlock::init once; otherwise these nodes vote \
             again after this process has watched them for {max_ttl:?} and a little more{clock}"
        )
    }
}
