//! One client's way to one node.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::pending;
use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Ballot, Cell, CellBackend, Claim, Clock, Error, ErrorKind,
};
use lock_core::{FencingToken, Fixed, Membership, OwnerToken, SharedBackend, Standing, Stored};
use lock_core::{Grant, Instant, Key, Quarantine, QuorumNode, Released, Renew, Renewal, Result};
use lock_core::{Terms, Ttl, Vote, Watch};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use crate::plan::{Flaw, LINES, SLOWEST};
use crate::world::{Fate, World, until};

/// How late a node stores a value that it says it has stored, if it has that flaw.
const LATE: Duration = Duration::from_secs(1);

/// A node as a client sees it.
///
/// A client has several lines to a node, as a process has a connection for each of its runtimes. The requests on
/// one line arrive in the order in which the client sent them. Requests on two lines overtake one another. A
/// request may take any time, be lost, or arrive twice. The answers may come late, in any order, or not at all. A
/// request that was sent arrives although no task waits for its answer any more.
pub(crate) struct SimNode {
    world: Arc<World>,
    client: usize,
    node: usize,
    lines: Vec<mpsc::UnboundedSender<Parcel>>,
}

/// A request on its way.
struct Parcel {
    arrives: Instant,
    /// It arrives no more after this.
    limit: Instant,
    again: Option<Duration>,
    act: Box<dyn FnMut(&MemoryBackend) + Send>,
}

/// What a node answered, and how long it took the request to get there.
struct Answer<T> {
    answer: T,
    took: Duration,
}

impl SimNode {
    pub(crate) fn new(world: &Arc<World>, client: usize, node: usize) -> Self {
        let line = |_| {
            let (line, parcels) = mpsc::unbounded_channel();
            tokio::spawn(deliver(Arc::clone(world), node, parcels));
            line
        };
        let lines = (0..LINES).map(line).collect();
        Self { world: Arc::clone(world), client, node, lines }
    }

    /// Sends a request, which the node acts on when it arrives.
    async fn ask<T: Send + 'static>(
        &self,
        name: &'static str,
        act: impl FnMut(&MemoryBackend) -> T + Send + 'static,
    ) -> Result<Answer<T>> {
        self.send(name, true, act).await
    }

    /// Sends a request that arrives once or never, or that [may arrive twice](Self::ask).
    async fn send<T: Send + 'static>(
        &self,
        name: &'static str,
        repeats: bool,
        mut act: impl FnMut(&MemoryBackend) -> T + Send + 'static,
    ) -> Result<Answer<T>> {
        let Self { world, client, node, .. } = self;
        let (client, node) = (*client, *node);
        let fate = world.fate(client, node);
        let line = &self.lines[world.line()];
        world.log(|| format!("{client} asks {node} to {name}: {fate:?}"));
        let (there, again, answers_second, back) = match fate {
            Fate::Refused => return Err(Error::new(ErrorKind::Unreachable, "no way there")),
            Fate::Lost => return pending().await,
            Fate::Travels { there, again, answers_second, back } => {
                (there, again.filter(|_| repeats), answers_second, back)
            }
        };
        let (sent, (sender, answered)) = (world.now(), oneshot::channel());
        let (mut sender, mut skip) = (Some(sender), again.is_some() && answers_second);
        let act = Box::new({
            let world = Arc::clone(world);
            move |store: &MemoryBackend| {
                let answer = act(store);
                let took = world.now().saturating_duration_since(sent);
                if !std::mem::take(&mut skip)
                    && let Some(sender) = sender.take()
                {
                    // The receiver may be gone.
                    let _heard = sender.send(Answer { answer, took });
                }
            }
        });
        let parcel = Parcel { arrives: sent + there, limit: sent + SLOWEST, again, act };
        let (Ok(()), Some(back)) = (line.send(parcel), back) else { return pending().await };
        let Ok(answer) = answered.await else { return pending().await };
        if !back.is_zero() {
            sleep(back).await;
        }
        if world.is_answered(client, node) { Ok(answer) } else { pending().await }
    }

    fn flaw(&self) -> Flaw {
        self.world.plan.flaw
    }

    /// A claim as it is sent to the node.
    fn named(&self, claim: &Claim) -> Claim {
        let mut claim = claim.clone();
        if self.flaw() == Flaw::ReusesBallots {
            // All ballots of a claim begin alike.
            let mut owner = [0; 16];
            owner[..8].copy_from_slice(&claim.owner.expose()[..8]);
            claim.owner = OwnerToken::from_bytes(owner);
        }
        claim
    }

    /// The lease that the node is asked for, if it should live for so long.
    fn ttl(&self, ttl: Ttl) -> Ttl {
        match self.flaw() {
            Flaw::FastClocks => Ttl::new(ttl.duration() / 2).unwrap(),
            _ => Ttl::new(self.passes(ttl)).unwrap(),
        }
    }

    /// The terms as the node hears them, so that its clock ends a quarantine at its own rate.
    fn paced(&self, terms: &Terms) -> Terms {
        let passes = match self.flaw() {
            // A quarantine lasts for twice this time.
            Flaw::EndsEarly => self.passes(terms.max_ttl) * 3 / 8,
            _ => self.passes(terms.max_ttl),
        };
        Terms::new(terms.membership.clone(), Ttl::new(passes).unwrap()).ending(terms.ending)
    }

    /// The standing as the client hears it. All clients have one longest lease.
    fn unpaced(&self, mut standing: Standing) -> Standing {
        standing.max_ttl = standing.max_ttl.map(|_| self.world.plan.max_ttl);
        standing
    }

    /// How long a time on the clock of the node takes, by the clock of clients.
    fn passes(&self, ttl: Ttl) -> Duration {
        let rate = self.world.plan.rates[self.node];
        let micros = i64::try_from(ttl.duration().as_micros()).unwrap();
        let passes = Duration::from_micros((micros - micros * rate / 1000).try_into().unwrap());
        // A node gives no shorter lease.
        passes.max(Ttl::MIN.duration())
    }

    /// Dates a lease from when its request was sent, and not from when it arrived.
    fn dated(&self, valid_until: Instant, took: Duration, ttl: Ttl) -> Instant {
        match self.flaw() {
            Flaw::FastClocks => valid_until - took + ttl.duration() / 2,
            _ => valid_until - took - self.passes(ttl) + ttl.duration(),
        }
    }
}

/// Hands requests to a node, in their order.
async fn deliver(world: Arc<World>, node: usize, mut parcels: mpsc::UnboundedReceiver<Parcel>) {
    while let Some(mut parcel) = parcels.recv().await {
        until(world.awake(node, parcel.arrives)).await;
        (parcel.act)(&world.nodes[node]);
        if let Some(gap) = parcel.again {
            until(world.awake(node, parcel.limit.min(world.now() + gap))).await;
            (parcel.act)(&world.nodes[node]);
        }
    }
}

/// A store of this process answers at once, unless it is told not to.
fn at_once<T>(answer: impl Future<Output = T>) -> T {
    answer.now_or_never().expect("a store without faults answers at once")
}

#[async_trait]
impl Backend for SimNode {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome> {
        let request = request.clone();
        self.ask("acquire", move |store| at_once(store.try_acquire(&request))).await?.answer
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        let (full, mut request) = (request.ttl, request.clone());
        request.claim = self.named(&request.claim);
        request.ttl = self.ttl(full);
        match self.ask("renew", move |store| at_once(store.renew(&request))).await {
            Ok(Answer { answer: Renewal::Renewed { valid_until, tokens, contention }, took }) => {
                let valid_until = self.dated(valid_until, took, full);
                Renewal::Renewed { valid_until, tokens, contention }
            }
            Ok(Answer { answer, .. }) => answer,
            Err(error) => Renewal::Unknown(error),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        let (claim, flaw) = (self.named(claim), self.flaw());
        if self.world.plan.faults.echoes {
            self.repeat_later(&claim);
        }
        let release = move |store: &MemoryBackend| match flaw {
            Flaw::ReleasesNothing => Ok(Released::Freed { told: 0 }),
            _ => at_once(store.release(&claim)),
        };
        self.ask("release", release).await?.answer
    }

    async fn watch(&self, _key: &Key) -> Result<Watch> {
        Err(Error::new(ErrorKind::Unsupported, "no hints here"))
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }
}

impl SharedBackend for SimNode {
    type Conversion = Fixed;
}

#[async_trait]
impl CellBackend for SimNode {
    async fn load(&self, key: &Key) -> Result<Option<Cell>> {
        let key = key.clone();
        self.ask("load", move |store| at_once(store.load(&key))).await?.answer
    }

    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored> {
        let (claim, value, flaw) = (self.named(claim), value.map(<[u8]>::to_vec), self.flaw());
        let write = move |store: &MemoryBackend| match flaw {
            Flaw::KeepsNoValues => Ok(Stored::Written),
            Flaw::WritesLate => {
                let (store, claim, value) = (store.client(), claim.clone(), value.clone());
                tokio::spawn(async move {
                    sleep(LATE).await;
                    let again = Acquire::new(claim.clone(), Ttl::MIN);
                    let _granted = at_once(store.try_acquire(&again));
                    at_once(store.store(&claim, token, value.as_deref()))
                });
                Ok(Stored::Written)
            }
            _ => at_once(store.store(&claim, token, value.as_deref())),
        };
        self.send("store", false, write).await?.answer
    }
}

#[async_trait]
impl QuorumNode for SimNode {
    async fn vote(&self, ballot: &Ballot) -> Result<Vote> {
        let (full, mut ballot) = (ballot.request.ttl, ballot.clone());
        let Acquire { claim, tokens, .. } = &ballot.request;
        let key = claim.key.clone();
        self.world.asks_for_vote(self.client);
        let floor = self.world.floor(self.client, &key, tokens.get(), ballot.floor.get());
        ballot.floor = FencingToken::new(floor);
        ballot.request.claim = self.named(&ballot.request.claim);
        ballot.request.ttl = self.ttl(full);
        if self.flaw() == Flaw::VotesKeptOut {
            ballot.expects = None;
        }
        if let Some(expects) = &mut ballot.expects
            && self.world.plan.faults.rates
        {
            // The client has compared it with the lease as the client counts it.
            Arc::make_mut(expects).max_ttl = Some(Ttl::MAX);
        }
        let (world, node, client) = (Arc::clone(&self.world), self.node, self.client);
        let vote = move |store: &MemoryBackend| -> Result<Vote> {
            if world.plan.flaw == Flaw::CountsAnew && store.live_leases() == 0 {
                store.forget();
                let standing = at_once(store.standing(&world.terms()))?;
                let _vouched = at_once(store.vouch(&standing.quarantine, world.plan.max_ttl))?;
                // Otherwise the quorum would notice.
                ballot.expects = Some(Arc::new(at_once(store.standing(&world.terms()))?));
            }
            let vote = at_once(store.vote(&ballot))?;
            if matches!(vote, Vote::Granted(_)) {
                world.voted(node);
            }
            world.log(|| format!("    {node} to {client}, at {floor}: {vote:?}"));
            Ok(vote)
        };
        let Answer { answer, took } = self.ask("vote", vote).await?;
        Ok(match answer? {
            Vote::Granted(Grant { tokens, valid_until, .. }) => {
                self.world.see(self.client, &key, tokens.last().get());
                Vote::Granted(Grant::new(tokens, self.dated(valid_until, took, full)))
            }
            vote => vote,
        })
    }

    async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool> {
        let (claim, flaw) = (self.named(claim), self.flaw());
        let confirm = move |store: &MemoryBackend| match flaw {
            Flaw::ConfirmsAnything => Ok(true),
            _ => at_once(store.confirm(&claim, token)),
        };
        self.ask("confirm", confirm).await?.answer
    }

    async fn standing(&self, terms: &Terms) -> Result<Standing> {
        let members = terms.membership.clone();
        let terms = self.paced(terms);
        let look = move |store: &MemoryBackend| at_once(store.standing(&terms));
        let mut standing = self.unpaced(self.ask("say who it is", look).await?.answer?);
        if matches!(self.flaw(), Flaw::HalfIsEnough | Flaw::IgnoresMembers) {
            standing.membership = members;
        }
        if self.flaw() == Flaw::VotesKeptOut && standing.max_ttl.is_none() {
            standing.max_ttl = Some(self.world.plan.max_ttl);
        }
        if self.flaw() == Flaw::VouchesAtOnce && standing.max_ttl.is_none() {
            self.vouch(&standing.quarantine, self.world.plan.max_ttl).await?;
        }
        Ok(standing)
    }

    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool> {
        let quarantine = quarantine.clone();
        let max_ttl = Ttl::new(self.passes(max_ttl)).unwrap();
        let vouch = move |store: &MemoryBackend| at_once(store.vouch(&quarantine, max_ttl));
        self.ask("vote again", vouch).await?.answer
    }

    async fn reassign(&self, from: &Membership, terms: &Terms) -> Result<Standing> {
        let (from, terms) = (from.clone(), self.paced(terms));
        let reassign = move |store: &MemoryBackend| at_once(store.reassign(&from, &terms));
        Ok(self.unpaced(self.ask("change members", reassign).await?.answer?))
    }

    async fn admit(&self, terms: &Terms) -> Result<Standing> {
        let terms = self.paced(terms);
        let admit = move |store: &MemoryBackend| at_once(store.admit(&terms));
        Ok(self.unpaced(self.ask("begin anew", admit).await?.answer?))
    }
}

impl SimNode {
    /// Releases a claim once more, whatever was asked in between.
    fn repeat_later(&self, claim: &Claim) {
        let (world, claim, node) = (Arc::clone(&self.world), claim.clone(), self.node);
        let gap = world.rng().millis(0, 300);
        tokio::spawn(async move {
            sleep(gap).await;
            let _released = world.nodes[node].release(&claim).await;
        });
    }
}
