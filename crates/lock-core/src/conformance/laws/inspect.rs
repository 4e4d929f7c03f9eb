//! Inspections and forced releases.

use std::time::Duration;

use super::super::Harness;
use super::super::line::queued;
use super::super::scene::{Client, Held, Scene, granted, in_mode};
use super::super::verdict::{Check, Failure, ensure};
use crate::{
    Acquire, Backend, Claim, ClientMark, ErrorKind, Grant, InspectBackend, Inspection, Key, Kind,
    Label, Mode, OwnerToken, Ttl,
};

/// Modes in which two leases fit beside one another.
const SIDE_BY_SIDE: [Mode; 2] = [Mode::Shared, Mode::Permits { take: 2, of: 5 }];

pub(in super::super) async fn an_inspection_shows_holders_and_waiters<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: InspectBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (ttl, short) = (scene.long(), scene.ttl());
    for mode in SIDE_BY_SIDE {
        let key = scene.key()?;
        let (dead, live) = (in_mode(&key, mode)?, in_mode(&key, mode)?);
        let Some(first) = one.obtains_if_known(&dead, short).await? else { continue };
        let second = other.obtains(&live, ttl).await?;
        shows(&one.inspect(&key).await?, mode.kind(), &[(&first, short), (&second, ttl)])?;
        scene.outlast(short.duration()).await;
        shows(&one.inspect(&key).await?, mode.kind(), &[(&second, ttl)])?;
        other.freed(&live).await?;
        shows(&one.inspect(&key).await?, mode.kind(), &[])?;
    }

    let key = scene.key()?;
    shows(&one.inspect(&key).await?, Kind::Exclusive, &[])?;
    let held = scene.claim(&key)?;
    let grant = one.granted(&held, ttl).await?;
    for client in [&one, &other] {
        shows(&client.inspect(&key).await?, Kind::Exclusive, &[(&grant, ttl)])?;
    }
    let lapsing = other.waits(queued(&key, Mode::Exclusive, short)?).await?;
    let mut kept = one.waits(scene.queued(&key, ttl)?).await?;
    waits(&other.inspect(&key).await?, &[short, ttl])?;
    scene.outlast(short.for_place().duration()).await;
    one.renewed(&held, ttl).await?;
    kept.still_waits().await?;
    waits(&other.inspect(&key).await?, &[ttl])?;
    ensure!(!lapsing.leaves().await?, "a waiter held the key of another");
    ensure!(!kept.leaves().await?, "a waiter held the key of another");
    waits(&one.inspect(&key).await?, &[])
}

/// Checks that an inspection shows these leases, each with no more time than it can have left, and
/// no waiters.
fn shows(inspection: &Inspection, kind: Kind, leases: &[(&Grant, Ttl)]) -> Check {
    ensure!(
        inspection.holding == leases.len() as u64 && inspection.holders.len() == leases.len(),
        "{} hold the key, but it shows {inspection:?}",
        leases.len()
    );
    for (grant, ttl) in leases {
        let token = Some(grant.tokens.first());
        let shown = inspection.holders.iter().find(|holder| holder.token == token);
        let is_right = shown.is_some_and(|holder| {
            let remaining = holder.remaining.unwrap_or_default();
            holder.kind == kind && !remaining.is_zero() && remaining <= ttl.duration()
        });
        ensure!(is_right, "{grant:?} is shown as {shown:?} in {inspection:?}");
    }
    ensure!(inspection.waiting == 0 && inspection.waiters.is_empty(), "it shows {inspection:?}");
    Ok(())
}

/// Checks that an inspection shows waiting requests for leases of these ttls, in this order.
fn waits(inspection: &Inspection, ttls: &[Ttl]) -> Check {
    let is_right = inspection.waiting == ttls.len() as u64
        && inspection.waiters.len() == ttls.len()
        && inspection.waiters.iter().zip(ttls).all(|(waiter, ttl)| {
            let remaining = waiter.remaining;
            waiter.kind == Kind::Exclusive
                && !remaining.is_zero()
                && remaining <= ttl.for_place().duration()
        });
    ensure!(is_right, "{ttls:?} wait in this order, but it shows {inspection:?}");
    Ok(())
}

pub(in super::super) async fn an_inspection_shows_how_long_claims_wait<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: InspectBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl, pause) = (scene.key()?, scene.long(), scene.ttl().duration() / 2);
    one.granted(&scene.claim(&key)?, ttl).await?;
    let mut first = other.waits(scene.queued(&key, ttl)?).await?;
    scene.pause(pause).await;
    let second = one.waits(scene.queued(&key, ttl)?).await?;
    let before = waited(&one.inspect(&key).await?)?;
    ensure!(
        before[0] >= before[1] + pause / 2,
        "the second claim came {pause:?} after the first, but they are shown to have waited for {before:?}"
    );
    scene.pause(pause).await;
    first.still_waits().await?;
    let after = waited(&other.inspect(&key).await?)?;
    for (before, after) in before.iter().zip(after) {
        ensure!(
            after >= *before + pause / 2,
            "{pause:?} later, a claim is shown to have waited for {after:?}, after {before:?}"
        );
    }
    ensure!(!first.leaves().await? && !second.leaves().await?, "a waiter held the key");
    Ok(())
}

/// For how long the two waiters of an inspection have waited.
fn waited(inspection: &Inspection) -> Check<[Duration; 2]> {
    let none = || Failure::NotApplicable("the store does not keep when a claim came".into());
    match inspection.waiters.as_slice() {
        [first, second] => Ok([first.waited.ok_or_else(none)?, second.waited.ok_or_else(none)?]),
        _ => Err(Failure::Broken(format!("two claims wait, but it shows {inspection:?}"))),
    }
}

pub(in super::super) async fn an_inspection_keeps_secrets<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: InspectBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    let group = OwnerToken::generate()?;
    for mode in [Mode::Exclusive, Mode::Joint { group }, Mode::Shared] {
        let key = scene.key()?;
        let held = in_mode(&key, mode)?;
        let Some(grant) = one.obtains_if_known(&held, ttl).await? else { continue };
        let inspection = other.inspect(&key).await?;
        for secret in [held.owner, group] {
            is_hidden(secret, &inspection)?;
        }
        // Nor does a number contain the secret.
        for holder in &inspection.holders {
            let token = holder.token;
            ensure!(token == Some(grant.tokens.first()), "{token:?} is no token of {grant:?}");
        }
        let Some(waiter) = other.joins(queued(&key, Mode::Exclusive, ttl)?).await? else {
            continue;
        };
        is_hidden(waiter.claim().owner, &one.inspect(&key).await?)?;
    }
    Ok(())
}

/// The labels of the holders, sorted, and those of the waiters, in their order.
fn labels(inspection: &Inspection) -> (Vec<Option<String>>, Vec<Option<String>>) {
    let of = |label: &Option<Label>| label.as_ref().map(Label::to_string);
    let mut holders = inspection.holders.iter().map(|it| of(&it.label)).collect::<Vec<_>>();
    holders.sort();
    (holders, inspection.waiters.iter().map(|it| of(&it.label)).collect())
}

/// This claim, of the client with this mark.
fn of(mut claim: Claim, mark: ClientMark) -> Claim {
    claim.owner = claim.owner.of_client(mark);
    claim
}

pub(in super::super) async fn an_inspection_shows_labels<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: InspectBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    let (mine, its) = (ClientMark::generate()?, ClientMark::generate()?);
    one.introduces(mine, "reports on web-1", ttl.duration()).await?;
    other.introduces(its, "billing on web-2: é", ttl.duration()).await?;
    let (first, second) =
        (Some("reports on web-1".to_owned()), Some("billing on web-2: é".to_owned()));

    let key = scene.key()?;
    let held = of(scene.claim(&key)?, mine);
    one.granted(&held, ttl).await?;
    let seen = labels(&other.inspect(&key).await?);
    ensure!(seen == (vec![first.clone()], Vec::new()), "the holder is shown as {seen:?}");
    let mut waiting = queued(&key, Mode::Exclusive, ttl)?;
    waiting.claim = of(waiting.claim, its);
    if let Some(waiter) = other.joins(waiting).await? {
        let stranger = one.waits(queued(&key, Mode::Exclusive, ttl)?).await?;
        for client in [&one, &other] {
            let (holders, waiters) = labels(&client.inspect(&key).await?);
            ensure!(holders == [first.clone()], "the holder is shown as {holders:?}");
            ensure!(waiters == [second.clone(), None], "the waiters are shown as {waiters:?}");
        }
        ensure!(!stranger.leaves().await? && !waiter.leaves().await?, "a waiter held the key");
    }

    for mode in SIDE_BY_SIDE {
        let key = scene.key()?;
        if one.obtains_if_known(&of(in_mode(&key, mode)?, mine), ttl).await?.is_none() {
            continue;
        }
        other.obtains(&of(in_mode(&key, mode)?, its), ttl).await?;
        let (holders, _) = labels(&one.inspect(&key).await?);
        let expected = [second.clone(), first.clone()];
        ensure!(holders == expected, "the holders in {mode:?} are shown as {holders:?}");
    }
    Ok(())
}

pub(in super::super) async fn a_label_ends_with_its_time<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: InspectBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, mark) = (scene.key()?, ClientMark::generate()?);
    let mut held = scene.claim(&key)?;
    held.owner = held.owner.of_client(mark);
    one.granted(&held, scene.long()).await?;
    let short = scene.ttl().duration();
    let keep = short + scene.rest();
    for label in ["first", "second"] {
        let shown = format!("{label} of {key}").chars().take(60).collect::<String>();
        one.introduces(mark, &shown, keep).await?;
        for (pause, is_shown) in [(Duration::ZERO, true), (short, true), (keep, false)] {
            scene.pause(pause).await;
            let inspection = other.inspect(&key).await?;
            let label = inspection.holders.first().and_then(|holder| holder.label.as_ref());
            let expected = is_shown.then_some(shown.as_str());
            let label = label.map(Label::as_str);
            ensure!(label == expected, "{expected:?} is shown as {label:?} after {pause:?}");
        }
    }
    one.renewed(&held, scene.long()).await?;
    Ok(())
}

fn is_hidden(secret: OwnerToken, inspection: &Inspection) -> Check {
    let shown = format!("{inspection:?}");
    let digits = String::from_utf8_lossy(secret.expose()).into_owned();
    ensure!(!shown.contains(&digits), "it shows a secret: {shown}");
    Ok(())
}

pub(in super::super) async fn a_forced_release_ends_every_lease<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: InspectBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    for mode in SIDE_BY_SIDE {
        let key = scene.key()?;
        let leases = [in_mode(&key, mode)?, in_mode(&key, mode)?];
        if one.obtains_if_known(&leases[0], ttl).await?.is_none() {
            continue;
        }
        other.obtains(&leases[1], ttl).await?;
        one.forces(&key, 2).await?;
        one.lost(&leases[0], ttl).await?;
        other.lost(&leases[1], ttl).await?;
        other.granted(&scene.claim(&key)?, ttl).await?;
    }
    let (key, foreign) = (scene.key()?, scene.key()?);
    one.forces(&key, 0).await?;
    let (held, untouched) = (scene.claim(&key)?, scene.claim(&foreign)?);
    one.granted(&held, ttl).await?;
    one.granted(&untouched, ttl).await?;
    other.forces(&key, 1).await?;
    one.lost(&held, ttl).await?;
    one.not_held(&held).await?;
    one.renewed(&untouched, ttl).await?;
    other.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_forced_release_serves_the_queue<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: InspectBackend>,
{
    let Held { holder: one, other, key, ttl, held, .. } = scene.held().await?;
    let newcomer = scene.client().await?;
    let mut first = other.waits(scene.queued(&key, ttl)?).await?;
    let mut second = one.waits(scene.queued(&key, ttl)?).await?;
    newcomer.forces(&key, 1).await?;
    newcomer.refused(&key, ttl).await?;
    first.hears_grant().await?;
    first.claims().await?;
    second.still_waits().await?;
    one.lost(&held, ttl).await?;
    one.not_held(&held).await?;
    ensure!(first.leaves().await?, "the lease was lost");
    second.hears_grant().await?;
    second.claims().await?;
    Ok(())
}

pub(in super::super) async fn tokens_increase_after_a_forced_release<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: InspectBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let mut highest = None;
    for _ in 0..5 {
        let tokens = one.granted(&scene.claim(&key)?, ttl).await?.tokens;
        let (before, first) = (highest.replace(tokens.last()), tokens.first());
        ensure!(before < Some(first), "{first} came after {before:?} and a forced release");
        other.forces(&key, 1).await?;
    }
    Ok(())
}

impl<B: Backend> Client<B> {
    /// Asks for a lease that must be granted, unless the backend has no such mode.
    async fn obtains_if_known(&self, claim: &Claim, ttl: Ttl) -> Check<Option<Grant>> {
        match self.try_acquire(&Acquire::new(claim.clone(), ttl)).await? {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            answer => Ok(Some(granted(answer?)?)),
        }
    }
}

impl<B: InspectBackend> Client<B> {
    /// Tells a label; the law is not applicable to a backend without labels.
    async fn introduces(&self, mark: ClientMark, label: &str, keep: Duration) -> Check {
        let label = Label::new(label)?;
        match self.bounded("introduce", self.backend.introduce(mark, &label, keep)).await? {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(Failure::NotApplicable(error.to_string()))
            }
            answer => Ok(answer?),
        }
    }

    async fn inspect(&self, key: &Key) -> Check<Inspection> {
        Ok(self.bounded("inspect", self.backend.inspect(key)).await??)
    }

    /// Releases a key by force, which must end `count` leases.
    async fn forces(&self, key: &Key, count: u64) -> Check {
        let ended = self.bounded("force_release", self.backend.force_release(key)).await??;
        ensure!(ended == count, "{count} leases were to be ended, but it said {ended}");
        Ok(())
    }
}
