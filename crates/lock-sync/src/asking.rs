//! Requests that no lease hangs on, and pauses.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use lock_core::Error;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::driver::Command;
use crate::engine::Home;
use crate::locks::Shared;

/// Sends a request from the runtime to which requests belong, and waits for its answer.
///
/// Whoever drops it leaves open what became of the request. A shutdown waits for it.
pub(crate) fn ask<'a, T>(
    shared: &'a Arc<Shared>,
    request: BoxFuture<'a, Result<T, Error>>,
) -> impl Future<Output = Result<T, Error>> + Send + Sync {
    ask_from(shared, shared.home, request)
}

/// The same, from this runtime.
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

/// Rings after this time, on the driver's clock: the task need not have a runtime. It rings at once if
/// the driver has gone.
pub(crate) fn alarm(shared: &Shared, after: Duration) -> oneshot::Receiver<()> {
    let (ring, bell) = oneshot::channel();
    shared.send(Command::Alarm(after, ring));
    bell
}
