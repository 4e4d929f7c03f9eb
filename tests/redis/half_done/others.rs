//! Values, the number of permits, votes, and locks that are taken away.

use futures::FutureExt;
use lock_core::{
    Acquire, Backend, Ballot, CellBackend, Committed, FencingToken, InspectBackend, Mode,
    PermitBackend, QuorumNode, Resize, Stored, Vote,
};

use super::{Case, EXCLUSIVE, SHARED, Scenario, TWO, all};
use crate::support::{granted, long};

async fn stores(case: &Case<'_>, value: Option<&[u8]>) {
    let held = case.claim(EXCLUSIVE);
    let token = granted(case.poor, &held).await.tokens.first();
    assert_eq!(case.poor.store(&held, token, Some(b"before")).await.unwrap(), Stored::Written);
    let stored = case.without(case.poor.store(&held, token, value)).await;
    let is_kept = match stored {
        Ok(stored) => {
            assert_eq!(stored, Stored::Written, "{case}");
            value
        }
        Err(error) => {
            assert!(!error.is_retryable(), "{case}: {error}");
            Some(&b"before"[..])
        }
    };
    let kept = case.other.load(&held.key).await.unwrap().map(|cell| cell.value);
    assert_eq!(kept.as_deref(), is_kept, "{case}");
    case.has_alone(&held).await;
}

async fn commits(case: &Case<'_>, waits: Option<Mode>) {
    let held = case.claim(EXCLUSIVE);
    let token = granted(case.poor, &held).await.tokens.first();
    let waiter = case.waiting_for(waits).await;
    let committed = case.without(case.poor.commit(&held, token, b"1")).await;
    let kept = case.other.load(&held.key).await.unwrap().map(|cell| cell.value);
    match &committed {
        Ok(Committed::Done { .. }) => assert_eq!(kept.as_deref(), Some(&b"1"[..]), "{case}"),
        Err(error) if error.is_retryable() => {}
        Err(error) => assert_eq!(kept, None, "{case}: {error}"),
        Ok(other) => panic!("{case}: {other:?}"),
    }
    if committed.is_err() {
        case.poor.release(&held).await.unwrap();
    }
    case.serves(waiter).await;
    case.is_free().await;
}

/// A semaphore of three permits, of which two are held.
async fn resizes(case: &Case<'_>, change: Resize) {
    let held = case.held_in(TWO).await;
    let resized = case.without(case.poor.resize(&held.key, 3, change)).await;
    let now = case.other.permits(&held.key, 3).await.unwrap();
    let expected = match resized {
        Ok(resized) => resized.permits.limit,
        Err(error) => {
            assert!(!error.is_retryable(), "{case}: {error}");
            3
        }
    };
    assert_eq!((now.limit, now.held), (expected, 2), "{case}");
    case.other.release(&held).await.unwrap();
    assert_eq!(case.other.permits(&held.key, 3).await.unwrap().held, 0, "{case}");
}

async fn forgets(case: &Case<'_>) {
    let held = case.claim(TWO);
    granted(case.poor, &held).await;
    let forgotten = case.without(case.poor.forget(&held)).await;
    let now = case.other.permits(&held.key, 3).await.unwrap();
    let expected = if forgotten.is_ok() { (1, 0) } else { (3, 2) };
    assert_eq!((now.limit, now.held), expected, "{case}: {forgotten:?}");
    if forgotten.is_err() {
        case.has(&held).await;
    }
}

async fn closes(case: &Case<'_>) {
    let held = case.held_in(TWO).await;
    let _waiter = case.waiting_for(Some(TWO)).await;
    let closed = case.without(case.poor.close(&held.key, 3)).await;
    let now = case.other.permits(&held.key, 3).await.unwrap();
    assert_eq!(now.closed, closed.is_ok(), "{case}: {closed:?}");
}

async fn forces(case: &Case<'_>) {
    let held = case.held_in(SHARED).await;
    let waiter = case.waiting_for(Some(EXCLUSIVE)).await;
    if case.without(case.poor.force_release(&held.key)).await.is_err() {
        case.other.release(&held).await.unwrap();
    }
    case.serves(waiter).await;
    case.is_free().await;
}

async fn votes(case: &Case<'_>) {
    let request = Acquire::new(case.claim(EXCLUSIVE), long());
    let ballot = Ballot::new(request, FencingToken::new(0));
    match case.without(case.poor.vote(&ballot)).await {
        Ok(Vote::Granted(_)) => return case.has_alone(&ballot.request.claim).await,
        Err(error) => assert!(!error.is_retryable(), "{case}: {error}"),
        other => panic!("{case}: {other:?}"),
    }
    case.is_free().await;
}

const SCENARIOS: &[Scenario] = &[
    ("store", |case| stores(case, Some(b"1")).boxed_local()),
    ("erase", |case| stores(case, None).boxed_local()),
    ("commit", |case| commits(case, None).boxed_local()),
    ("commit and hand over", |case| commits(case, Some(EXCLUSIVE)).boxed_local()),
    ("commit and hand over to shared", |case| commits(case, Some(SHARED)).boxed_local()),
    ("add", |case| resizes(case, Resize::Add(2)).boxed_local()),
    ("remove", |case| resizes(case, Resize::Remove(1)).boxed_local()),
    ("forget", |case| forgets(case).boxed_local()),
    ("close", |case| closes(case).boxed_local()),
    ("force", |case| forces(case).boxed_local()),
    ("vote", |case| votes(case).boxed_local()),
];

#[test]
fn a_value_or_a_number_of_permits_is_never_half_written() {
    all(SCENARIOS);
}
