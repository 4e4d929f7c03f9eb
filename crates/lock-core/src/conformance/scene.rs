//! The vocabulary of the tests of laws.

use std::num::NonZeroU32;
use std::time::Duration;

use super::verdict::{Check, Failure, ensure};
use super::voter::Voters;
use super::{Harness, Hook};
use crate::{
    Acquire, AcquireOutcome, Backend, Claim, Clock, Error, ErrorKind, Grant, Hint, Instant, Key,
    Limits,
};
use crate::{Mode, OwnerToken, Released, Renew, Renewal, Ttl, Watch};

/// The terms that all laws of one suite share.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// The mode of a claim where a law does not say.
    pub(super) mode: Mode,
    /// Whether the backend has promised every mode that the laws ask for.
    pub(super) promised: bool,
}

/// The stage of one law: its clients, its keys and its time.
pub(super) struct Scene<'h, H> {
    harness: &'h H,
    terms: Terms,
}

impl<'h, H: Harness> Scene<'h, H> {
    pub(super) fn new(harness: &'h H, terms: Terms) -> Self {
        Self { harness, terms }
    }

    /// A client that shares only the store with the others.
    pub(super) async fn client(&self) -> Check<Client<H::Client>> {
        Ok(self.of(self.harness.client().await?))
    }

    pub(super) async fn two_clients(&self) -> Check<(Client<H::Client>, Client<H::Client>)> {
        Ok((self.client().await?, self.client().await?))
    }

    pub(super) async fn clients(&self, count: usize) -> Check<Vec<Client<H::Client>>> {
        let mut clients = Vec::with_capacity(count);
        for _ in 0..count {
            clients.push(self.client().await?);
        }
        Ok(clients)
    }

    /// Two clients, of which the first holds a new key for longer than the test takes.
    pub(super) async fn held(&self) -> Check<Held<H::Client>> {
        let (holder, other) = self.two_clients().await?;
        let (key, ttl) = (self.key()?, self.long());
        let held = self.claim(&key)?;
        let grant = holder.granted(&held, ttl).await?;
        Ok(Held { holder, other, key, ttl, held, grant })
    }

    /// A key whose lease has ended with its time, and which another client holds now.
    pub(super) async fn succeeded(&self) -> Check<Succeeded<H::Client>> {
        let (former, holder) = self.two_clients().await?;
        let key = self.key()?;
        let (stale, current) = (self.claim(&key)?, self.claim(&key)?);
        former.granted(&stale, self.ttl()).await?;
        self.outlast(self.ttl().duration()).await;
        holder.granted(&current, self.long()).await?;
        Ok(Succeeded { former, holder, key, stale, current })
    }

    /// A client whose requests are queued only while fewer than `waiters` wait.
    pub(super) async fn limited_client(&self, waiters: NonZeroU32) -> Check<Client<H::Client>> {
        let none = || Failure::NotApplicable("this harness has no client with such a limit".into());
        Ok(self.of(self.harness.limited_client(waiters).await?.ok_or_else(none)?))
    }

    /// A client of another server, which no client has used before.
    pub(super) async fn other_server(&self) -> Check<Client<H::Client>> {
        let none = || Failure::NotApplicable("this harness has no other server".into());
        Ok(self.of(self.harness.other_server().await?.ok_or_else(none)?))
    }

    /// This stage with votes in the place of requests.
    pub(super) fn voters(&self) -> Voters<'h, H> {
        Voters(self.harness)
    }

    /// This stage with another harness.
    pub(super) fn with<'o, O: Harness>(&self, harness: &'o O) -> Scene<'o, O> {
        Scene::new(harness, self.terms)
    }

    fn of(&self, backend: H::Client) -> Client<H::Client> {
        Client { backend, patience: self.harness.patience(), terms: self.terms }
    }

    /// A key that no client has used before, in this run or an earlier one.
    pub(super) fn key(&self) -> Check<Key> {
        Ok(Key::new([b"conformance/", random()?.as_slice()].concat())?)
    }

    /// A claim to the whole key by a new owner, in the mode in which the laws are tested.
    pub(super) fn claim(&self, key: &Key) -> Check<Claim> {
        in_mode(key, self.terms.mode)
    }

    /// A request for the whole key by a new owner, which asks to be queued.
    pub(super) fn queued(&self, key: &Key, ttl: Ttl) -> Check<Acquire> {
        Ok(Acquire::new(self.claim(key)?, ttl).queued())
    }

    /// The lease time of a lease that the test outlives.
    pub(super) fn ttl(&self) -> Ttl {
        self.harness.ttl()
    }

    /// A lease time for laws that wait for a part of the lease, or that form a queue within it. The rest is long enough
    /// for requests on a busy machine.
    pub(super) fn ttl_with_rest(&self) -> Ttl {
        Ttl::new(self.ttl().duration() * 2).unwrap_or(Ttl::MAX)
    }

    /// How much longer than [`ttl`](Self::ttl) a thing lasts that a law looks at after that time. On a busy machine, the
    /// look may come late.
    pub(super) fn rest(&self) -> Duration {
        self.ttl().duration().max(Duration::from_secs(2))
    }

    /// A lease time that outlasts the test.
    pub(super) fn long(&self) -> Ttl {
        Ttl::new(self.ttl().duration() * 40).unwrap_or(Ttl::MAX)
    }

    pub(super) fn patience(&self) -> Duration {
        self.harness.patience()
    }

    pub(super) async fn pause(&self, time: Duration) {
        self.harness.pause(time).await;
    }

    /// Lets time pass until a lease of this length is over for the store as well.
    pub(super) async fn outlast(&self, ttl: Duration) {
        self.harness.outlast(ttl).await;
    }

    pub(super) async fn cut(&self, client: &Client<H::Client>) -> Check {
        needed(self.harness.cut(&client.backend).await)
    }

    pub(super) async fn heal(&self, client: &Client<H::Client>) {
        self.harness.heal(&client.backend).await;
    }

    pub(super) async fn forget(&self) -> Check {
        needed(self.harness.forget().await)
    }

    pub(super) async fn restart(&self) -> Check {
        needed(self.harness.restart().await)
    }

    /// Checks that no other client is granted the key before `deadline`.
    pub(super) async fn refused_until(
        &self,
        deadline: Instant,
        other: &Client<H::Client>,
        key: &Key,
    ) -> Check {
        let rival = self.claim(key)?;
        let mut refusals = 0;
        loop {
            let attempt = other.attempt(&rival, self.ttl()).await?;
            // Read after the answer, so a grant was made before this instant.
            let now = other.clock().now();
            if now >= deadline {
                let late = "the lease was over before another client could ask";
                return if refusals > 0 { Ok(()) } else { Err(Failure::Late(late.into())) };
            }
            ensure!(
                !matches!(attempt, AcquireOutcome::Granted(_)),
                "another client was granted the key {:?} before the holder's deadline",
                deadline.saturating_duration_since(now)
            );
            refusals += 1;
            self.pause(self.ttl().duration() / 20).await;
        }
    }
}

/// See [`Scene::held`].
pub(super) struct Held<B> {
    pub(super) holder: Client<B>,
    pub(super) other: Client<B>,
    pub(super) key: Key,
    pub(super) ttl: Ttl,
    pub(super) held: Claim,
    pub(super) grant: Grant,
}

/// See [`Scene::succeeded`].
pub(super) struct Succeeded<B> {
    pub(super) former: Client<B>,
    pub(super) holder: Client<B>,
    pub(super) key: Key,
    pub(super) stale: Claim,
    pub(super) current: Claim,
}

/// A backend under test. The patience of the harness bounds each request.
pub(super) struct Client<B> {
    pub(super) backend: B,
    patience: Duration,
    pub(super) terms: Terms,
}

impl<B: Backend> Client<B> {
    /// As [`Scene::claim`].
    pub(super) fn claim(&self, key: &Key) -> Check<Claim> {
        in_mode(key, self.terms.mode)
    }

    /// As [`Scene::queued`].
    pub(super) fn queued(&self, key: &Key, ttl: Ttl) -> Check<Acquire> {
        Ok(Acquire::new(self.claim(key)?, ttl).queued())
    }

    pub(super) fn clock(&self) -> Clock {
        self.backend.clock()
    }

    pub(super) fn limits(&self) -> Limits {
        self.backend.limits()
    }

    pub(super) async fn attempt(&self, claim: &Claim, ttl: Ttl) -> Check<AcquireOutcome> {
        Ok(self.try_acquire(&Acquire::new(claim.clone(), ttl)).await??)
    }

    pub(super) async fn try_acquire(
        &self,
        request: &Acquire,
    ) -> Check<Result<AcquireOutcome, Error>> {
        self.bounded("try_acquire", self.backend.try_acquire(request)).await
    }

    /// Asks for a lease that must be granted.
    pub(super) async fn granted(&self, claim: &Claim, ttl: Ttl) -> Check<Grant> {
        granted(self.attempt(claim, ttl).await?)
    }

    /// Asks for the key with a new owner, which must be refused.
    pub(super) async fn refused(&self, key: &Key, ttl: Ttl) -> Check<Option<Duration>> {
        match self.attempt(&self.claim(key)?, ttl).await? {
            AcquireOutcome::Busy { retry_after } => Ok(retry_after),
            other => {
                Err(Failure::Broken(format!("{key} is held, but another owner got {other:?}")))
            }
        }
    }

    pub(super) async fn renew(&self, claim: &Claim, ttl: Ttl) -> Check<Renewal> {
        self.bounded("renew", self.backend.renew(&Renew::new(claim.clone(), ttl))).await
    }

    /// Renews a lease that must be held.
    pub(super) async fn renewed(&self, claim: &Claim, ttl: Ttl) -> Check<Instant> {
        renewed(self.renew(claim, ttl).await?)
    }

    /// Renews a lease that must be over.
    pub(super) async fn lost(&self, claim: &Claim, ttl: Ttl) -> Check {
        match self.renew(claim, ttl).await? {
            Renewal::Lost => Ok(()),
            other => Err(Failure::Broken(format!("expected the lease to be lost, got {other:?}"))),
        }
    }

    pub(super) async fn release(&self, claim: &Claim) -> Check<Result<Released, Error>> {
        self.bounded("release", self.backend.release(claim)).await
    }

    pub(super) async fn release_and_requeue(
        &self,
        claim: &Claim,
        next: &Acquire,
    ) -> Check<Result<(Released, Option<AcquireOutcome>), Error>> {
        self.bounded("release_and_requeue", self.backend.release_and_requeue(claim, next)).await
    }

    /// Releases a lease that must be held.
    pub(super) async fn freed(&self, claim: &Claim) -> Check {
        match self.release(claim).await?? {
            Released::Freed { .. } => Ok(()),
            other => Err(Failure::Broken(format!("a release of a held lease got {other:?}"))),
        }
    }

    /// Releases a lease that must not be held.
    pub(super) async fn not_held(&self, claim: &Claim) -> Check {
        match self.release(claim).await?? {
            Released::NotHeld => Ok(()),
            other => Err(Failure::Broken(format!("there was nothing to release, got {other:?}"))),
        }
    }

    /// Watches a key; the law is not applicable to a backend without hints.
    pub(super) async fn watch(&self, key: &Key) -> Check<Watch> {
        match self.bounded("watch", self.backend.watch(key)).await? {
            Ok(watch) => Ok(watch),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(Failure::NotApplicable(format!("this backend gives no hints: {error}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until a watch says that its key was released.
    pub(super) async fn hears_release(&self, watch: &mut Watch) -> Check {
        self.bounded("a hint of the release", async {
            loop {
                match watch.next().await {
                    Some(Hint::Released) => return Ok(()),
                    Some(_) => {}
                    None => return Err(Failure::Broken("the watch ended".into())),
                }
            }
        })
        .await?
    }

    pub(super) async fn bounded<T>(&self, what: &str, future: impl Future<Output = T>) -> Check<T> {
        let late = |_| Failure::Broken(format!("{what} took more than {:?}", self.patience));
        tokio::time::timeout(self.patience, future).await.map_err(late)
    }
}

/// A claim by a new owner.
pub(super) fn in_mode(key: &Key, mode: Mode) -> Check<Claim> {
    Ok(Claim::exclusive(key.clone(), OwnerToken::generate()?).in_mode(mode))
}

pub(super) fn granted(attempt: AcquireOutcome) -> Check<Grant> {
    match attempt {
        AcquireOutcome::Granted(grant) => Ok(grant),
        other => Err(Failure::Broken(format!("expected a grant, got {other:?}"))),
    }
}

pub(super) fn renewed(renewal: Renewal) -> Check<Instant> {
    match renewal {
        Renewal::Renewed { valid_until, .. } => Ok(valid_until),
        other => Err(Failure::Broken(format!("expected a renewed lease, got {other:?}"))),
    }
}

/// Checks an error that occurred while the store could not be reached. It must be retryable.
pub(super) fn retryable(what: &str, error: &Error) -> Check {
    let kind = error.kind();
    ensure!(error.is_retryable(), "{what} failed for good: {error} ({kind:?})");
    Ok(())
}

fn needed(hook: Hook) -> Check {
    match hook {
        Hook::Done => Ok(()),
        Hook::NotApplicable(reason) => Err(Failure::NotApplicable(reason.into())),
    }
}

/// 32 random digits, taken from an owner token.
fn random() -> Check<Vec<u8>> {
    Ok(OwnerToken::generate()?.expose().to_vec())
}
