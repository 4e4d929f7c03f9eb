//! The spans and log lines that a subscriber gets.

#![cfg(feature = "tracing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod journal;

use std::time::Duration;

use lock_core::observer::{
    AcquireBegun, AcquireEnd, AcquireEnded, AcquireWaits, AcquisitionId, Entered, HoldBegun,
    HoldEnd, HoldEnded, HoldId, LeaseRenewed, Loss, LossReason, Observer, RenewalOutcome,
};
use lock_core::{Error, ErrorKind, FencingToken, Key, Mode};
use lock_telemetry::Traces;
use tracing::subscriber::with_default;
use tracing::{Level, info_span};

use crate::journal::Journal;

const MODE: Mode = Mode::Exclusive;
const TTL: Duration = Duration::from_secs(1);
const TOOK: Duration = Duration::from_millis(250);

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// The events of one caller that waits, and holds the lock for a while.
fn one_turn(traces: &Traces, key: &Key, during: impl FnOnce(HoldId)) {
    let (id, hold) = (AcquisitionId::draw(), HoldId::new(1, 1));
    traces.acquire_begun(&AcquireBegun { id, key, mode: MODE, stands_for: 1 });
    traces.acquire_waits(&AcquireWaits { id, key, mode: MODE, stands_for: 1 });
    let end = AcquireEnd::Granted { hold, entered: Entered::HandOff };
    traces.acquire_ended(&AcquireEnded {
        id,
        key,
        mode: MODE,
        outcome: end,
        waited: TOOK,
        stands_for: 1,
    });
    let token = FencingToken::new(7);
    traces.hold_begun(&HoldBegun {
        id: hold,
        acquisition: Some(id),
        key,
        mode: MODE,
        token,
        stands_for: 1,
    });
    during(hold);
    let end = HoldEnded {
        id: hold,
        acquisition: Some(id),
        key,
        mode: MODE,
        how: HoldEnd::Dropped,
        held: TOOK,
        ttl: TTL,
        stands_for: 1,
    };
    traces.hold_ended(&end);
}

#[test]
fn spans_have_their_parents_and_links() {
    let (journal, traces) = (Journal::default(), Traces::new());
    with_default(journal.subscriber(), || {
        info_span!("request").in_scope(|| one_turn(&traces, &key("orders/42"), |_| {}));
    });
    let request = journal.span("request");
    let acquire = journal.span("lock.acquire");
    let wait = journal.span("lock.wait");
    let hold = journal.span("lock.hold");
    assert_eq!(acquire.parent, Some(request.id));
    assert_eq!(wait.parent, Some(acquire.id));
    assert_eq!(hold.parent, Some(request.id));
    assert_eq!(hold.follows, [acquire.id]);
    assert_eq!(acquire.field("key"), "orders/42");
    assert_eq!(acquire.field("outcome"), "granted");
    assert_eq!(acquire.field("entered"), "handoff");
    assert_eq!(hold.field("token"), "7");
    assert_eq!(hold.field("outcome"), "dropped");
    assert!(journal.all_are_closed());
    let closed = journal.closed();
    assert_eq!(closed, ["lock.wait", "lock.acquire", "lock.hold", "request"]);
}

#[test]
fn a_call_that_gets_nothing_has_no_hold() {
    let (journal, traces) = (Journal::default(), Traces::new());
    with_default(journal.subscriber(), || {
        let (id, key) = (AcquisitionId::draw(), key("a"));
        traces.acquire_begun(&AcquireBegun { id, key: &key, mode: MODE, stands_for: 1 });
        let error = Error::new(ErrorKind::Unreachable, "no connection");
        let end = AcquireEnd::Failed(&error);
        traces.acquire_ended(&AcquireEnded {
            id,
            key: &key,
            mode: MODE,
            outcome: end,
            waited: TOOK,
            stands_for: 1,
        });
    });
    assert_eq!(journal.span("lock.acquire").field("error"), "no connection");
    assert_eq!(journal.closed(), ["lock.acquire"]);
}

#[test]
fn a_loss_is_an_event_in_the_span_of_the_hold() {
    let (journal, traces) = (Journal::default(), Traces::new());
    with_default(journal.subscriber(), || {
        let key = key("a");
        one_turn(&traces, &key, |hold| {
            let (reason, holds) = (LossReason::Revoked, [hold]);
            traces.lease_lost(&Loss {
                key: &key,
                reason,
                holds: &holds,
                left: TOOK,
                since: Duration::ZERO,
            });
        });
        // No hold has a span here.
        let loss = Loss {
            key: &key,
            reason: LossReason::Expired,
            holds: &[],
            left: Duration::ZERO,
            since: TOOK,
        };
        traces.lease_lost(&loss);
    });
    let events = journal.events();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0].parent, Some(journal.span("lock.hold").id));
    assert_eq!((events[0].level, events[0].field("reason")), (Level::WARN, "revoked"));
    assert_eq!((events[1].parent, events[1].field("reason")), (None, "expired"));
}

#[test]
fn an_outage_is_told_once_and_so_is_its_end() {
    let (journal, traces) = (Journal::default(), Traces::new());
    let error = Error::new(ErrorKind::Unreachable, "no connection");
    let renewed = |key: &str, outcome| {
        traces.lease_renewed(&LeaseRenewed { key: &self::key(key), outcome, took: TOOK, ttl: TTL })
    };
    with_default(journal.subscriber(), || {
        for _ in 0..2 {
            renewed("a", RenewalOutcome::Renewed);
            renewed("a", RenewalOutcome::Failed(&error));
            renewed("b", RenewalOutcome::Failed(&error));
            renewed("a", RenewalOutcome::Failed(&error));
            renewed("a", RenewalOutcome::Renewed);
            renewed("b", RenewalOutcome::Held);
        }
    });
    let levels: Vec<_> = journal.events().iter().map(|event| event.level).collect();
    assert_eq!(levels, [Level::WARN, Level::INFO, Level::WARN, Level::INFO]);
    assert_eq!(journal.events()[0].field("error"), "no connection");
}

#[test]
fn without_a_subscriber_nothing_is_kept() {
    let (journal, traces) = (Journal::default(), Traces::new());
    one_turn(&traces, &key("a"), |_| {});
    with_default(journal.subscriber(), || one_turn(&traces, &key("b"), |_| {}));
    assert_eq!(journal.span("lock.hold").field("key"), "b");
    assert!(journal.all_are_closed());
}
