//! Requests that no lease hangs on.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::future::BoxFuture;
use lock_core::{Claim, Error, Released, Watch};
use tokio::runtime::Handle;

use super::BareLock;
use super::limit::alarm;
use crate::engine::Home;

/// A query waits for releases no longer than this, and no longer than a lease lives.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl BareLock {
    /// Sends a request from the runtime to which requests belong, and waits for its answer.
    ///
    /// A caller that drops it leaves open what became of the request. A shutdown waits for it.
    pub(crate) fn ask<'a, T>(
        &'a self,
        request: BoxFuture<'a, Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> + Send + Sync {
        self.ask_from(self.shared().home, request)
    }

    /// As [`ask`](Self::ask), about this key. The store hears first of what this process has given up of the key.
    pub(crate) fn ask_about<'a, T>(
        &'a self,
        request: BoxFuture<'a, Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> + Send + Sync {
        let asking = self.ask(request);
        async move {
            self.given_back().await;
            asking.await
        }
    }

    /// Releases a claim for which no hold of this process stands any more.
    pub(crate) async fn withdraw(&self, claim: &Claim) -> Result<Released, Error> {
        self.ask(self.shared().backend.release(claim)).await
    }

    /// Listens for hints about this key, on the runtime of the driver: that runtime is there for as long as
    /// the watch is wanted.
    pub(crate) async fn watch(&self) -> Result<Watch, Error> {
        self.ask_from(Home::Driver, self.shared().backend.watch(self.key())).await
    }

    /// Waits until the store has heard of everything that this process has given up of this key by now, as a group
    /// that holds the key jointly or not.
    ///
    /// If the store does not answer in time, or a release fails, the caller goes on: its request finds out how the
    /// store does.
    pub(crate) async fn given_back(&self) {
        let shared = self.shared();
        for entry in shared.entries_of(self.key()) {
            let parts = entry.give_back_all();
            let mut limit = None;
            poll_fn(|context| {
                if entry.poll_returned(&parts, context).is_ready() {
                    return Poll::Ready(());
                }
                let longest = LONGEST_WAIT.min(self.ttl());
                let limit = limit.get_or_insert_with(|| alarm(shared, longest));
                Pin::new(limit).poll(context).map(drop)
            })
            .await;
        }
    }

    fn ask_from<'a, T>(
        &'a self,
        home: Home,
        request: BoxFuture<'a, Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> + Send + Sync {
        let shared = self.shared();
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
}
