//! The spans of a caller that waits for another client.

use std::sync::Arc;

use lock_core::observer::Observers;
use lock_telemetry::Traces;
use lock_tests::{RedisServer, SOON, eventually, soon};
use tracing::subscriber::set_default;
use tracing::{Instrument, Level, info_span};

use crate::clients::{NAME, client, until_pushed, until_waiting};
use crate::journal::Journal;

// One thread, so that the subscriber of the test is the one of the callers.
#[tokio::test]
async fn a_wait_for_another_client_is_inside_the_span_of_the_caller() {
    until_pushed(a_wait_is_inside_the_span_of_the_caller).await;
}

/// Returns whether the waiter has the lock by the message of its grant.
async fn a_wait_is_inside_the_span_of_the_caller() -> bool {
    let (server, journal) = (RedisServer::start(), Journal::default());
    let _guard = set_default(journal.subscriber());
    let here = client(&server, Arc::new(Observers::none())).await;
    let there = client(&server, Arc::new(Traces::new())).await;
    let holder = soon(here.lock(NAME)).await.unwrap();
    let locks = there.clone();
    let request = async move { locks.lock(NAME).await };
    let waiting = tokio::spawn(request.instrument(info_span!("request")));
    until_waiting(&here, 1).await;
    drop(holder);
    let guard = soon(waiting).await.unwrap().unwrap();
    let token = guard.lease().fencing_token().to_string();
    drop(guard);
    eventually("every span is closed", SOON, || journal.all_are_closed());

    let [request, acquire, wait, hold] =
        ["request", "lock.acquire", "lock.wait", "lock.hold"].map(|name| journal.span(name));
    assert_eq!(acquire.parent, Some(request.id));
    assert_eq!(wait.parent, Some(acquire.id));
    assert_eq!(hold.parent, Some(request.id));
    assert_eq!(hold.follows, [acquire.id]);
    let found = ["outcome", "entered", "key"].map(|field| acquire.field(field).to_owned());
    let is_pushed = found[1] != "free";
    assert_eq!(found, ["granted", if is_pushed { "granted" } else { "free" }, NAME]);
    assert_eq!((hold.field("token"), hold.field("outcome")), (&*token, "dropped"));
    assert_eq!(&journal.closed()[..2], ["lock.wait", "lock.acquire"]);
    is_pushed
}

#[tokio::test]
async fn an_outage_that_costs_the_lease_is_told_in_the_span_of_the_hold() {
    let (server, journal) = (RedisServer::start(), Journal::default());
    // The driver runs here, so its lines come to the subscriber of the test.
    let _guard = set_default(journal.subscriber());
    let traces = Arc::new(Traces::new());
    let store = lock_any::open_observed(&server.url(), traces.clone()).await.unwrap();
    let locks = lock_sync::Locks::builder(store)
        .ttl(crate::clients::TTL)
        .on_runtime(tokio::runtime::Handle::current())
        .observer(traces)
        .build()
        .unwrap();
    let guard = soon(locks.lock(NAME)).await.unwrap();
    server.kill();
    soon(guard.lease().lost()).await;
    drop(guard);

    let events = journal.events();
    let of = |text: &str| {
        events.iter().filter(|it| it.field("message").contains(text)).collect::<Vec<_>>()
    };
    let failed = of("a renewal failed: leases");
    assert_eq!(failed.len(), 1, "once in an outage");
    assert_eq!((failed[0].level, failed[0].field("key")), (Level::WARN, NAME));
    let lost = of("the lease is lost");
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].parent, Some(journal.span("lock.hold").id));
    assert_eq!((lost[0].level, lost[0].field("reason")), (Level::WARN, "expired"));
    assert_eq!(journal.span("lock.hold").field("outcome"), "lost");
}
