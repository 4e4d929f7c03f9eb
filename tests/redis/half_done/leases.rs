//! Leases: to take, to wait for, to keep, to convert and to give back.

use std::time::Duration;

use futures::FutureExt;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Clock, Convert, ConvertBackend, Error, Mode, PermitBackend,
    Renew, Renewal,
};
use lock_tests::requests;

use super::{Case, EXCLUSIVE, SHARED, Scenario, TWO, UPGRADABLE, all, short};
use crate::support::{Waiter, claim, granted, long, millis};

/// By how much the server's end of a lease is later than the client's.
const MARGIN: Duration = Duration::from_millis(5);

fn is_granted(attempt: &AcquireOutcome) -> bool {
    matches!(attempt, AcquireOutcome::Granted(_))
}

/// A lock that is free.
async fn acquires(case: &Case<'_>, mode: Mode) {
    let held = case.claim(mode);
    let attempt = case.without(requests::attempt(case.poor, &held, long())).await;
    match attempt {
        Ok(AcquireOutcome::Granted(_)) => return case.has_alone(&held).await,
        Err(error) if error.is_retryable() => drop(case.poor.release(&held).await.unwrap()),
        Err(_) => {}
        other => panic!("{case}: {other:?}"),
    }
    case.is_free().await;
}

/// A shared lock with a sharer whose lease is over.
async fn clears_away(case: &Case<'_>) {
    let (held, beside) = (case.claim(SHARED), case.held_in(SHARED).await);
    let over = requests::granted(case.other, &case.claim(SHARED), millis(10)).await.valid_until;
    tokio::time::sleep(over.saturating_duration_since(Clock::boot().now()) + MARGIN).await;
    let attempt = case.without(requests::attempt(case.poor, &held, long())).await;
    case.other.release(&beside).await.unwrap();
    match attempt {
        Ok(AcquireOutcome::Granted(_)) => case.has_alone(&held).await,
        Err(error) if !error.is_retryable() => case.is_free().await,
        other => panic!("{case}: {other:?}"),
    }
}

/// A semaphore with permits whose lease is over.
async fn counts_anew(case: &Case<'_>) {
    let one = case.held_in(Mode::Permits { take: 1, of: 3 }).await;
    let over = requests::granted(case.other, &case.claim(TWO), millis(10)).await.valid_until;
    tokio::time::sleep(over.saturating_duration_since(Clock::boot().now()) + MARGIN).await;
    let attempt = case.without(requests::attempt(case.poor, &case.claim(TWO), long())).await;
    assert!(attempt.is_ok_and(|it| is_granted(&it)) || case.missing.is_some(), "{case}");
    let next = requests::attempt(case.other, &case.claim(TWO), long()).await.unwrap();
    let permits = case.other.permits(&one.key, 3).await.unwrap();
    assert_eq!(permits.held, 3, "{case}: {next:?}");
}

/// Two locks in one step.
async fn acquires_all(case: &Case<'_>) {
    let claims = ["1", "2"].map(|part| claim(format!("{} {part}", case.name)));
    let requests = claims.clone().map(|claim| Acquire::new(claim, long()));
    let attempt = case.without(case.poor.try_acquire_all(&requests)).await;
    let all = matches!(&attempt, Ok(Some(all)) if all.iter().all(is_granted));
    let in_doubt = attempt.as_ref().is_err_and(Error::is_retryable);
    for held in &claims {
        let next = claim(held.key.as_bytes());
        let asked = requests::attempt(case.other, &next, long()).await.unwrap();
        assert!(in_doubt || is_granted(&asked) != all, "{case}: {attempt:?}, then {asked:?}");
        case.other.release(&next).await.unwrap();
        case.poor.release(held).await.unwrap();
    }
}

/// A lock that another client holds.
async fn queues(case: &Case<'_>, mode: Mode, held_in: Mode) {
    let held = case.held_in(held_in).await;
    let waiter = Waiter::new(case.poor, case.claim(mode), long()).await;
    let attempt = case.without(waiter.ask()).await;
    if attempt.as_ref().is_err_and(|error| !error.is_retryable()) {
        case.has_no_queue();
    }
    case.other.release(&held).await.unwrap();
    match attempt {
        Ok(_) => drop(case.serves(Some(waiter)).await),
        Err(error) if error.is_retryable() => drop(waiter.release().await),
        Err(_) => {}
    }
    case.becomes_free().await;
}

async fn releases(case: &Case<'_>, mode: Mode, waits: Option<Mode>) {
    let held = case.claim(mode);
    let token = granted(case.poor, &held).await.tokens.last();
    let waiter = case.waiting_for(waits).await;
    let second = case.waiting_for(waits).await;
    case.has_briefly(&held).await;
    // After an error, the lease ends by itself at the latest.
    _ = case.without(case.poor.release(&held)).await;
    let next = case.serves(waiter).await;
    case.serves(second).await;
    assert!(mode != EXCLUSIVE || next.is_none_or(|next| next > token), "{case}");
    assert!(case.becomes_free().await > token, "{case}");
}

/// A process whose turn is over, and that wants another one.
async fn requeues(case: &Case<'_>) {
    let (held, next) = (case.claim(EXCLUSIVE), case.claim(EXCLUSIVE));
    granted(case.poor, &held).await;
    let waiter = case.waiting_for(Some(EXCLUSIVE)).await;
    let next = Waiter::new(case.poor, next, long()).await;
    case.has_briefly(&held).await;
    let answer = case.without(case.poor.release_and_requeue(&held, &next.request)).await;
    case.serves(waiter).await;
    if matches!(answer, Ok((_, Some(_)))) {
        case.serves(Some(next)).await;
    } else {
        next.release().await;
    }
    case.becomes_free().await;
}

/// A claim that leaves the queue, behind which the claim of a sharer waits.
async fn lets_pass(case: &Case<'_>) {
    let beside = case.held_in(SHARED).await;
    let waiter = Waiter::queue(case.poor, case.claim(EXCLUSIVE)).await;
    let behind = case.waiting_for(Some(SHARED)).await;
    _ = case.without(case.poor.release(waiter.claim())).await;
    case.is_not_cut();
    case.poor.release(waiter.claim()).await.unwrap();
    case.serves(behind).await;
    case.other.release(&beside).await.unwrap();
    case.is_free().await;
}

/// A sharer that leaves. The upgrade of another sharer waits, and its client hears nothing.
async fn upgrades_the_deaf(case: &Case<'_>) {
    let (held, reader) = (case.held_in(UPGRADABLE).await, case.claim(SHARED));
    granted(case.poor, &reader).await;
    let _watch = case.other.watch(&held.key).await.unwrap();
    let upgrade = Convert::new(held.clone(), EXCLUSIVE, long()).queued();
    let attempt = case.other.convert(&upgrade).await.unwrap();
    assert!(matches!(attempt, AcquireOutcome::Queued { .. }), "{case}: {attempt:?}");
    case.deafen(&held, 'x');
    _ = case.without(case.poor.release(&reader)).await;
    case.is_held().await;
    case.is_not_cut();
    for mode in [UPGRADABLE, EXCLUSIVE] {
        case.other.release(&held.clone().in_mode(mode)).await.unwrap();
    }
}

/// A lock that two clients share.
async fn leaves(case: &Case<'_>) {
    let (held, beside) = (case.claim(SHARED), case.held_in(SHARED).await);
    granted(case.poor, &held).await;
    _ = case.without(case.poor.release(&held)).await;
    case.is_held().await;
    case.poor.release(&held).await.unwrap();
    let renewal = case.other.renew(&Renew::new(beside.clone(), long())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{case}: {renewal:?}");
    case.other.release(&beside).await.unwrap();
    case.is_free().await;
}

async fn renews(case: &Case<'_>, mode: Mode, waits: Option<Mode>) {
    let held = case.claim(mode);
    granted(case.poor, &held).await;
    let waiter = case.waiting_for(waits).await;
    let renewal = Renew::new(held.clone(), long()).reserving(3);
    let renewal = case.without(case.poor.renew(&renewal)).await;
    assert!(!matches!(renewal, Renewal::Lost), "{case}: {renewal:?}");
    case.has(&held).await;
    case.poor.release(&held).await.unwrap();
    case.serves(waiter).await;
    case.is_free().await;
}

/// A renewal for a shorter time than that of another sharer.
async fn renews_briefly(case: &Case<'_>) {
    let (held, beside) = (case.claim(SHARED), case.held_in(SHARED).await);
    requests::granted(case.poor, &held, short()).await;
    let renewal = Renew::new(held.clone(), short()).reserving(3);
    _ = case.without(case.poor.renew(&renewal)).await;
    case.is_not_cut();
    case.poor.release(&held).await.unwrap();
    case.other.release(&beside).await.unwrap();
    case.is_free().await;
}

/// The lease stays: in the new mode after a grant, and in the old mode after an error.
async fn converts(case: &Case<'_>, from: Mode, to: Mode) {
    let held = case.claim(from);
    granted(case.poor, &held).await;
    let convert = Convert::new(held.clone(), to, long());
    let attempt = case.without(case.poor.convert(&convert)).await;
    let converted = held.clone().in_mode(to);
    match attempt {
        // The former lease stays beside the new one, and ends by itself.
        Ok(AcquireOutcome::Granted(_)) if matches!(case.missing, Some("zrem" | "hdel")) => {
            case.has(&converted).await;
        }
        Ok(AcquireOutcome::Granted(_)) => {
            if (from, to) == (UPGRADABLE, SHARED) {
                let next = case.held_in(UPGRADABLE).await;
                case.other.release(&next).await.unwrap();
            }
            case.has_alone(&converted).await
        }
        Err(error) if !error.is_retryable() => case.has_alone(&held).await,
        other => panic!("{case}: {other:?}"),
    }
}

const SCENARIOS: &[Scenario] = &[
    ("acquire", |case| acquires(case, EXCLUSIVE).boxed_local()),
    ("acquire shared", |case| acquires(case, SHARED).boxed_local()),
    ("acquire upgradable", |case| acquires(case, UPGRADABLE).boxed_local()),
    ("acquire permits", |case| acquires(case, TWO).boxed_local()),
    ("acquire permits anew", |case| counts_anew(case).boxed_local()),
    ("acquire all", |case| acquires_all(case).boxed_local()),
    ("clear away", |case| clears_away(case).boxed_local()),
    ("queue", |case| queues(case, EXCLUSIVE, EXCLUSIVE).boxed_local()),
    ("queue shared", |case| queues(case, SHARED, EXCLUSIVE).boxed_local()),
    ("queue behind shared", |case| queues(case, EXCLUSIVE, SHARED).boxed_local()),
    ("queue permits", |case| queues(case, TWO, TWO).boxed_local()),
    ("release", |case| releases(case, EXCLUSIVE, None).boxed_local()),
    ("hand over", |case| releases(case, EXCLUSIVE, Some(EXCLUSIVE)).boxed_local()),
    ("hand over to shared", |case| releases(case, EXCLUSIVE, Some(SHARED)).boxed_local()),
    ("requeue", |case| requeues(case).boxed_local()),
    ("release shared", |case| releases(case, SHARED, None).boxed_local()),
    ("hand over shared", |case| releases(case, SHARED, Some(EXCLUSIVE)).boxed_local()),
    ("hand over permits", |case| releases(case, TWO, Some(TWO)).boxed_local()),
    ("leave", |case| leaves(case).boxed_local()),
    ("let pass", |case| lets_pass(case).boxed_local()),
    ("leave to a deaf upgrade", |case| upgrades_the_deaf(case).boxed_local()),
    ("renew", |case| renews(case, EXCLUSIVE, None).boxed_local()),
    ("renew beside a waiter", |case| renews(case, EXCLUSIVE, Some(SHARED)).boxed_local()),
    ("renew shared", |case| renews(case, SHARED, Some(EXCLUSIVE)).boxed_local()),
    ("renew briefly", |case| renews_briefly(case).boxed_local()),
    ("renew permits", |case| renews(case, TWO, Some(TWO)).boxed_local()),
    ("upgrade", |case| converts(case, UPGRADABLE, EXCLUSIVE).boxed_local()),
    ("upgrade shared", |case| converts(case, SHARED, EXCLUSIVE).boxed_local()),
    ("downgrade", |case| converts(case, EXCLUSIVE, SHARED).boxed_local()),
    ("downgrade to upgradable", |case| converts(case, EXCLUSIVE, UPGRADABLE).boxed_local()),
    ("downgrade upgradable", |case| converts(case, UPGRADABLE, SHARED).boxed_local()),
];

#[test]
fn a_lease_is_never_half_granted_or_half_converted() {
    all(SCENARIOS);
}
