//! A stored value over a store that fails, and futures that are dropped.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use lock_core::memory::Verb;
use lock_core::{Cell, CellBackend, ErrorKind, InspectBackend, Key};
use lock_sync::{CommitError, LockError, LossReason, SaveError, StoredMutexGuard, TryLockError};
use tokio::time::{Instant, sleep};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::stored::{TTL, short};
use crate::support::{Pair, dropped_after, poll_once};

impl Pair {
    /// What the store has beside the lock.
    pub(crate) async fn kept(&self) -> Option<Cell> {
        self.store.load(&Key::new("it").unwrap()).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again() {
    let pair = short();
    let (here, there) = pair.stored();
    for lost in 1..4 {
        let mut guard = here.lock().await.unwrap();
        *guard = lost;
        pair.ours.faults().on(Verb::Cell).lose_replies(lost);
        let version = guard.commit().await.unwrap();
        let snapshot = there.snapshot().await.unwrap();
        assert_eq!((snapshot.value, snapshot.version), (lost, Some(version)));
    }
    pair.all_released().await;
}

/// The process has kept the lease, and does not know its value.
#[tokio::test(start_paused = true)]
async fn a_try_asks_for_the_value_once() {
    let pair = short();
    let (here, _) = pair.stored();
    let keeper = pair.here.mutex("it", ()).unwrap().with_cache(TTL);
    drop(keeper.lock().await.unwrap());
    let (begin, before) = (Instant::now(), pair.ours.stats());
    pair.ours.faults().on(Verb::Cell).fail(ErrorKind::NotReady);
    let error = here.try_lock().await.unwrap_err();
    assert!(matches!(error, TryLockError::Backend(_)), "{error:?}");
    let sent = pair.ours.stats().since(before);
    assert_eq!((sent.cells, begin.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answers_stay_away_is_decided_by_a_question() {
    for lands in [true, false] {
        let pair = short();
        let (here, there) = pair.stored();
        let mut guard = here.lock().await.unwrap();
        *guard = 9;
        // No renewal has an answer, either.
        if lands {
            pair.ours.faults().lose_replies(u32::MAX);
        } else {
            pair.ours.faults().fail(ErrorKind::Unreachable);
        }
        let committing = guard.commit();
        let healing = async {
            // The lease has ended by then.
            sleep(TTL + TTL / 6).await;
            pair.ours.faults().heal();
        };
        let (committed, ()) = tokio::join!(committing, healing);
        match committed {
            Ok(version) => {
                assert!(lands);
                assert_eq!(there.snapshot().await.unwrap().version, Some(version));
            }
            Err(CommitError::Lost { value: 9, .. }) => {
                assert!(!lands);
                assert_eq!(pair.kept().await, None);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_silent_leaves_the_outcome_unknown() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    *guard = 9;
    pair.ours.faults().on(Verb::Cell).lose_replies(u32::MAX);
    let begin = Instant::now();
    let Err(error) = guard.commit().await else { panic!() };
    let CommitError::Unknown { value: 9, source } = error else { panic!("{error:?}") };
    assert!(source.is_retryable());
    assert!(begin.elapsed() < TTL * 3, "{:?}", begin.elapsed());
    assert_eq!(there.snapshot().await.unwrap().value, 9, "in fact it was stored");
    pair.ours.faults().heal();
    assert_eq!(*here.lock().await.unwrap(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_refused_value_comes_back_with_the_guard() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    *guard = 9;
    pair.ours.faults().on(Verb::Cell).fail(ErrorKind::Denied);
    assert!(matches!(guard.save().await, Err(SaveError::Refused(_))));
    let Err(CommitError::Refused { guard, source }) = guard.commit().await else { panic!() };
    assert_eq!(source.kind(), ErrorKind::Denied);
    assert!(StoredMutexGuard::lease(&guard).is_valid() && there.try_lock().await.is_err());
    pair.ours.faults().heal();
    guard.commit().await.unwrap();
    assert_eq!(*there.lock().await.unwrap(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_save_without_an_answer_is_settled_before_the_next_guard() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    *guard = 9;
    let gate = pair.ours.faults().on(Verb::Cell).hold_requests();
    let mut saving = Box::pin(guard.save());
    assert!(poll_once(saving.as_mut()).await.is_pending());
    drop(saving);
    drop(guard);
    drop(gate);
    pair.ours.faults().heal();
    // The next guard has a lease of its own, so a late arrival would be refused.
    let before = pair.ours.stats().acquires;
    let guard = here.lock().await.unwrap();
    assert_eq!(pair.ours.stats().acquires, before + 1, "the lease was not passed on");
    assert_eq!(Some(*guard), pair.kept().await.map_or(Some(3), |_| Some(9)));
    drop((guard, there));
}

/// Saves a value, and goes away before there is an answer.
async fn save_in_vain(pair: &Pair, guard: &mut StoredMutexGuard<u32>) {
    **guard = 9;
    let gate = pair.ours.faults().on(Verb::Cell).hold_requests();
    let mut saving = Box::pin(guard.save());
    assert!(poll_once(saving.as_mut()).await.is_pending());
    drop(saving);
    drop(gate);
    pair.ours.faults().heal();
}

#[tokio::test(start_paused = true)]
async fn a_refused_save_does_not_hide_an_earlier_one_without_an_answer() {
    let pair = short();
    let (here, _there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    save_in_vain(&pair, &mut guard).await;
    pair.ours.faults().on(Verb::Cell).fail_next(1, ErrorKind::Denied);
    assert!(matches!(guard.save().await, Err(SaveError::Refused(_))));
    let before = pair.ours.stats().acquires;
    let mut next = Box::pin(here.lock());
    assert!(poll_once(next.as_mut()).await.is_pending());
    drop(guard);
    drop(next.await.unwrap());
    assert_eq!(pair.ours.stats().acquires, before + 1, "the lease was not passed on");
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_commit_was_refused_after_a_save_without_an_answer_hears_of_its_loss() {
    let pair = short();
    let (here, _there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    save_in_vain(&pair, &mut guard).await;
    pair.ours.faults().on(Verb::Cell).fail_next(1, ErrorKind::Denied);
    let Err(CommitError::Refused { guard, .. }) = guard.commit().await else { panic!() };
    pair.store.force_release(&Key::new("it").unwrap()).await.unwrap();
    let lost = StoredMutexGuard::lease(&guard).lost().await;
    assert_eq!(lost.reason(), LossReason::Revoked);
}

/// Each save has a token of its own. The lease gets more tokens, so a save never has to be refused.
#[tokio::test(start_paused = true)]
async fn saves_without_an_answer_use_up_no_tokens() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    let tokens = 2 * 8192;
    for value in 0..tokens {
        *guard = value;
        let gate = pair.ours.faults().on(Verb::Cell).hold_requests();
        let mut saving = Box::pin(guard.save());
        // The future is dropped while the request for the value is on its way, or the one for tokens.
        assert!(poll_once(saving.as_mut()).await.is_pending());
        drop(saving);
        drop(gate);
        pair.ours.faults().heal();
    }
    *guard = tokens;
    let version = guard.save().await.unwrap();
    assert_eq!(there.snapshot().await.unwrap().version, Some(version));
    assert_eq!(pair.kept().await.map(|cell| cell.value), Some(tokens.to_string().into_bytes()));
}

/// Whatever becomes of a dropped future, both processes go on with one value.
async fn agree(pair: &Pair, possible: &[u32]) {
    let (here, there) = pair.stored();
    let one = *here.lock().await.unwrap();
    let other = *there.lock().await.unwrap();
    assert_eq!(one, other);
    assert!(possible.contains(&one), "{one} is none of {possible:?}");
    assert_eq!(here.snapshot().await.unwrap().value, one);
    // A lease that was taken back lingers for a moment.
    sleep(TTL / 10).await;
    pair.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_can_be_dropped_at_any_poll() {
    for polls in 0..6 {
        for free in 0..6 {
            let pair = short();
            let (here, there) = pair.stored();
            let guard = there.lock().await.unwrap();
            dropped_after(Box::pin(here.lock()), polls, Some(guard), free).await;
            agree(&pair, &[3]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_can_be_dropped_at_any_poll() {
    for polls in 0..4 {
        for held in [None, Some(true), Some(false)] {
            for waits in [false, true] {
                let pair = short();
                let (here, _) = pair.stored();
                let mut guard = here.lock().await.unwrap();
                *guard = 4;
                let next = waits.then(|| {
                    let here = here.clone();
                    tokio::spawn(async move { here.update(|value| *value += 10).await.unwrap() })
                });
                tokio::task::yield_now().await;
                let faults = pair.ours.faults().on(Verb::Cell);
                let gate =
                    held.map(
                        |requests| {
                            if requests { faults.hold_requests() } else { faults.hold_replies() }
                        },
                    );
                dropped_after(Box::pin(guard.commit()), polls, None::<()>, 0).await;
                drop(gate);
                pair.ours.faults().heal();
                let possible = if let Some(next) = next {
                    next.await.unwrap();
                    [13, 14]
                } else {
                    [3, 4]
                };
                agree(&pair, &possible).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_did_not_come_with_the_lock_is_loaded() {
    let pair = short();
    let (here, there) = pair.stored();
    there.update(|value| *value = 8).await.unwrap();
    // A mutex with this name brings no value, and passes its lease on.
    let plain = pair.here.mutex("it", ()).unwrap();
    let held = plain.lock().await.unwrap();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.ours.faults().on(Verb::Cell).fail_next(2, ErrorKind::Unreachable);
    drop(held);
    assert_eq!(*waiting.await.unwrap(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_wait_limit_ends_a_load_that_has_no_answer() {
    let pair = short();
    let (here, _) = pair.stored();
    let plain = pair.here.mutex("it", ()).unwrap();
    let held = plain.lock().await.unwrap();
    let mut waiting = Box::pin(here.lock_timeout(TTL / 3));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    let _gate = pair.ours.faults().on(Verb::Cell).hold_requests();
    drop(held);
    assert!(matches!(waiting.await, Err(LockError::Timeout { .. })));
    pair.ours.faults().heal();
    agree(&pair, &[3]).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_limit_ends_a_snapshot_that_has_no_answer() {
    let pair = Pair::local_with(|builder| builder.wait_limit(TTL / 3));
    let (here, _) = pair.stored();
    let _gate = pair.ours.faults().on(Verb::Cell).hold_requests();
    let snapshot = tokio::time::timeout(TTL, here.snapshot()).await.expect("it has a limit");
    assert!(matches!(snapshot, Err(LockError::Timeout { .. })), "{snapshot:?}");
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_connects_again() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut versions = here.subscribe();
    there.update(|value| *value = 1).await.unwrap();
    assert_eq!(versions.next().await.unwrap().unwrap().value, 1);
    pair.ours.faults().cut();
    there.update(|value| *value = 2).await.unwrap();
    tokio::select! {
        _ = versions.next() => panic!("the store is out of reach"),
        () = sleep(TTL * 2) => pair.ours.faults().heal(),
    }
    assert_eq!(versions.next().await.unwrap().unwrap().value, 2);
    pair.ours.faults().mute_hints(true);
    there.update(|value| *value = 3).await.unwrap();
    assert_eq!(versions.next().await.unwrap().unwrap().value, 3, "without a hint");
}

/// The messages at the level `debug` about stored values.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().contains("recipes::stored") && *metadata.level() == Level::DEBUG
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn the_log_tells_what_became_of_changes_that_were_not_committed() {
    let log = Log::default();
    let _logged = tracing::subscriber::set_default(log.clone());
    let pair = short();
    let (here, _) = pair.stored();
    let discarded = ["a guard was dropped without a commit: its changes are discarded"];
    let in_doubt = ["a write of the value has no answer: the changes may be stored"];
    drop(here.lock().await.unwrap());
    here.update(|value| *value = 4).await.unwrap();
    assert!(log.taken().is_empty(), "there are no changes, or they are stored");
    *here.lock().await.unwrap() = 5;
    assert_eq!(log.taken(), discarded);
    for commits in [true, false] {
        let mut guard = here.lock().await.unwrap();
        *guard = 6;
        let gate = pair.ours.faults().on(Verb::Cell).hold_replies();
        if commits {
            dropped_after(Box::pin(guard.commit()), 1, None::<()>, 0).await;
        } else {
            dropped_after(Box::pin(guard.save()), 1, None::<()>, 0).await;
            drop(guard);
        }
        drop(gate);
        pair.ours.faults().heal();
        assert_eq!(log.taken(), in_doubt);
        assert_eq!(*here.lock().await.unwrap(), 6);
    }
    let mut guard = here.lock().await.unwrap();
    *guard = 7;
    pair.ours.faults().on(Verb::Cell).fail(ErrorKind::Denied);
    assert!(guard.save().await.is_err());
    drop(guard);
    assert_eq!(log.taken(), discarded);
}
