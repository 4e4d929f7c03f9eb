//! An address that comes to lead to another server, without an error that shows it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Ballot, Claim, Clock, Error, ErrorKind, FencingToken, Grant,
    Instant, Key, Membership, Quarantine, QuorumNode, Released, Renew, Renewal, Result, Standing,
    Terms, Ttl, Vote, Watch,
};
use lock_redlock::Redlock;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::support::claim;

/// A node, by the address of its server, which dates its leases on this clock and gives none that is shorter than this.
#[derive(Clone)]
pub(crate) struct Address(Arc<Mutex<MemoryBackend>>, Clock, Ttl);

impl Address {
    fn of(server: &MemoryBackend) -> Self {
        Self::dating(server, server.clock())
    }

    pub(crate) fn dating(server: &MemoryBackend, clock: Clock) -> Self {
        Self(Arc::new(Mutex::new(server.client())), clock, Ttl::MIN)
    }

    pub(crate) fn giving(server: &MemoryBackend, shortest: Ttl) -> Self {
        Self(Arc::new(Mutex::new(server.client())), server.clock(), shortest)
    }

    fn check(&self, ttl: Ttl) -> Result<()> {
        let too_short = || Error::new(ErrorKind::InvalidTtl, "it is too short for this store");
        if ttl < self.2 { Err(too_short()) } else { Ok(()) }
    }

    /// An instant of the server's clock on that of the node.
    fn dated(&self, at: Instant) -> Instant {
        let now = self.1.now();
        now + at.saturating_duration_since(self.server().clock().now())
    }

    fn lead_to(&self, server: &MemoryBackend) {
        *self.0.lock().unwrap() = server.client();
    }

    fn server(&self) -> MemoryBackend {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl Backend for Address {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome> {
        self.server().try_acquire(request).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        if let Err(error) = self.check(request.ttl) {
            return Renewal::Unknown(error);
        }
        match self.server().renew(request).await {
            Renewal::Renewed { valid_until, tokens, contention } => {
                Renewal::Renewed { valid_until: self.dated(valid_until), tokens, contention }
            }
            other => other,
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.server().release(claim).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.server().watch(key).await
    }

    fn clock(&self) -> Clock {
        self.1
    }
}

#[async_trait]
impl QuorumNode for Address {
    async fn vote(&self, ballot: &Ballot) -> Result<Vote> {
        self.check(ballot.request.ttl)?;
        match self.server().vote(ballot).await? {
            Vote::Granted(grant) => {
                let until = self.dated(grant.valid_until);
                Ok(Vote::Granted(Grant::new(grant.tokens, until).with_contention(grant.contention)))
            }
            other => Ok(other),
        }
    }

    async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool> {
        self.server().confirm(claim, token).await
    }

    async fn standing(&self, terms: &Terms) -> Result<Standing> {
        self.server().standing(terms).await
    }

    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool> {
        self.server().vouch(quarantine, max_ttl).await
    }

    async fn reassign(&self, from: &Membership, terms: &Terms) -> Result<Standing> {
        self.server().reassign(from, terms).await
    }

    async fn admit(&self, terms: &Terms) -> Result<Standing> {
        self.server().admit(terms).await
    }

    fn shortest_ttl(&self) -> Ttl {
        self.2
    }
}

async fn quorum() -> ([MemoryBackend; 3], [Address; 3], Redlock<Address>) {
    let servers = [(); 3].map(|()| MemoryBackend::new());
    let ways = [0, 1, 2].map(|node: usize| Address::of(&servers[node]));
    let builder = Redlock::builder().nodes(ways.clone()).on_runtime(Handle::current());
    let quorum = builder.build().await.unwrap();
    quorum.init().await.unwrap();
    (servers, ways, quorum)
}

const NAMES_BOTH: &str = "the nodes 1 and 3 are the same server, which has one vote";

#[tokio::test(start_paused = true)]
async fn an_address_that_leads_to_another_node_brings_no_second_vote() {
    let (servers, ways, quorum) = quorum().await;
    ways[2].lead_to(&servers[0]);
    ways[1].server().faults().cut();
    let request = Acquire::new(claim("a"), Ttl::DEFAULT);
    let error = quorum.try_acquire(&request).await.unwrap_err();
    assert!(error.to_string().contains(NAMES_BOTH), "{error}");

    ways[1].server().faults().heal();
    let attempt = quorum.try_acquire(&request).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    assert_eq!(servers.map(|server| server.live_leases()), [1, 1, 0]);
}

/// Both nodes know the claim by one owner token, so the server renews the lease for both.
#[tokio::test(start_paused = true)]
async fn an_address_that_leads_to_another_node_brings_no_second_renewal() {
    let (servers, ways, quorum) = quorum().await;
    let held = claim("a");
    let attempt = quorum.try_acquire(&Acquire::new(held.clone(), Ttl::DEFAULT)).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Granted(_))), "{attempt:?}");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(servers.each_ref().map(MemoryBackend::live_leases), [1, 1, 1]);

    ways[2].lead_to(&servers[0]);
    ways[1].server().faults().cut();
    let renewal = quorum.renew(&Renew::new(held, Ttl::DEFAULT)).await;
    let Renewal::Unknown(error) = renewal else { panic!("{renewal:?}") };
    assert!(error.to_string().contains(NAMES_BOTH), "{error}");
}

/// A server that was never a node, with a copy of the data.
#[tokio::test(start_paused = true)]
async fn an_address_that_leads_to_a_new_server_brings_no_vote() {
    let (_, ways, quorum) = quorum().await;
    let twin = MemoryBackend::new();
    ways[2].lead_to(&twin);
    ways[1].server().faults().cut();
    let request = Acquire::new(claim("a"), Ttl::DEFAULT);
    let error = quorum.try_acquire(&request).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("3: quarantined"), "{error}");
    assert_eq!(twin.live_leases(), 0);
}
