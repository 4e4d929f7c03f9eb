//! Requests that concern no lease of this process.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::future::BoxFuture;
use lock_core::{Claim, Error, Released, Watch};
use tokio::runtime::Handle;

use super::BareLock;
use super::limit::alarm;
use crate::engine::{Home, Shared, fit_to_listen};
use crate::foreign::Shielded;

/// The longest time for which a query waits for releases. It also waits no longer than a lease lives.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl BareLock {
    /// Sends a request on the runtime that runs requests, and waits for its answer.
    ///
    /// If the caller drops this future, the outcome of the request is unknown. A shutdown waits for the request.
    pub(crate) fn ask<'a, T>(
        &'a self,
        request: BoxFuture<'a, Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> + Send + Sync {
        self.ask_from(self.home, request)
    }

    /// As [`ask`](Self::ask), but first waits until the store has answered the releases of this key by this process.
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

    /// Releases a claim without a hold in this process.
    pub(crate) async fn withdraw(&self, claim: &Claim) -> Result<Released, Error> {
        self.ask(self.shared().backend.release(claim)).await
    }

    /// Listens for hints about this key, on the runtime of this task if that has several threads, and otherwise on the
    /// driver. A client may hear all its hints, and so all pushed grants, on the runtime of its first watch.
    ///
    /// If the runtime ends, the watch ends, too.
    pub(crate) async fn watch(&self) -> Result<Watch, Error> {
        let home = if fit_to_listen().is_some() { self.home } else { Home::Driver };
        self.ask_from(home, self.shared().backend.watch(self.key())).await
    }

    /// Waits until the store has answered the earlier releases of this key by this process, in all groups and
    /// outside them.
    ///
    /// If the store does not answer in time, or a release fails, the wait ends. The request of the caller then shows
    /// whether the store answers.
    pub(crate) async fn given_back(&self) {
        let shared = self.shared();
        let entries = shared.entries_of(self.key());
        let mut open: Vec<_> =
            entries.iter().map(|entry| entry.returned(entry.give_back_all())).collect();
        let mut limit = None;
        poll_fn(|context| {
            open.retain_mut(|returned| Pin::new(returned).poll(context).is_pending());
            if open.is_empty() {
                return Poll::Ready(());
            }
            let longest = LONGEST_WAIT.min(self.ttl());
            let limit = limit.get_or_insert_with(|| alarm(shared, longest));
            Pin::new(limit).poll(context).map(drop)
        })
        .await;
    }

    fn ask_from<'a, T>(
        &'a self,
        home: Home,
        request: BoxFuture<'a, Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> + Send + Sync {
        ask(self.shared(), home, request)
    }
}

/// Sends a request that concerns no single lock, as [`BareLock::ask`] does.
pub(crate) fn ask<'a, T>(
    shared: &'a Arc<Shared>,
    home: Home,
    request: BoxFuture<'a, Result<T, Error>>,
) -> impl Future<Output = Result<T, Error>> + Send + Sync {
    // The mutex is never locked: it makes the future `Sync`.
    let mut request = Mutex::new(Shielded::new(request));
    async move {
        shared.start()?;
        let _flight = shared.flights.begin();
        poll_fn(|context| {
            let elsewhere = home == Home::Driver || Handle::try_current().is_err();
            let _entered = shared.runtime().filter(|_| elsewhere).map(Handle::enter);
            let request = request.get_mut().unwrap_or_else(PoisonError::into_inner);
            Pin::new(request).poll(context)
        })
        .await
    }
}
