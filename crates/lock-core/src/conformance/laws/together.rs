//! Several keys in one step.

use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::super::Harness;
use super::super::scene::{Client, Scene, granted};
use super::super::verdict::{Check, Failure, ensure};
use super::arena::task_failed;
use crate::{Acquire, AcquireOutcome, Backend, Error, ErrorKind, Grant, Key, Ttl};

pub(in super::super) async fn leases_are_granted_together_or_not_at_all<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let keys = [scene.key()?, scene.key()?, scene.key()?];
    let ttl = scene.long();
    let requests = one.requests(&keys, ttl)?;
    all_granted(one.together(&requests).await?)?;
    for (key, request) in keys.iter().zip(&requests) {
        other.refused(key, ttl).await?;
        one.freed(&request.claim).await?;
    }

    // Whichever key is held, no request gets the rest.
    for held in &keys {
        let holder = scene.claim(held)?;
        other.granted(&holder, ttl).await?;
        none_granted(&one.together(&one.requests(&keys, ttl)?).await?)?;
        for free in keys.iter().filter(|key| *key != held) {
            let rival = scene.claim(free)?;
            other.granted(&rival, ttl).await?;
            other.freed(&rival).await?;
        }
        other.renewed(&holder, ttl).await?;
        other.freed(&holder).await?;
    }

    let twice = one.requests(&[keys[0].clone(), keys[0].clone()], ttl)?;
    match one.try_together(&twice).await? {
        Err(error) if error.kind() == ErrorKind::InvalidConfig => {}
        other => return Err(Failure::Broken(format!("one key twice came to {other:?}"))),
    }

    one_of_many_is_granted(&scene, &keys, ttl).await
}

/// Checks that of several requests at once, in different orders, exactly one is granted.
async fn one_of_many_is_granted<H: Harness>(
    scene: &Scene<'_, H>,
    keys: &[Key; 3],
    ttl: Ttl,
) -> Check {
    const CONTENDERS: usize = 8;
    let start = Arc::new(Barrier::new(CONTENDERS));
    let mut tasks = JoinSet::new();
    for (index, client) in scene.clients(CONTENDERS).await?.into_iter().enumerate() {
        let (start, mut keys) = (Arc::clone(&start), keys.clone());
        keys.rotate_left(index % 3);
        tasks.spawn(async move {
            let requests = client.requests(&keys, ttl)?;
            start.wait().await;
            client.together(&requests).await
        });
    }
    let mut grants = 0;
    while let Some(attempts) = tasks.join_next().await {
        let attempts = attempts.map_err(task_failed)??;
        let is_granted = attempts.iter().any(|it| matches!(it, AcquireOutcome::Granted(_)));
        if is_granted {
            all_granted(attempts)?;
            grants += 1;
        } else {
            none_granted(&attempts)?;
        }
    }
    ensure!(grants == 1, "{grants} of {CONTENDERS} contenders were granted the keys");
    Ok(())
}

pub(in super::super) async fn leases_granted_together_are_leases_like_any_other<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let keys = [scene.key()?, scene.key()?];
    let (ttl, short) = (scene.long(), scene.ttl());
    let before = scene.claim(&keys[0])?;
    let highest = other.granted(&before, ttl).await?.tokens.last();
    other.freed(&before).await?;

    let requests = one.requests(&keys, ttl)?;
    let grants = all_granted(one.together(&requests).await?)?;
    let lowest = grants[0].tokens.first();
    ensure!(lowest > highest, "{lowest} was granted after {highest}");
    // Repeated together or one by one, the grants do not change.
    for client in [&one, &other] {
        let again = all_granted(client.together(&requests).await?)?;
        for ((request, first), again) in requests.iter().zip(&grants).zip(again) {
            let alone = client.granted(&request.claim, ttl).await?;
            ensure!(
                again.tokens == first.tokens && alone.tokens == first.tokens,
                "the first grant was {first:?}, repeated it was {again:?} and {alone:?}"
            );
        }
    }
    // One ends, and the other stays.
    one.freed(&requests[0].claim).await?;
    let next = scene.claim(&keys[0])?;
    let lowest = other.granted(&next, ttl).await?.tokens.first();
    ensure!(lowest > grants[0].tokens.last(), "{lowest} came after {:?}", grants[0].tokens);
    other.refused(&keys[1], ttl).await?;
    one.renewed(&requests[1].claim, short).await?;
    scene.outlast(short.duration()).await;
    other.granted(&scene.claim(&keys[1])?, ttl).await?;
    other.freed(&next).await?;

    // They expire as well.
    let keys = [scene.key()?, scene.key()?];
    all_granted(one.together(&one.requests(&keys, short)?).await?)?;
    scene.outlast(short.duration()).await;
    all_granted(other.together(&other.requests(&keys, short)?).await?)?;
    Ok(())
}

pub(in super::super) async fn no_waiter_is_overtaken_together<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let newcomer = scene.client().await?;
    let keys = [scene.key()?, scene.key()?];
    let (ttl, short) = (scene.long(), scene.ttl_with_rest());
    // Checked first, because the rest needs a queue too.
    let requests = newcomer.requests(&keys, ttl)?;
    all_granted(newcomer.together(&requests).await?)?;
    for request in &requests {
        newcomer.freed(&request.claim).await?;
    }

    // The holder dies, and so both keys are free, but a claim waits for the second.
    holder.granted(&scene.claim(&keys[1])?, short).await?;
    let mut waiter = other.waits(scene.queued(&keys[1], ttl)?).await?;
    scene.outlast(short.duration()).await;
    let _watches = (newcomer.watch(&keys[0]).await?, newcomer.watch(&keys[1]).await?);
    let requests = newcomer.requests(&keys, ttl)?;
    let requests: Vec<_> = requests.into_iter().map(Acquire::queued).collect();
    none_granted(&newcomer.together(&requests).await?)?;
    waiter.hears_grant().await?;
    waiter.claims().await?;
    none_granted(&newcomer.together(&requests).await?)?;
    // That put no request into the queue.
    ensure!(waiter.leaves().await?, "the lease was lost");
    for key in &keys {
        holder.granted(&scene.claim(key)?, ttl).await?;
    }
    Ok(())
}

impl<B: Backend> Client<B> {
    /// Requests by new owners.
    fn requests(&self, keys: &[Key], ttl: Ttl) -> Check<Vec<Acquire>> {
        keys.iter().map(|key| Ok(Acquire::new(self.claim(key)?, ttl))).collect()
    }

    async fn try_together(
        &self,
        requests: &[Acquire],
    ) -> Check<Result<Vec<AcquireOutcome>, Error>> {
        let asked = self.backend.try_acquire_all(requests);
        match self.bounded("try_acquire_all", asked).await? {
            Ok(Some(attempts)) => {
                let (count, wanted) = (attempts.len(), requests.len());
                ensure!(count == wanted, "{wanted} requests got {count} answers");
                Ok(Ok(attempts))
            }
            Ok(None) => {
                let reason = "this backend does not grant several leases in one step";
                Err(Failure::NotApplicable(reason.into()))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    async fn together(&self, requests: &[Acquire]) -> Check<Vec<AcquireOutcome>> {
        Ok(self.try_together(requests).await??)
    }
}

fn all_granted(attempts: Vec<AcquireOutcome>) -> Check<Vec<Grant>> {
    attempts.into_iter().map(granted).collect()
}

fn none_granted(attempts: &[AcquireOutcome]) -> Check {
    let is_busy = |attempt: &AcquireOutcome| matches!(attempt, AcquireOutcome::Busy { .. });
    ensure!(attempts.iter().all(is_busy), "not all was free, but it got {attempts:?}");
    Ok(())
}
