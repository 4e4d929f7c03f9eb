//! How the key passes from its holder to the first waiter.

use std::num::NonZeroU32;

use super::super::Harness;
use super::super::scene::{Client, Held, Scene};
use super::super::verdict::{Check, Failure, ensure};
use crate::{
    AcquireOutcome, Backend, Claim, Contention, Grant, Hint, Released, Renew, Renewal, Ttl, Watch,
};

pub(in super::super) async fn a_release_hands_the_key_over<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, .. } = scene.held().await?;
    let newcomer = scene.client().await?;
    let mut waiter = other.waits(scene.queued(&key, ttl)?).await?;
    holder.freed(&held).await?;
    // The waiter has done nothing, and yet it holds the key.
    newcomer.refused(&key, ttl).await?;
    holder.refused(&key, ttl).await?;
    holder.not_held(&held).await?;
    let pushed = waiter.hears_grant().await?;
    let claimed = waiter.claims().await?;
    ensure!(
        pushed.as_ref().is_none_or(|pushed| pushed.tokens == claimed.tokens),
        "{pushed:?} was announced, but it is {claimed:?}"
    );
    newcomer.refused(&key, ttl).await?;
    ensure!(waiter.leaves().await?, "the lease was lost");
    newcomer.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_grant_is_told_to_its_owner_alone<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let bystander = scene.client().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let held = scene.claim(&key)?;
    let mut watches = [holder.watch(&key).await?, bystander.watch(&key).await?];
    holder.granted(&held, ttl).await?;
    let mut first = other.waits(scene.queued(&key, ttl)?).await?;
    let mut second = holder.waits(scene.queued(&key, ttl)?).await?;
    holder.freed(&held).await?;
    first.hears_grant().await?;
    first.claims().await?;
    // The hint carries the token that proves ownership, so no other client may hear it.
    let [ours, theirs] = &mut watches;
    let leaked = async {
        tokio::select! {
            () = hears(ours, is_grant) => "the former holder",
            () = hears(&mut second.watch, is_grant) => "the next waiter",
            () = hears(theirs, names_an_owner) => "a bystander",
        }
    };
    tokio::select! {
        who = leaked => Err(Failure::Broken(format!("{who} was told of another client's grant"))),
        () = scene.pause(scene.ttl().duration() / 4) => Ok(()),
    }
}

fn is_grant(hint: &Hint) -> bool {
    matches!(hint, Hint::Granted { .. })
}

fn names_an_owner(hint: &Hint) -> bool {
    matches!(hint, Hint::Granted { .. } | Hint::Next { .. })
}

/// Waits for such a hint, and forever if there is none.
async fn hears(watch: &mut Watch, is_such: impl Fn(&Hint) -> bool) {
    loop {
        match watch.next().await {
            Some(hint) if is_such(&hint) => return,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

pub(in super::super) async fn a_pushed_grant_ends_before_its_lease<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let newcomer = scene.client().await?;
    let (key, ttl) = (scene.key()?, scene.ttl_with_rest());
    let held = scene.claim(&key)?;
    holder.granted(&held, scene.long()).await?;
    let mut waiter = other.waits(scene.queued(&key, ttl)?).await?;
    holder.freed(&held).await?;
    // The waiter is slow to look.
    scene.pause(other.limits().grant(ttl).duration() / 3).await;
    let Some(grant) = waiter.hears_grant().await? else {
        return Err(Failure::NotApplicable("this backend does not date what it announces".into()));
    };
    let latest = other.limits().grant(ttl).valid_until(other.clock().now());
    ensure!(grant.valid_until <= latest, "the deadline leaves less than the drift to the store's");
    scene.refused_until(grant.valid_until, &newcomer, &key).await
}

pub(in super::super) async fn a_claimed_lease_lives_for_its_ttl<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, .. } = scene.held().await?;
    let mut waiter = other.waits(scene.queued(&key, ttl)?).await?;
    holder.freed(&held).await?;
    waiter.hears_grant().await?;
    let claimed = waiter.claims().await?;
    scene.outlast(other.limits().grant(ttl).duration()).await;
    ensure!(claimed.valid_until > other.clock().now(), "asking did not extend the lease");
    holder.refused(&key, ttl).await?;
    other.renewed(waiter.claim(), ttl).await?;
    Ok(())
}

pub(in super::super) async fn an_unclaimed_grant_passes_on<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, .. } = scene.held().await?;
    let newcomer = scene.client().await?;
    let dead = other.waits(scene.queued(&key, ttl)?).await?;
    let mut heir = holder.waits(scene.queued(&key, ttl)?).await?;
    holder.freed(&held).await?;
    scene.outlast(other.limits().grant(ttl).duration()).await;
    // The next request of any client passes the lease on.
    newcomer.refused(&key, ttl).await?;
    heir.hears_grant().await?;
    heir.claims().await?;
    other.lost(dead.claim(), ttl).await
}

pub(in super::super) async fn a_granted_waiter_that_leaves_passes_it_on<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, .. } = scene.held().await?;
    let unaware = other.waits(scene.queued(&key, ttl)?).await?;
    let mut aware = holder.waits(scene.queued(&key, ttl)?).await?;
    let mut last = other.waits(scene.queued(&key, ttl)?).await?;
    holder.freed(&held).await?;
    ensure!(unaware.leaves().await?, "a release did not hand the key over");
    aware.hears_grant().await?;
    ensure!(aware.leaves().await?, "a waiter that left did not hand the key over");
    last.hears_grant().await?;
    last.claims().await?;
    Ok(())
}

pub(in super::super) async fn a_hand_over_tells_the_next_in_line<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, .. } = scene.held().await?;
    let third = scene.client().await?;
    let silent = other.waits(scene.queued(&key, ttl)?).await?;
    let mut heir = third.waits(scene.queued(&key, ttl)?).await?;
    holder.freed(&held).await?;
    let claim_time = other.limits().grant(ttl).duration();
    // The heir asks in time without a hint.
    if heir.retry_after.is_some_and(|time| time <= claim_time * 3 / 2) {
        return Ok(());
    }
    let after = heir.hears_next().await?;
    ensure!(
        after <= claim_time,
        "the heir is to ask after {after:?}, but the lease before it lives for {claim_time:?}"
    );
    // The owner of that lease stays silent, and the heir asks without any further hint.
    scene.pause(after + third.limits().lag).await;
    heir.claims().await?;
    other.lost(silent.claim(), ttl).await
}

pub(in super::super) async fn a_cut_waiter_is_passed_over<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, .. } = scene.held().await?;
    let gone = scene.client().await?;
    let dead = gone.waits(scene.queued(&key, ttl)?).await?;
    let mut heir = other.waits(scene.queued(&key, ttl)?).await?;
    scene.cut(&gone).await?;
    drop(dead);
    // The store may need a moment to notice the cut, and on a busy machine longer. The places last longer than that.
    scene.pause(other.limits().lag.max(scene.ttl().duration())).await;
    let clock = other.clock();
    let released = clock.now();
    holder.freed(&held).await?;
    heir.hears_grant().await?;
    let waited = clock.now().saturating_duration_since(released);
    let claim_time = other.limits().grant(ttl).duration();
    if waited >= claim_time {
        let late = format!("it took {waited:?}: the key was handed to a dead waiter");
        return Err(Failure::Late(late));
    }
    heir.claims().await?;
    scene.heal(&gone).await;
    Ok(())
}

pub(in super::super) async fn an_expired_holder_is_followed_by_the_first_in_line<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let (key, ttl, short) = (scene.key()?, scene.long(), scene.ttl_with_rest());
    holder.granted(&scene.claim(&key)?, short).await?;
    let mut first = other.waits(scene.queued(&key, ttl)?).await?;
    let mut second = holder.waits(scene.queued(&key, ttl)?).await?;
    let mut third = other.waits(scene.queued(&key, ttl)?).await?;
    scene.outlast(short.duration()).await;
    // The last waiter asks first. Only the first waiter is granted the key, and hears of it.
    third.still_waits().await?;
    second.still_waits().await?;
    first.hears_grant().await?;
    first.claims().await?;
    second.still_waits().await?;
    third.still_waits().await
}

pub(in super::super) async fn tokens_increase_along_the_line<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let held = scene.claim(&key)?;
    let mut before = one.granted(&held, ttl).await?;
    let mut line = Vec::new();
    for (client, count) in [(&one, 16), (&other, 1), (&one, 1), (&other, 16), (&one, 7)] {
        let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        let request = scene.queued(&key, ttl)?.reserving(count);
        line.push(client.waits(request).await?);
    }
    one.freed(&held).await?;
    for mut waiter in line {
        let pushed = waiter.hears_grant().await?;
        let claimed = waiter.claims().await?;
        for grant in pushed.iter().chain([&claimed]) {
            let (highest, lowest) = (before.tokens.last(), grant.tokens.first());
            ensure!(lowest > highest, "{lowest} was handed over after up to {highest}");
            let (count, wanted) = (grant.tokens.count(), waiter.request.tokens);
            ensure!(count <= wanted, "{count} tokens were granted, {wanted} were asked for");
        }
        before = claimed;
        ensure!(waiter.leaves().await?, "the lease was lost");
    }
    Ok(())
}

pub(in super::super) async fn a_holder_hears_of_contention<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let held = scene.claim(&key)?;
    let mut watch = holder.watch(&key).await?;
    holder.granted(&held, ttl).await?;
    // Now the store knows which client to tell.
    let before = contention_of(&holder, &held, ttl).await?;
    let waiter = other.waits(scene.queued(&key, ttl)?).await?;
    ensure!(before == Contention::Quiet, "no claim waited, but the holder was told {before:?}");
    hears_wanted(&holder, &mut watch).await?;
    // The holder hears it once more after the queue was empty.
    waiter.leaves().await?;
    let _waiter = other.waits(scene.queued(&key, ttl)?).await?;
    hears_wanted(&holder, &mut watch).await
}

pub(in super::super) async fn every_answer_tells_the_contention<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, grant: alone } = scene.held().await?;
    let mut first = other.waits(scene.queued(&key, ttl)?).await?;
    let mut second = holder.waits(scene.queued(&key, ttl)?).await?;
    told(alone.contention != Contention::Contended, "a grant", alone.contention)?;
    let renewal = contention_of(&holder, &held, ttl).await?;
    told(renewal == Contention::Contended, "a renewal", renewal)?;
    let again = holder.granted(&held, ttl).await?;
    told(again.contention == Contention::Contended, "a repeated grant", again.contention)?;

    holder.freed(&held).await?;
    let pushed = first.hears_grant().await?;
    let contention = |grant: &Option<Grant>| grant.as_ref().map(|grant| grant.contention);
    ensure!(
        matches!(contention(&pushed), None | Some(Contention::Contended)),
        "a claim still waited, but {pushed:?} was pushed"
    );
    let claimed = first.claims().await?;
    told(claimed.contention == Contention::Contended, "a claimed grant", claimed.contention)?;
    ensure!(first.leaves().await?, "the lease was lost");

    let pushed = second.hears_grant().await?;
    ensure!(
        contention(&pushed) != Some(Contention::Contended),
        "no claim waited, but {pushed:?} was pushed"
    );
    let last = second.claims().await?;
    told(last.contention != Contention::Contended, "the last grant", last.contention)?;
    let renewal = contention_of(second.client, second.claim(), ttl).await?;
    told(renewal == Contention::Quiet, "the last renewal", renewal)
}

fn told(condition: bool, what: &str, contention: Contention) -> Check {
    ensure!(condition, "{what} came with the contention {contention:?}");
    Ok(())
}

async fn contention_of<B: Backend>(
    client: &Client<B>,
    claim: &Claim,
    ttl: Ttl,
) -> Check<Contention> {
    match client.renews(&Renew::new(claim.clone(), ttl)).await? {
        Renewal::Renewed { contention, .. } => Ok(contention),
        other => Err(Failure::Broken(format!("expected a renewed lease, got {other:?}"))),
    }
}

async fn hears_wanted<B: Backend>(client: &Client<B>, watch: &mut Watch) -> Check {
    let hint = async {
        loop {
            match watch.next().await {
                Some(Hint::Contended) => return Ok(()),
                Some(_) => {}
                None => return Err(Failure::Broken("the watch ended".into())),
            }
        }
    };
    client.bounded("a hint that the key is wanted", hint).await?
}

pub(in super::super) async fn a_release_and_requeue_hands_over_and_queues_again<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, .. } = scene.held().await?;
    let mut first = other.waits(scene.queued(&key, ttl)?).await?;
    let mut again = holder.in_line(scene.queued(&key, ttl)?).await?;
    let (released, attempt) = holder.release_and_requeue(&held, &again.request).await??;
    ensure!(matches!(released, Released::Freed { .. }), "a held lease was released: {released:?}");
    let Some(attempt) = attempt else {
        return Err(Failure::NotApplicable("this backend releases, and leaves it at that".into()));
    };
    ensure!(
        matches!(attempt, AcquireOutcome::Queued { .. }),
        "another is first, but it is {attempt:?}"
    );
    first.hears_grant().await?;
    first.claims().await?;
    let mut last = other.waits(scene.queued(&key, ttl)?).await?;
    // If no lease is held, the request gets no place in the queue.
    let (released, attempt) =
        holder.release_and_requeue(&held, &scene.queued(&key, ttl)?).await??;
    ensure!(
        released == Released::NotHeld && attempt.is_none(),
        "nothing was held, but it was {released:?} and {attempt:?}"
    );
    ensure!(first.leaves().await?, "the lease was lost");
    again.hears_grant().await?;
    again.claims().await?;
    ensure!(again.leaves().await?, "the lease was lost");
    last.hears_grant().await?;
    last.claims().await?;
    ensure!(last.leaves().await?, "the lease was lost");
    other.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}
