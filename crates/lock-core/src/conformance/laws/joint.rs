//! Several holders as one.

use std::num::NonZeroU32;

use super::super::Harness;
use super::super::line::queued;
use super::super::scene::{Scene, granted, in_mode};
use super::super::verdict::{Check, Failure, ensure};
use super::sharing::each_holder_has_its_own_lease;
use crate::{
    Acquire, AcquireOutcome, Backend, ErrorKind, JointBackend, Mode, OwnerToken, Renew, Renewal,
    TokenRange,
};

/// The mode of a new group.
fn group() -> Check<Mode> {
    Ok(Mode::Joint { group: OwnerToken::generate()? })
}

pub(in super::super) async fn a_store_with_groups_says_so<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: JointBackend>,
{
    let client = scene.client().await?;
    ensure!(
        client.backend.capabilities().joins(),
        "the backend does not say that it has joint holders"
    );
    Ok(())
}

pub(in super::super) async fn a_group_holds_a_key_together<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: JointBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl, group) = (scene.key()?, scene.long(), group()?);
    let mut members = Vec::new();
    for client in [&one, &other, &one] {
        let member = in_mode(&key, group)?;
        client.obtains(&member, ttl).await?;
        members.push((client, member));
    }
    for (client, member) in &members {
        client.renewed(member, ttl).await?;
    }
    // A waiter does not come before members of the group.
    let mut waiter = one.waits(scene.queued(&key, ttl)?).await?;
    let late = in_mode(&key, group)?;
    other.obtains(&late, ttl).await?;
    members.push((&other, late));
    waiter.still_waits().await?;
    for (client, member) in &members {
        client.renewed(member, ttl).await?;
        client.freed(member).await?;
    }
    waiter.hears_grant().await?;
    waiter.claims().await?;
    Ok(())
}

pub(in super::super) async fn a_group_has_one_set_of_tokens<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: JointBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl, group) = (scene.key()?, scene.long(), group()?);
    let many = NonZeroU32::new(16).unwrap_or(NonZeroU32::MIN);
    let first = in_mode(&key, group)?;
    let tokens = granted(one.ask(&Acquire::new(first.clone(), ttl).reserving(many)).await?)?.tokens;
    // That holds whatever the members ask for, and whichever members have left.
    let second = in_mode(&key, group)?;
    same(other.obtains(&second, ttl).await?.tokens, tokens)?;
    one.freed(&first).await?;
    let third = in_mode(&key, group)?;
    let request = Acquire::new(third.clone(), ttl).reserving(many);
    same(granted(one.ask(&request).await?)?.tokens, tokens)?;
    for (client, member) in [(&other, &second), (&one, &third)] {
        let renewal = client.renews(&Renew::new(member.clone(), ttl).reserving(8)).await?;
        ensure!(
            matches!(renewal, Renewal::Renewed { tokens: None, .. }),
            "one member of a group was given more tokens: {renewal:?}"
        );
        same(client.obtains(member, ttl).await?.tokens, tokens)?;
    }
    Ok(())
}

fn same(tokens: TokenRange, others: TokenRange) -> Check {
    ensure!(tokens == others, "one member has {tokens:?}, the first had {others:?}");
    Ok(())
}

pub(in super::super) async fn groups_exclude_each_other<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: JointBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl, ours) = (scene.key()?, scene.long(), group()?);
    let member = in_mode(&key, ours)?;
    one.obtains(&member, ttl).await?;
    let modes = [
        group()?,
        Mode::Exclusive,
        Mode::Shared,
        Mode::Upgradable,
        Mode::Permits { take: 1, of: 3 },
    ];
    for mode in modes {
        for client in [&one, &other] {
            match client.try_acquire(&Acquire::new(in_mode(&key, mode)?, ttl)).await? {
                Ok(AcquireOutcome::Busy { .. }) => {}
                // A backend with groups need not count permits.
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                answer => {
                    let broken = format!("beside a group, {mode:?} came to {answer:?}");
                    return Err(Failure::Broken(broken));
                }
            }
        }
    }
    one.freed(&member).await?;
    // And the other way round.
    for mode in [Mode::Exclusive, group()?] {
        let holder = in_mode(&key, mode)?;
        other.obtains(&holder, ttl).await?;
        one.is_refused(&member, ttl).await?;
        other.is_refused(&member, ttl).await?;
        other.freed(&holder).await?;
    }
    one.obtains(&member, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_group_holds_until_its_last_member_leaves<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: JointBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl, ours) = (scene.key()?, scene.long(), group()?);
    let members = [in_mode(&key, ours)?, in_mode(&key, ours)?];
    one.obtains(&members[0], ttl).await?;
    other.obtains(&members[1], ttl).await?;
    // The first member to come leaves first.
    one.freed(&members[0]).await?;
    one.not_held(&members[0]).await?;
    one.refused(&key, ttl).await?;
    other.is_refused(&in_mode(&key, group()?)?, ttl).await?;
    let mut waiter = one.waits(scene.queued(&key, ttl)?).await?;
    waiter.still_waits().await?;
    other.freed(&members[1]).await?;
    waiter.hears_grant().await?;
    waiter.claims().await?;
    other.is_refused(&in_mode(&key, ours)?, ttl).await
}

pub(in super::super) async fn each_member_has_its_own_lease<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: JointBackend>,
{
    each_holder_has_its_own_lease(scene, group()?).await
}

pub(in super::super) async fn a_group_that_returns_gets_new_tokens<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: JointBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl, group) = (scene.key()?, scene.ttl(), group()?);
    let mut highest = None;
    for expires in [false, true, false] {
        let members = [in_mode(&key, group)?, in_mode(&key, group)?];
        let tokens = one.obtains(&members[0], ttl).await?.tokens;
        other.obtains(&members[1], ttl).await?;
        let (before, first) = (highest.replace(tokens.last()), tokens.first());
        ensure!(before < Some(first), "a group that came again got {first} after {before:?}");
        if expires {
            scene.outlast(ttl.duration()).await;
        } else {
            one.freed(&members[0]).await?;
            other.freed(&members[1]).await?;
        }
    }
    Ok(())
}

pub(in super::super) async fn a_group_in_line_is_granted_together<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: JointBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl, ours, theirs) = (scene.key()?, scene.long(), group()?, group()?);
    let held = scene.claim(&key)?;
    one.granted(&held, ttl).await?;
    let mut first = other.waits(queued(&key, ours, ttl)?).await?;
    let mut writer = one.waits(scene.queued(&key, ttl)?).await?;
    let mut second = one.waits(queued(&key, ours, ttl)?).await?;
    let mut rival = other.waits(queued(&key, theirs, ttl)?).await?;
    let mut third = other.waits(queued(&key, ours, ttl)?).await?;
    one.freed(&held).await?;
    let mut tokens = None;
    for member in [&mut first, &mut second, &mut third] {
        let pushed = member.hears_grant().await?.map(|grant| grant.tokens);
        let claimed = member.claims().await?.tokens;
        same(claimed, *tokens.get_or_insert(claimed))?;
        same(pushed.unwrap_or(claimed), claimed)?;
    }
    for member in [first, second, third] {
        writer.still_waits().await?;
        rival.still_waits().await?;
        ensure!(member.leaves().await?, "the lease was lost");
    }
    writer.hears_grant().await?;
    writer.claims().await?;
    rival.still_waits().await?;
    ensure!(writer.leaves().await?, "the lease was lost");
    rival.hears_grant().await?;
    rival.claims().await?;
    Ok(())
}
