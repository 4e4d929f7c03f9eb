//! Requests that no lease hangs on.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures::future::BoxFuture;
use lock_core::{Error, Key};
use tokio::runtime::Handle;

use crate::engine::{Entry, Home, Shared};
use crate::limit::alarm;

/// A query waits for releases no longer than this, and no longer than a lease lives.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Sends a request from the runtime to which requests belong, and waits for its answer.
///
/// Whoever drops it leaves open what became of the request. A shutdown waits for it.
pub(crate) fn ask<'a, T>(
    shared: &'a Arc<Shared>,
    request: BoxFuture<'a, Result<T, Error>>,
) -> impl Future<Output = Result<T, Error>> + Send + Sync {
    ask_from(shared, shared.home, request)
}

/// As [`ask`], about this key. The store hears first of what this process has given up of it.
pub(crate) fn ask_about<'a, T>(
    entry: &'a Arc<Entry>,
    request: BoxFuture<'a, Result<T, Error>>,
) -> impl Future<Output = Result<T, Error>> + Send + Sync {
    let asking = ask(entry.shared(), request);
    async move {
        given_back(entry.shared(), entry.key()).await;
        asking.await
    }
}

/// Waits until the store has heard of everything that this process has given up of this key by now, as a group
/// that holds it jointly or not.
///
/// If the store does not answer in time, or a release fails, the caller goes on: its request finds out how the
/// store does.
pub(crate) async fn given_back(shared: &Arc<Shared>, key: &Key) {
    for entry in shared.entries_of(key) {
        let parts = entry.give_back_all();
        let mut limit = None;
        poll_fn(|context| {
            if entry.poll_returned(&parts, context).is_ready() {
                return Poll::Ready(());
            }
            let longest = LONGEST_WAIT.min(shared.policy.ttl.duration());
            let limit = limit.get_or_insert_with(|| alarm(shared, longest));
            Pin::new(limit).poll(context).map(drop)
        })
        .await;
    }
}

/// As [`ask`], from this runtime.
pub(crate) fn ask_from<'a, T>(
    shared: &'a Arc<Shared>,
    home: Home,
    request: BoxFuture<'a, Result<T, Error>>,
) -> impl Future<Output = Result<T, Error>> + Send + Sync {
    // The mutex is never locked: it makes the future `Sync`.
    let mut request = Mutex::new(request);
    async move {
        shared.start()?;
        let _flight = shared.flights.begin();
        poll_fn(|context| {
            let elsewhere = home == Home::Driver || Handle::try_current().is_err();
            let _entered = shared.runtime().filter(|_| elsewhere).map(Handle::enter);
            request.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut().poll(context)
        })
        .await
    }
}
