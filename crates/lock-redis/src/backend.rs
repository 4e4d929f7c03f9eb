//! The backend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    Acquire, Attempt, Backend, Claim, Clock, Convert, ConvertBackend, Demand, Error, ErrorKind,
    Instant, Key, Mode, Released, Renew, Renewal, Ttl, Watch,
};

use crate::batch::{Batches, Together};
use crate::hub::{Hub, Inbox, Listening};
use crate::keys::{Layout, Names};
use crate::link::Link;
use crate::verbs::{Acquired, QuickRenewal};
use crate::wire::Failure;
use crate::{together, verbs};

/// Leases on one Redis or Valkey server.
///
/// A handle: cheap to clone, and its clones share the connections. There is one for each tokio runtime
/// in whose context it is used, which lives there, ends with that runtime, and needs its I/O and its
/// time enabled. It is opened by the first request, and again by itself whenever it breaks.
///
/// A request that finds its connection waits for the answer for one command timeout. It may have to
/// wait as long for a connection before. A server that has forgotten a script costs two more exchanges, or
/// three if it refuses a way to send scripts that it took before. No request is sent twice behind the
/// caller's back, unless the server said that it did not run it.
///
/// # If the lease is lost
///
/// Renewal says [`Renewal::Lost`] when the key is gone or has another holder, whoever saw to that.
/// While the server cannot be reached it says [`Renewal::Unknown`], and the deadline that was given
/// last still stands.
///
/// # Differences from other libraries on the same key
///
/// - An exclusive lock is one string with a time to live, set only if it is absent and deleted only
///   if it holds the owner's token: what redis-py, redsync, node-redlock and a plain `SET NX PX` do.
///   They exclude one another. Give their key to [`Key::as_is`].
/// - Every grant has a fencing token, kept in a key beside the lock. Grants of other libraries do
///   not count it up, but since it is at least the server's clock it is higher after theirs too.
/// - Claims of this library wait in a queue, and a hand-over never frees the key. While another client holds the
///   lock, the first in the queue tries every 60 ms. While claims of this library take turns, other clients find the
///   lock taken, unless [`Builder::gap`](crate::Builder::gap) leaves it to them now and then.
/// - A key without a time to live is a lock that somebody holds for ever. It is never touched.
#[derive(Clone)]
pub struct RedisBackend(Arc<Inner>);

struct Inner {
    layout: Layout,
    link: Link,
    hub: Hub,
    batches: Batches,
    /// How many may wait for a key; none, if nobody is to be queued.
    queue_limit: u32,
}

impl RedisBackend {
    pub(crate) fn new(layout: Layout, link: Link, hub: Hub, queue_limit: u32) -> Self {
        let batches = Batches::new(&link);
        Self(Arc::new(Inner { layout, link, hub, batches, queue_limit }))
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.0.layout
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.0.hub
    }

    pub(crate) fn link(&self) -> &Link {
        &self.0.link
    }

    pub(crate) fn batches(&self) -> &Batches {
        &self.0.batches
    }

    /// Whether requests that are refused want to wait in line.
    pub(crate) fn queues(&self) -> bool {
        self.0.queue_limit > 0
    }

    pub(crate) fn listening(&self) -> Listening {
        self.0.hub.listening()
    }
}

#[async_trait]
impl Backend for RedisBackend {
    async fn try_acquire(&self, request: &Acquire) -> Result<Attempt, Error> {
        let Inner { layout, link, hub, .. } = &*self.0;
        let names = layout.names(&request.claim.key)?;
        if is_quick(&request.claim) && !hub.watches(&names) {
            let answer = link.run(verbs::quick_acquire(&names, request)).await?;
            if let Some(attempt) = verbs::quickly_acquired(request, &answer)? {
                return Ok(attempt);
            }
        }
        // A place that there is was to be kept with others, and no quick script keeps it alone.
        let is_new = request.queue && !hub.has_place(&names, &request.claim);
        if let Some(attempt) = self.batches().keep(hub, &names, request).await? {
            return Ok(attempt);
        }
        let inbox = hub.inbox_of(&names, request);
        let hears = inbox.as_ref().filter(|_| is_new);
        match self.wait_quickly(&names, request, hears).await? {
            Some(queued) => Ok(self.placed(&names, request, queued)),
            None => self.acquire_in_full(&names, request, None, inbox.as_ref()).await,
        }
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        self.try_renew(request).await.unwrap_or_else(Renewal::Unknown)
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let Inner { layout, link, hub, .. } = &*self.0;
        let names = layout.names(&claim.key)?;
        let watches = hub.forget(&names, claim);
        if is_quick(claim) && !watches {
            let answer = link.run(verbs::quick_release(&names, claim)).await?;
            if let Some(released) = verbs::quickly_released(&answer)? {
                return Ok(released);
            }
        }
        if let Some((released, _)) = self.hand_over(&names, claim, None).await? {
            return Ok(released);
        }
        self.release_in_full(&names, claim).await
    }

    async fn exchange(
        &self,
        claim: &Claim,
        next: &Acquire,
    ) -> Result<(Released, Option<Attempt>), Error> {
        let Inner { layout, hub, .. } = &*self.0;
        let names = layout.names(&claim.key)?;
        hub.forget(&names, claim);
        let is_here = next.queue && next.claim.key == claim.key;
        let inbox = hub.inbox_of(&names, next).filter(|_| is_here && is_quick(&next.claim));
        let queued = inbox.as_ref().map(|inbox| (next, inbox));
        let Some((released, acquired)) = self.hand_over(&names, claim, queued).await? else {
            return Ok((self.release_in_full(&names, claim).await?, None));
        };
        let attempt = acquired.map(|Acquired { attempt, sample }| {
            if let Some(sample) = sample {
                hub.compare(&names, next.claim.owner, sample);
            }
            attempt
        });
        Ok((released, attempt))
    }

    /// Up to 64 locks that are to be held alone, if their keys are in one place: on a single server
    /// always, on a cluster in one slot. A lock is not granted while anybody waits for it in line. What a
    /// refusal says of a lock that is free is that nothing is known of its end.
    async fn acquire_together(&self, requests: &[Acquire]) -> Result<Option<Vec<Attempt>>, Error> {
        let Inner { layout, link, hub, .. } = &*self.0;
        let names = requests.iter().map(|it| layout.names(&it.claim.key));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        together::check(&names)?;
        if !together::is_possible(requests) {
            return Ok(None);
        }
        let inboxes = names.iter().map(|names| hub.inbox_for(names)).collect::<Vec<_>>();
        match link.run(together::acquire(&names, requests, &inboxes)).await {
            Ok(answer) => together::acquired(requests, &inboxes, &answer).map(Some),
            // A cluster takes no command for keys in several places.
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        self.0.hub.watch(&self.0.layout.names(key)?).await
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn converter(&self) -> Option<&dyn ConvertBackend> {
        Some(self)
    }
}

#[async_trait]
impl ConvertBackend for RedisBackend {
    async fn convert(&self, request: &Convert) -> Result<Attempt, Error> {
        request.check()?;
        let Convert { request, from, .. } = request;
        let names = self.0.layout.names(&request.claim.key)?;
        let inbox = self.0.hub.inbox_of(&names, request);
        self.acquire_in_full(&names, request, Some(*from), inbox.as_ref()).await
    }
}

impl RedisBackend {
    /// Asks the script that decides everything for a lease, or to convert the one in the mode `from`.
    async fn acquire_in_full(
        &self,
        names: &Names<'_>,
        request: &Acquire,
        from: Option<Mode>,
        inbox: Option<&Inbox>,
    ) -> Result<Attempt, Error> {
        let Inner { link, queue_limit, .. } = &*self.0;
        let waiting = verbs::Waiting { inbox, limit: *queue_limit };
        let answer = link.run(verbs::acquire(names, request, from, waiting)?).await?;
        Ok(self.placed(names, request, verbs::acquired(request, waiting, &answer)?))
    }

    /// Notes whether the claim has a place in the queue now.
    fn placed(&self, names: &Names<'_>, request: &Acquire, acquired: Acquired) -> Attempt {
        let Acquired { attempt, sample } = acquired;
        if let Some(sample) = sample {
            self.0.hub.compare(names, request.claim.owner, sample);
        } else if request.queue {
            self.0.hub.forget(names, &request.claim);
        }
        attempt
    }

    /// Renews, and leaves open what became of the lease if there is an error.
    async fn try_renew(&self, request: &Renew) -> Result<Renewal, Error> {
        let Inner { layout, link, hub, .. } = &*self.0;
        let names = layout.names(&request.claim.key)?;
        let is_quick = is_quick(&request.claim);
        let together = self.batches().renew(self.hub(), &names, request).await;
        if let Together::Renewed(renewal) = together {
            return Ok(renewal);
        }
        if is_quick
            && matches!(together, Together::Alone)
            && request.tokens == 0
            && !hub.watches(&names)
            && !is_state_due(request.ttl, names.retention(), self.clock().now())
            && let (QuickRenewal::Alone, renewal) = self.renew_quickly(&names, request).await?
        {
            return Ok(renewal);
        }
        let inbox = hub.inbox_for(&names);
        match link.ask(verbs::renew(&names, request, inbox.as_ref())?).await {
            Err(Failure::Moving(error)) if is_quick => {
                match self.renew_quickly(&names, request).await? {
                    (QuickRenewal::Undecided, _) => Err(error),
                    (_, renewal) => Ok(renewal),
                }
            }
            outcome => Ok(verbs::renewed(request, outcome.map_err(Failure::into_error))),
        }
    }

    /// Renews by the script that names the lock alone.
    async fn renew_quickly(
        &self,
        names: &Names<'_>,
        request: &Renew,
    ) -> Result<(QuickRenewal, Renewal), Error> {
        let answer = self.0.link.run(verbs::quick_renew(names, request)).await?;
        let valid_until = request.ttl.valid_until(answer.sent);
        let demand = Demand::Unknown;
        let renewal = Renewal::Renewed { valid_until, tokens: None, demand };
        Ok((verbs::quickly_renewed(&answer)?, renewal))
    }

    /// Waits behind an owner that holds the lock alone; nothing if the full script has to decide.
    async fn wait_quickly(
        &self,
        names: &Names<'_>,
        request: &Acquire,
        inbox: Option<&Inbox>,
    ) -> Result<Option<Acquired>, Error> {
        let Some(inbox) = inbox.filter(|_| is_quick(&request.claim)) else { return Ok(None) };
        let call = verbs::quick_wait(names, request, inbox, self.0.queue_limit);
        verbs::quickly_queued(request, &self.0.link.run(call).await?)
    }

    /// Releases, and hands over to the first claim in the queue; nothing if the full script has to decide.
    async fn hand_over(
        &self,
        names: &Names<'_>,
        claim: &Claim,
        next: Option<verbs::Next<'_>>,
    ) -> Result<Option<(Released, Option<Acquired>)>, Error> {
        if !is_quick(claim) || names.keeping().gap.is_some() {
            return Ok(None);
        }
        let Inner { link, hub, .. } = &*self.0;
        let tell = hub.listening().release_messages;
        match link.ask(verbs::hand_over(names, claim, tell, next)).await {
            // Fewer keys may do.
            Err(Failure::Moving(_)) => Ok(None),
            outcome => {
                let answer = outcome.map_err(Failure::into_error)?;
                verbs::handed_over(next, &answer, hub.hears_releases(names))
            }
        }
    }

    /// Releases by the full script, or by the one that names the lock alone while its slot is moved.
    async fn release_in_full(&self, names: &Names<'_>, claim: &Claim) -> Result<Released, Error> {
        let Inner { link, hub, .. } = &*self.0;
        let call = verbs::release(names, claim, hub.listening().release_messages)?;
        match link.ask(call).await {
            Err(Failure::Moving(error)) => self.release_alone(names, claim, error).await,
            outcome => {
                let answer = outcome.map_err(Failure::into_error);
                verbs::released(answer, hub.hears_releases(names))
            }
        }
    }

    /// Releases by the script that names the lock alone, where others failed with this error.
    async fn release_alone(
        &self,
        names: &Names<'_>,
        claim: &Claim,
        error: Error,
    ) -> Result<Released, Error> {
        if !is_quick(claim) {
            return Err(error);
        }
        let tell = self.0.hub.listening().release_messages;
        let answer = self.0.link.run(verbs::single_release(names, claim, tell)).await?;
        // What waits in the queue, if it does, cannot be given up now.
        verbs::quickly_released(&answer)?.ok_or(error)
    }
}

/// Whether there are quick scripts for a claim.
fn is_quick(claim: &Claim) -> bool {
    claim.mode == Mode::Exclusive
}

/// Whether a renewal is the one that prolongs the state of the lock as well, of so many milliseconds beyond the
/// lease. Every instant that is a multiple of a third of that time has one soon after, however often the lease is
/// renewed: the time between two is less than its ttl. So the state never ends before the lease.
fn is_state_due(ttl: Ttl, retention: u64, now: Instant) -> bool {
    let third = Duration::from_millis(retention / 3).as_nanos().max(1);
    u128::from(now.as_nanos()) % third < ttl.duration().as_nanos()
}

/// Host, port and database, and nothing of the credentials.
impl fmt::Debug for RedisBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisBackend({})", self.0.link.settings().endpoint)
    }
}
