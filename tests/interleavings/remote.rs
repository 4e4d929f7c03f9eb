//! The way to the store: each message takes time, and may be lost.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Clock, Error, ErrorKind, Hint, Instant, Key, Released,
    Renew, Renewal, Watch,
};
use shuttle::future::yield_now;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Mutex, MutexGuard};

use super::store::{Client, Store};
use super::{chance, take_time};

/// The store, as the process reaches it.
///
/// Visits follow one another. Threads may change during a visit, too, when the store looks at a lease of the process.
#[derive(Clone)]
pub(super) struct Remote(Arc<Mutex<Store>>);

impl Remote {
    pub(super) fn new(store: Store) -> Self {
        Self(Arc::new(Mutex::new(store)))
    }

    pub(super) fn visit<R>(&self, act: impl FnOnce(&mut Store, Instant) -> R) -> R {
        act(&mut self.lock(), Clock::tokio().now())
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap()
    }

    /// One round trip, either way of which may fail.
    async fn ask<R>(&self, request: impl FnOnce(&mut Store, Instant) -> R) -> Result<R, Error> {
        travel().await?;
        let answer = self.visit(request);
        travel().await?;
        Ok(answer)
    }
}

async fn travel() -> Result<(), Error> {
    pause().await;
    take_time();
    if chance(1, 16) { Err(unreachable()) } else { Ok(()) }
}

/// Lets other threads go on for a while.
async fn pause() {
    for _ in 0..thread_rng().gen_range(1..4) {
        yield_now().await;
    }
}

fn unreachable() -> Error {
    Error::new(ErrorKind::Unreachable, "lost on the way")
}

#[async_trait]
impl Backend for Remote {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        let sent = self.clock().now();
        self.ask(|store, now| store.acquire(now, sent, Client::Process, request)).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        let sent = self.clock().now();
        let renewal = self.ask(|store, now| store.renew(now, sent, request)).await;
        renewal.unwrap_or_else(Renewal::Unknown)
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let released = self.ask(|store, now| store.release(now, claim)).await;
        self.excuse_failed(claim, &released);
        released
    }

    async fn release_and_requeue(
        &self,
        claim: &Claim,
        next: &Acquire,
    ) -> Result<(Released, Option<AcquireOutcome>), Error> {
        let requeued = self.ask(|store, now| store.release_and_requeue(now, claim, next)).await;
        self.excuse_failed(claim, &requeued);
        requeued
    }

    /// Each message comes once, twice or not at all, and with one of them the connection breaks.
    async fn watch(&self, _key: &Key) -> Result<Watch, Error> {
        if chance(1, 16) {
            return Err(unreachable());
        }
        pause().await;
        let messages = self.visit(|store, _| store.watch());
        let heard = messages.flat_map(|hint: Hint| {
            let copies = match thread_rng().gen_range(0..16) {
                0 | 1 => 0,
                2 => 2,
                _ => 1,
            };
            let late = pause().into_stream().filter_map(async |()| None);
            late.chain(futures::stream::iter(std::iter::repeat_n(hint, copies)))
        });
        let whole = heard.take_while(|_| futures::future::ready(!chance(1, 16)));
        Ok(Watch::new(whole))
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }
}

impl Remote {
    /// See [`Store::excuse`].
    fn excuse_failed<R>(&self, claim: &Claim, answer: &Result<R, Error>) {
        if answer.is_err() {
            self.visit(|store, _| store.excuse(claim.owner));
        }
    }
}
