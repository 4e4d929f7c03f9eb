//! What a client does: asks, holds, renews and releases, and gives up in the middle of any of these.

use std::future::poll_fn;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Instant, Key, Mode, OwnerToken, Renew, Renewal,
};
use lock_core::{Grant, Ttl};
use lock_redlock::Redlock;
use tokio::time::sleep;

use crate::history::{Lease, Wrong};
use crate::node::SimNode;
use crate::plan::{Faults, Flaw};
use crate::rng::Rng;
use crate::story::join_as;
use crate::world::World;

/// How many leases a client asks for.
const LEASES: u64 = 5;

pub(crate) struct Client {
    pub(crate) world: Arc<World>,
    pub(crate) number: usize,
    pub(crate) quorum: Redlock<SimNode>,
    pub(crate) rng: Rng,
}

/// A lease that the client has.
pub(crate) struct Held {
    /// Its number in the history.
    lease: usize,
    pub(crate) request: Acquire,
    pub(crate) grant: Grant,
    /// How many tokens of the grant the holder has used for values.
    pub(crate) stored: u32,
}

impl Client {
    pub(crate) async fn run(mut self) {
        for _ in 0..LEASES {
            sleep(self.rng.millis(0, 400)).await;
            if self.may_crash(4) {
                return;
            }
            if self.world.plan.faults.passing {
                let members = self.world.plan.members[self.number].clone();
                // Too few nodes may answer.
                let joined = join_as(&self.world, self.number, members).await;
                let Ok(quorum) = joined else { continue };
                self.quorum = quorum;
            }
            let claim = self.claim();
            self.may_load(&claim.key, None).await;
            let Some(held) = self.acquire(claim).await else { continue };
            self.hold(held).await;
            if self.world.has_crashed(self.number) {
                return;
            }
        }
    }

    fn claim(&mut self) -> Claim {
        let key = self.rng.index(self.world.plan.keys);
        let mut owner = [0; 16];
        owner[..8].copy_from_slice(&self.rng.next().to_le_bytes());
        let claim = Claim::exclusive(key_of(key), OwnerToken::from_bytes(owner));
        if self.world.plan.faults.upgradable && self.rng.chance(30) {
            return claim.in_mode(Mode::Upgradable);
        }
        if self.rng.chance(30) { claim.in_mode(Mode::Shared) } else { claim }
    }

    /// Asks until it is granted, or for some times.
    async fn acquire(&mut self, claim: Claim) -> Option<Held> {
        let ttl = self.rng.pick(self.world.plan.ttls);
        let ttl = Ttl::new(std::time::Duration::from_millis(ttl)).unwrap();
        let tokens = NonZeroU32::new(self.rng.pick(&[1, 1, 5])).unwrap();
        let request = Acquire::new(claim, ttl).reserving(tokens);
        let asked = self.world.now();
        for _ in 0..=self.rng.below(6) {
            let attempt = self.attempt(&request).await;
            self.log(|| format!("is answered {attempt:?}"));
            match attempt {
                Some(Ok(AcquireOutcome::Granted(grant))) => {
                    let lease = self.note(&request, asked, grant.clone());
                    return Some(Held { lease, request, grant, stored: 0 });
                }
                Some(Ok(AcquireOutcome::Busy { retry_after })) => {
                    let patience = self.rng.millis(10, 300);
                    sleep(retry_after.unwrap_or(patience).min(patience)).await;
                }
                Some(Err(_)) | None => sleep(self.rng.millis(0, 100)).await,
                Some(Ok(_)) => unreachable!("no claim is queued"),
            }
        }
        // It may have been granted all the same.
        if !self.forgets() {
            self.release(&request.claim).await;
        }
        None
    }

    async fn attempt(&mut self, request: &Acquire) -> Option<lock_core::Result<AcquireOutcome>> {
        let polls = self.polls();
        some_of(self.quorum.try_acquire(request), polls).await
    }

    fn note(&self, request: &Acquire, asked: Instant, grant: Grant) -> usize {
        let claim = &request.claim;
        let lease = Lease {
            client: self.number,
            key: self.number_of(&claim.key),
            mode: claim.mode,
            tokens: (grant.tokens.first(), grant.tokens.last()),
            falls: false,
            asked,
            granted: self.world.now(),
            until: self.believed(grant.valid_until, request.ttl),
        };
        self.world.history(|history| {
            history.leases.push(lease);
            history.leases.len() - 1
        })
    }

    /// Renews a lease some times, and gives it up.
    async fn hold(&mut self, mut held: Held) {
        for _ in 0..self.rng.below(5) {
            let pause = held.request.ttl.as_millis().min(1000) / 2;
            sleep(self.rng.millis(0, pause)).await;
            if self.may_crash(3) {
                return;
            }
            self.may_store(&mut held).await;
            let goes_on = match self.rng.below(5) {
                0 => self.repeat(&held).await,
                _ => self.renew(&mut held).await,
            };
            if !goes_on {
                break;
            }
        }
        if !self.forgets() {
            let now = self.world.now();
            self.change(held.lease, |lease| lease.until = lease.until.min(now));
            self.release(&held.request.claim).await;
        }
    }

    async fn renew(&mut self, held: &mut Held) -> bool {
        let wanted = if self.world.plan.faults.tokens { self.rng.pick(&[0, 3]) } else { 0 };
        let request = Renew::new(held.request.claim.clone(), held.request.ttl).reserving(wanted);
        let polls = self.polls();
        let renewal = some_of(self.quorum.renew(&request), polls).await;
        self.log(|| format!("is answered {renewal:?}"));
        let now = self.world.now();
        match renewal {
            Some(Renewal::Renewed { valid_until, tokens, .. }) => {
                // A holder that has stopped does not begin again.
                let was_valid = held.grant.valid_until > now;
                held.grant.valid_until = valid_until;
                let until = self.believed(valid_until, request.ttl);
                self.change(held.lease, |lease| {
                    if was_valid {
                        lease.until = until;
                        lease.extend(tokens);
                    }
                });
                was_valid
            }
            Some(Renewal::Lost) => {
                let plan = &self.world.plan;
                if held.grant.valid_until > now && !plan.faults.forgetting {
                    let until = held.grant.valid_until;
                    self.world.wrong(Wrong::Lease, || format!("lost at {now:?}, until {until:?}"));
                }
                self.change(held.lease, |lease| lease.until = lease.until.min(now));
                false
            }
            _ => true,
        }
    }

    /// Asks again for what it has.
    async fn repeat(&mut self, held: &Held) -> bool {
        let asked = self.world.now();
        let attempt = self.attempt(&held.request).await;
        self.log(|| format!("asks again, and is answered {attempt:?}"));
        let now = self.world.now();
        let before = &held.grant;
        match attempt {
            Some(Ok(AcquireOutcome::Granted(grant))) => {
                // Without a quarantine, nodes that have forgotten the lease vote again at once.
                let Faults { forgetting, unguarded, .. } = self.world.plan.faults;
                let is_valid = now < before.valid_until && !(forgetting && unguarded);
                if is_valid && grant.tokens != before.tokens {
                    self.world.wrong(Wrong::Lease, || format!("{grant:?} after {before:?}"));
                }
                let goes_on = grant.tokens.last() == before.tokens.last();
                if !goes_on {
                    // The first one had run out, so this is another.
                    let lease = self.note(&held.request, asked, grant);
                    self.change(lease, |lease| lease.until = now);
                }
                goes_on
            }
            Some(Ok(AcquireOutcome::Busy { .. })) => {
                self.change(held.lease, |lease| lease.until = lease.until.min(now));
                false
            }
            _ => true,
        }
    }

    async fn release(&mut self, claim: &Claim) {
        for _ in 0..=self.rng.below(2) {
            let polls = self.polls();
            let released = some_of(self.quorum.release(claim), polls).await;
            self.log(|| format!("releases, and is answered {released:?}"));
        }
        if self.world.plan.faults.lasting {
            let released = self.quorum.release(claim).await;
            self.log(|| format!("releases for good, and is answered {released:?}"));
        }
    }

    /// Until when the client relies on a lease.
    fn believed(&self, valid_until: Instant, ttl: Ttl) -> Instant {
        match self.world.plan.flaw {
            Flaw::IgnoresValidity => self.world.now() + ttl.duration(),
            _ => valid_until,
        }
    }

    fn change(&self, lease: usize, change: impl FnOnce(&mut Lease)) {
        self.world.history(|history| change(&mut history.leases[lease]));
    }

    /// How often the next future is polled before it is dropped, if it is.
    pub(crate) fn polls(&mut self) -> u64 {
        if self.rng.chance(12) { self.rng.below(8) } else { u64::MAX }
    }

    /// Whether the client does not release what it has.
    fn forgets(&mut self) -> bool {
        self.world.plan.faults.crashes && self.rng.chance(10)
    }

    fn may_crash(&mut self, percent: u64) -> bool {
        let crashes = self.world.plan.faults.crashes && self.rng.chance(percent);
        if crashes {
            self.world.crash(self.number);
        }
        crashes
    }

    pub(crate) fn number_of(&self, key: &Key) -> usize {
        let name = std::str::from_utf8(key.as_bytes()).unwrap();
        name.strip_prefix("key ").unwrap().parse().unwrap()
    }

    pub(crate) fn log(&self, what: impl FnOnce() -> String) {
        self.world.log(|| format!("client {} {}", self.number, what()));
    }
}

pub(crate) fn key_of(number: usize) -> Key {
    Key::new(format!("key {number}")).unwrap()
}

/// Polls a future so often, and then drops it.
pub(crate) async fn some_of<F: Future>(future: F, mut polls: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // Without a further wake-up it would not be dropped, but wait.
            Poll::Pending if polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
