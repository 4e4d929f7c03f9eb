//! Each verb of a lock, once.

use lock_core::{
    Acquire, AcquireOutcome, Backend as _, Claim, Error, ErrorKind, Hint, InspectBackend as _, Key,
    OwnerToken, Renew, Renewal, Ttl, Watch,
};
use tokio::time;

use super::facts::{Outcome, Rehearsal};
use crate::RedisBackend;

/// The name of the lock.
pub(super) const NAME: &str = "lock-redis/check";

/// Acquires, renews, watches, inspects and hands over a lock.
pub(super) async fn rehearse(backend: &RedisBackend) -> Rehearsal {
    let mut rehearsal = Rehearsal::default();
    if let Err(error) = run(backend, &mut rehearsal).await {
        rehearsal.outcome = Outcome::Failed(error.kind(), error.to_string());
    }
    rehearsal
}

async fn run(backend: &RedisBackend, rehearsal: &mut Rehearsal) -> Result<(), Error> {
    let key = Key::new(NAME)?;
    let watch = watch(backend, &key, rehearsal).await?;
    let claim = Claim::exclusive(key.clone(), OwnerToken::generate()?);
    let ttl = Ttl::new(time::Duration::from_secs(10))?;
    let ttl = backend.longest().map_or(ttl, |longest| ttl.min(longest));
    let attempt = match backend.try_acquire(&Acquire::new(claim.clone(), ttl)).await {
        Ok(attempt) => attempt,
        Err(error) => {
            // The server may have granted it.
            let _best_effort = backend.release(&claim).await;
            return Err(error);
        }
    };
    if !matches!(attempt, AcquireOutcome::Granted(_)) {
        rehearsal.outcome = Outcome::Busy;
        return Ok(());
    }
    let next = Acquire::new(Claim::exclusive(key, OwnerToken::generate()?), ttl).queued();
    let used = use_it(backend, &claim, &next, watch, rehearsal).await;
    // Whatever failed, the lock does not stay behind if it can be released.
    let released = backend.release(&claim).await;
    let next_released = backend.release(&next.claim).await;
    used?;
    released.and(next_released).map(drop)
}

async fn use_it(
    backend: &RedisBackend,
    claim: &Claim,
    next: &Acquire,
    watch: Option<Watch>,
    rehearsal: &mut Rehearsal,
) -> Result<(), Error> {
    if is_lost(backend, claim, next.ttl).await? {
        rehearsal.outcome = Outcome::Vanished;
        return Ok(());
    }
    look(backend, &claim.key, rehearsal).await?;
    let queued = backend.try_acquire(next).await?;
    backend.release(claim).await?;
    match watch {
        Some(watch) if matches!(queued, AcquireOutcome::Queued { .. }) => {
            hear_of_grant(backend, watch, next, rehearsal).await
        }
        Some(watch) => {
            rehearsal.unqueued = backend.queues();
            expect(backend, watch, |hint| *hint == Hint::Released, rehearsal).await;
            Ok(())
        }
        None => Ok(()),
    }
}

/// Starts to watch.
async fn watch(
    backend: &RedisBackend,
    key: &Key,
    rehearsal: &mut Rehearsal,
) -> Result<Option<Watch>, Error> {
    match backend.watch(key).await {
        Ok(watch) => Ok(Some(watch)),
        Err(error) if error.is_retryable() => Err(error),
        Err(error) => {
            rehearsal.unwatched = Some(error.to_string());
            Ok(None)
        }
    }
}

/// Renews a lease, and says whether it is over.
async fn is_lost(backend: &RedisBackend, claim: &Claim, ttl: Ttl) -> Result<bool, Error> {
    match backend.renew(&Renew::new(claim.clone(), ttl)).await {
        Renewal::Unknown(error) => Err(error),
        renewal => Ok(matches!(renewal, Renewal::Lost)),
    }
}

async fn look(backend: &RedisBackend, key: &Key, rehearsal: &mut Rehearsal) -> Result<(), Error> {
    match backend.inspect(key).await {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::Denied => {
            rehearsal.unseen = Some(error.to_string());
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Waits for the message that grants the lock to the next claim, which then has the lock.
///
/// A release gives the lock to a claim only if the server counts its client among the receivers of the message.
async fn hear_of_grant(
    backend: &RedisBackend,
    watch: Watch,
    next: &Acquire,
    rehearsal: &mut Rehearsal,
) -> Result<(), Error> {
    let owner = next.claim.owner;
    let is_it = |hint: &Hint| matches!(hint, Hint::Granted { owner: it, .. } if *it == owner);
    if expect(backend, watch, is_it, rehearsal).await {
        rehearsal.uncounted = is_lost(backend, &next.claim, next.ttl).await?;
    }
    Ok(())
}

/// Whether the watch yields this hint in time.
async fn expect(
    backend: &RedisBackend,
    mut watch: Watch,
    is_it: impl Fn(&Hint) -> bool,
    rehearsal: &mut Rehearsal,
) -> bool {
    let limit = backend.fleet().command_timeout();
    let heard = async {
        loop {
            match watch.next().await {
                Some(hint) if is_it(&hint) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    };
    time::timeout(limit, heard).await.unwrap_or_else(|_| {
        rehearsal.unheard = Some(limit);
        false
    })
}
