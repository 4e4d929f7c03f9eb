//! Questions about the semaphore itself, which no lease hangs on.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use lock_core::Error;
use tokio::runtime::Handle;

use crate::engine::Home;
use crate::locks::Shared;

/// Sends a request from the runtime to which requests belong, and waits for its answer.
///
/// Whoever drops it leaves open what became of the request. A shutdown waits for it.
pub(super) fn ask<'a, T>(
    shared: &'a Arc<Shared>,
    request: BoxFuture<'a, Result<T, Error>>,
) -> impl Future<Output = Result<T, Error>> + Send + Sync {
    // The mutex is never locked: it makes the future `Sync`.
    let mut request = Mutex::new(request);
    async move {
        shared.start()?;
        let _flight = shared.flights.begin();
        poll_fn(|context| {
            let elsewhere = shared.home == Home::Driver || Handle::try_current().is_err();
            let _entered = shared.runtime().filter(|_| elsewhere).map(Handle::enter);
            request.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut().poll(context)
        })
        .await
    }
}
