//! Who a node is, and whether it may have forgotten leases.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Backoff, Error, ErrorKind, Instant, Quarantine, QuorumNode, Standing};
use tokio::time::{sleep, timeout};

use crate::inner::Core;
use crate::register::{Identity, twins};

/// How long to wait before a node is asked again that could not be reached.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

impl<N: QuorumNode> Core<N> {
    /// Makes sure that a node is known to be another server than the rest; whether it can be asked to abstain.
    pub(crate) async fn identify(self: &Arc<Self>, node: usize) -> Result<bool, Error> {
        let tells = match self.register.tells(node) {
            Some(tells) => tells,
            None => self.meet(node).await?.is_some(),
        };
        Ok(tells && self.settings.quarantine)
    }

    /// Asks a node who it is and how it stands with it. `None` if it cannot tell.
    pub(crate) async fn meet(self: &Arc<Self>, node: usize) -> Result<Option<Standing>, Error> {
        let it = &self.nodes[node];
        let standing = match it.backend.standing().await {
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Denied) => {
                self.register.enter_untold(node);
                let name = &*it.name;
                tracing::warn!(
                    target: "lock_redlock::node", node = name, %error,
                    "it cannot tell whether it has forgotten leases, and votes all the same"
                );
                return Ok(None);
            }
            answer => it.noted("standing", answer)?,
        };
        if let Err(twin) = self.register.enter(node, &standing.server) {
            return it.noted("standing", Err(twins(&it.name, &self.nodes[twin].name)));
        }
        if self.settings.quarantine {
            self.look_after(node, &standing).await?;
        }
        Ok(Some(standing))
    }

    /// Has a node that is kept out vote again in time, and one that votes take leases of every length that
    /// there is.
    async fn look_after(self: &Arc<Self>, node: usize, standing: &Standing) -> Result<(), Error> {
        match standing.max_ttl {
            None => {
                self.keep(node, &standing.quarantine);
            }
            Some(max_ttl) if max_ttl < self.settings.max_ttl => {
                let max_ttl = self.settings.max_ttl;
                let vouched = self.nodes[node].backend.vouch(&standing.quarantine, max_ttl).await;
                self.nodes[node].noted("vouch", vouched)?;
            }
            Some(_) => self.nodes[node].state().lookout.clear(),
        }
        Ok(())
    }

    /// Notes that a node is kept out, as an answer said that has arrived now, and sees to it that somebody
    /// vouches for it when its time has come. Whether it is news.
    pub(crate) fn keep(self: &Arc<Self>, node: usize, quarantine: &Quarantine) -> bool {
        let now = self.clock.now();
        let mut state = self.nodes[node].state();
        let is_new = state.lookout.see(quarantine, now);
        if is_new {
            let (name, max_ttl) = (&*self.nodes[node].name, self.settings.max_ttl.duration());
            tracing::info!(target: "lock_redlock::node", node = name, ?max_ttl, "it is kept out");
        }
        let begin = !std::mem::replace(&mut state.is_watched, true);
        drop(state);
        if begin {
            self.background.spawn_while_open(Arc::clone(self).keep_watch(node));
        }
        is_new
    }

    async fn keep_watch(self: Arc<Self>, node: usize) {
        let mut backoff = BACKOFF;
        while let Some((quarantine, due)) = self.due(node) {
            // A timer may be early on the clock of the leases, and stands still while the machine sleeps.
            let left = due.saturating_duration_since(self.clock.now());
            if !left.is_zero() {
                sleep(left.min(Duration::from_secs(1))).await;
                continue;
            }
            match timeout(self.settings.patience(), self.vouch(node, &quarantine)).await {
                Ok(Ok(())) => backoff.reset(),
                _failed => sleep(backoff.fail()).await,
            }
        }
    }

    /// The quarantine of a node, and when somebody may vouch for it. `None` ends the watch.
    fn due(&self, node: usize) -> Option<(Quarantine, Instant)> {
        let mut state = self.nodes[node].state();
        let due = state.lookout.due(self.settings.max_ttl);
        let due = due.map(|(quarantine, due)| (quarantine.clone(), due));
        state.is_watched = due.is_some();
        due
    }

    async fn vouch(self: &Arc<Self>, node: usize, quarantine: &Quarantine) -> Result<(), Error> {
        let vouched = self.nodes[node].backend.vouch(quarantine, self.settings.max_ttl).await;
        if self.nodes[node].noted("vouch", vouched)? {
            self.votes_again(node, quarantine);
        } else {
            // Another one has begun, or it is over: then this says so.
            self.meet(node).await?;
        }
        Ok(())
    }

    /// Notes that a quarantine is over, unless another was seen since.
    fn votes_again(&self, node: usize, quarantine: &Quarantine) {
        let mut state = self.nodes[node].state();
        if state.lookout.due(self.settings.max_ttl).is_some_and(|(seen, _)| seen == quarantine) {
            state.lookout.clear();
            state.trouble = None;
            drop(state);
            let name = &*self.nodes[node].name;
            tracing::info!(target: "lock_redlock::node", node = name, "it votes again");
        }
    }

    /// Vouches for a node without waiting: nothing can have been forgotten.
    pub(crate) async fn vouch_now(self: Arc<Self>, node: usize) -> Result<(), Error> {
        // The quarantine may have changed between the two requests, but not again and again.
        for _ in 0..3 {
            let Some(Standing { quarantine, .. }) = self.meet(node).await? else { return Ok(()) };
            let vouched = self.nodes[node].backend.vouch(&quarantine, self.settings.max_ttl).await;
            if self.nodes[node].noted("vouch", vouched)? {
                self.votes_again(node, &quarantine);
                return Ok(());
            }
        }
        Err(Error::new(ErrorKind::NotReady, "it forgets what was vouched for"))
    }

    /// How long a node is kept out at least.
    pub(crate) fn kept_out_for(&self, node: usize) -> Option<Duration> {
        let state = self.nodes[node].state();
        let (_, due) = state.lookout.due(self.settings.max_ttl)?;
        Some(due.saturating_duration_since(self.clock.now()))
    }

    /// What a node says by abstaining.
    pub(crate) fn abstains(&self, node: usize) -> Error {
        let left = self.kept_out_for(node).unwrap_or_default();
        // To the second, so that errors of one cause look alike.
        let left = Duration::from_secs(left.as_secs_f64().ceil() as u64);
        let message =
            format!("kept out for another {left:?} at least, for it may have forgotten leases");
        Error::new(ErrorKind::NotReady, message)
    }

    /// Which server a node is, if that is known.
    pub(crate) fn identity(&self, node: usize) -> Option<Identity> {
        self.register.get(node)
    }
}
