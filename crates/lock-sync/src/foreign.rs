//! Foreign code that this crate calls: wakers, and the values that a waker owns.
//!
//! A waker may own anything, even a guard of the lock that it waits for. So this crate clones, wakes and drops
//! wakers only while it holds none of its own locks. A waker that panics does not stop other wakers, and makes no
//! drop of this crate panic: [`survive`] catches the panic. The panic hook has reported the panic by then.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

pub(crate) use lock_core::foreign::survive;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

pub(crate) fn wake(waker: Waker) {
    survive(|| waker.wake());
}

/// Drops a waker.
pub(crate) fn discard(waker: Option<Waker>) {
    if let Some(waker) = waker {
        survive(|| drop(waker));
    }
}

/// Wakes all listeners, as [`Notify::notify_waiters`](tokio::sync::Notify::notify_waiters) does. But with `Notify`,
/// a waker that panics stops other wakers.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// How often the bell has rung.
    rung: AtomicU64,
    listeners: Mutex<Listeners>,
}

/// The wakers of the listeners for the next ring, by number.
#[derive(Debug, Default)]
struct Listeners {
    last: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let mut listeners = self.lock();
        self.rung.fetch_add(1, Ordering::Release);
        let wakers = std::mem::take(&mut listeners.wakers);
        drop(listeners);
        wakers.into_values().for_each(wake);
    }

    /// Listens for the first ring from now on.
    pub(crate) fn listen(&self) -> Listening<'_> {
        let heard = self.rung.load(Ordering::Acquire);
        Listening { bell: self, heard, number: None }
    }

    fn lock(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves when the bell has rung.
#[derive(Debug)]
pub(crate) struct Listening<'a> {
    bell: &'a Bell,
    /// How often the bell had rung when this listener began to listen.
    heard: u64,
    /// The number of the waker in the bell, if there is one.
    number: Option<u64>,
}

impl Future for Listening<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { bell, heard, number } = self.get_mut();
        let mut fresh = number.is_none().then(|| context.waker().clone());
        let polled = loop {
            let mut listeners = bell.lock();
            if bell.rung.load(Ordering::Acquire) != *heard {
                break Poll::Ready(());
            }
            let parked = number.and_then(|number| listeners.wakers.get(&number));
            if parked.is_some_and(|parked| parked.will_wake(context.waker())) {
                break Poll::Pending;
            }
            if let Some(waker) = fresh.take() {
                listeners.last += 1;
                let number = *number.get_or_insert(listeners.last);
                fresh = listeners.wakers.insert(number, waker);
                break Poll::Pending;
            }
            drop(listeners);
            fresh = Some(context.waker().clone());
        };
        discard(fresh);
        polled
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let waker = self.bell.lock().wakers.remove(&number);
            discard(waker);
        }
    }
}
