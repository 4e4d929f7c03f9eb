//! Grants and refusals of a key.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::super::Harness;
use super::super::scene::{Scene, granted};
use super::super::verdict::{Check, Failure, ensure};
use super::arena::{contest, task_failed};
use super::slow::seen_late;
use crate::{Acquire, AcquireOutcome, ErrorKind, Key, Ttl};

pub(in super::super) async fn a_free_key_is_granted<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (one, other) = scene.two_clients().await?;
    for client in [&one, &other] {
        let key = scene.key()?;
        let grant = client.granted(&scene.claim(&key)?, scene.long()).await?;
        ensure!(grant.valid_until > client.clock().now(), "the grant was over when it arrived");
    }
    Ok(())
}

pub(in super::super) async fn a_held_key_is_refused<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let key = scene.key()?;
    holder.granted(&scene.claim(&key)?, scene.long()).await?;
    // Twice each, because a refusal must not make the next request succeed.
    for _ in 0..2 {
        other.refused(&key, scene.long()).await?;
        holder.refused(&key, scene.long()).await?;
    }
    Ok(())
}

pub(in super::super) async fn contenders_get_exactly_one_grant<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    const CONTENDERS: usize = 16;
    let clients = scene.clients(CONTENDERS).await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let start = Arc::new(Barrier::new(CONTENDERS));
    let mut tasks = JoinSet::new();
    for client in clients {
        let (claim, start) = (client.claim(&key)?, Arc::clone(&start));
        tasks.spawn(async move {
            start.wait().await;
            client.attempt(&claim, ttl).await
        });
    }
    let mut grants = 0;
    while let Some(attempt) = tasks.join_next().await {
        if let AcquireOutcome::Granted(_) = attempt.map_err(task_failed)?? {
            grants += 1;
        }
    }
    ensure!(grants == 1, "{grants} of {CONTENDERS} contenders were granted the key");
    Ok(())
}

pub(in super::super) async fn holders_never_overlap<H: Harness>(scene: Scene<'_, H>) -> Check {
    let mode = scene.claim(&scene.key()?)?.mode;
    contest(&scene, 1, &[mode; 8], 100).await
}

pub(in super::super) async fn keys_are_independent<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (first, second) = (scene.key()?, scene.key()?);
    let (mine, theirs) = (scene.claim(&first)?, scene.claim(&second)?);
    one.granted(&mine, scene.long()).await?;
    other.granted(&theirs, scene.long()).await?;
    // A claim by this owner on another key names another lease.
    let mut elsewhere = mine.clone();
    elsewhere.key = second.clone();
    other.not_held(&elsewhere).await?;
    one.freed(&mine).await?;
    one.refused(&second, scene.long()).await?;
    one.granted(&scene.claim(&first)?, scene.long()).await?;
    other.renewed(&theirs, scene.long()).await?;
    Ok(())
}

pub(in super::super) async fn odd_keys_are_keys<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (one, other) = scene.two_clients().await?;
    let mut held = BTreeMap::new();
    for key in odd_keys(&scene.key()?)? {
        let claim = scene.claim(&key)?;
        match one.try_acquire(&Acquire::new(claim.clone(), scene.long())).await? {
            Ok(attempt) => {
                granted(attempt).map_err(|_| {
                    Failure::Broken(format!("{key:?} is not told apart from another key"))
                })?;
                held.insert(key, claim);
            }
            Err(error) if error.kind() == ErrorKind::InvalidKey => {}
            Err(error) => return Err(error.into()),
        }
    }
    ensure!(!held.is_empty(), "every name was refused as invalid");
    for (key, claim) in held {
        other.refused(&key, scene.long()).await?;
        one.freed(&claim).await?;
        other.granted(&scene.claim(&key)?, scene.long()).await?;
    }
    Ok(())
}

/// What a careless store confuses, rejects or changes in a name.
const ODD: [&[u8]; 32] = [
    b"",
    b"\0",
    b"\0a",
    b"\r\n",
    b" ",
    b"{",
    b"}",
    b"{}",
    b"{x}",
    b"}{",
    b"x}:fence{x",
    b":fence",
    b":queue",
    b"*",
    b"?",
    b"[a]",
    b"%",
    b"%00",
    b"/",
    b"//",
    b"/..",
    b"/../x",
    b"\\",
    b"\"",
    b"'",
    b"$x",
    b"\xff\xfe",
    "\u{e9}".as_bytes(),
    "e\u{301}".as_bytes(),
    b"lock",
    b"LOCK",
    b".lock",
];

/// Names that a careless store confuses, rejects or changes.
fn odd_keys(fresh: &Key) -> Check<Vec<Key>> {
    let stem = fresh.as_bytes();
    let both = ODD.iter().flat_map(|odd| [[stem, odd].concat(), [odd, stem].concat()]);
    let mut names: Vec<Vec<u8>> = both.collect();
    for length in [Key::MAX_LEN - 1, Key::MAX_LEN] {
        names.push(stem.iter().copied().chain(std::iter::repeat(b'\xff')).take(length).collect());
    }
    // The stem alone is in the list twice.
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| Ok(Key::new(name)?)).collect()
}

pub(in super::super) async fn a_repeated_acquire_returns_the_same_grant<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let claim = scene.claim(&key)?;
    let first = holder.granted(&claim, scene.long()).await?;
    // The second client repeats the request too, because a client that reconnects is no other owner.
    for client in [&holder, &other] {
        let again = client.granted(&claim, scene.long()).await?;
        ensure!(
            again.tokens == first.tokens,
            "the repeated request got {:?}, the first {:?}",
            again.tokens,
            first.tokens
        );
        other.refused(&key, scene.long()).await?;
    }
    holder.freed(&claim).await?;
    other.granted(&claim, scene.long()).await?;
    Ok(())
}

pub(in super::super) async fn a_repeated_acquire_never_shortens_the_lease<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let claim = scene.claim(&key)?;
    let first = holder.granted(&claim, scene.ttl()).await?;
    let again = holder.granted(&claim, Ttl::MIN).await?;
    // A client may rely on either reply, so the later of the two deadlines must hold.
    scene.refused_until(first.valid_until.max(again.valid_until), &other, &key).await
}

pub(in super::super) async fn a_repeated_acquire_extends_the_lease<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.ttl());
    let claim = scene.claim(&key)?;
    let first = holder.granted(&claim, ttl).await?;
    let again = holder.granted(&claim, scene.long()).await?;
    ensure!(again.valid_until > first.valid_until, "more time was asked for, but not granted");
    scene.outlast(ttl.duration()).await;
    other.refused(&key, ttl).await?;
    holder.renewed(&claim, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_refusal_says_when_to_retry<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.ttl());
    let grant = holder.granted(&scene.claim(&key)?, ttl).await?;
    let retry_after = other.refused(&key, ttl).await?;
    let now = other.clock().now();
    let Some(retry_after) = retry_after else {
        return Err(Failure::Broken("the lease has an end, but the refusal did not tell".into()));
    };
    let limits = other.limits();
    let longest = limits.lease(ttl).duration() + limits.lag;
    ensure!(retry_after <= longest, "{retry_after:?} is longer than a lease of {ttl:?}");
    ensure!(now + retry_after >= grant.valid_until, "{retry_after:?} is before the deadline");
    scene.pause(retry_after + limits.lag).await;
    other.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_grant_is_dated_from_before_the_request<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.ttl_with_rest());
    let request = Acquire::new(scene.claim(&key)?, ttl);
    let slow = seen_late(holder.try_acquire(&request), scene.pause(ttl.duration() / 4)).await;
    let grant = granted(slow??)?;
    let latest = ttl.valid_until(holder.clock().now());
    ensure!(grant.valid_until <= latest, "the deadline leaves less than the drift to the store's");
    scene.refused_until(grant.valid_until, &other, &key).await
}
