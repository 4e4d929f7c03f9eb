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

/// A value of another crate whose drop may wake wakers, or drop them. The drop does not panic if such a waker panics.
///
/// If the value is a future, so is the shield.
#[derive(Debug)]
pub(crate) struct Shielded<T>(Option<T>);

impl<T> Shielded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T: Future + Unpin> Future for Shielded<T> {
    type Output = T::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T::Output> {
        match &mut self.0 {
            Some(future) => Pin::new(future).poll(context),
            // Only the drop takes the future.
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for Shielded<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        survive(|| drop(value));
    }
}

/// Wakes all listeners, as [`Notify::notify_waiters`](tokio::sync::Notify::notify_waiters) does. But with `Notify`,
/// a waker that panics stops other wakers.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// How often the bell has rung.
    rung: AtomicU64,
    /// The wakers of the listeners for the next ring.
    listeners: Mutex<Wakers>,
}

/// The wakers of futures that wait for one event, by number. They are under a lock of their owner, who wakes or drops
/// every waker that comes out only after the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    last: u64,
    parked: BTreeMap<u64, Waker>,
}

impl Wakers {
    pub(crate) fn is_empty(&self) -> bool {
        self.parked.is_empty()
    }

    /// Whether the future with this number has left a waker of this task.
    pub(crate) fn has(&self, number: Option<u64>, context: &Context<'_>) -> bool {
        let parked = number.and_then(|number| self.parked.get(&number));
        parked.is_some_and(|parked| parked.will_wake(context.waker()))
    }

    /// A future leaves a waker. Returns the number of the future, which a new future gets here, and its former waker.
    pub(crate) fn park(&mut self, number: Option<u64>, waker: Waker) -> (u64, Option<Waker>) {
        let number = number.unwrap_or_else(|| {
            self.last += 1;
            self.last
        });
        (number, self.parked.insert(number, waker))
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Waker> {
        self.parked.remove(&number)
    }

    /// Takes all wakers. The futures keep their numbers.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.parked).into_values()
    }
}

impl Bell {
    pub(crate) fn ring(&self) {
        let mut listeners = self.lock();
        self.rung.fetch_add(1, Ordering::Release);
        let wakers = listeners.take();
        drop(listeners);
        wakers.for_each(wake);
    }

    /// Listens for the first ring from now on.
    pub(crate) fn listen(&self) -> Listening<'_> {
        let heard = self.rung.load(Ordering::Acquire);
        Listening { bell: self, heard, number: None }
    }

    fn lock(&self) -> MutexGuard<'_, Wakers> {
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
            if listeners.has(*number, context) {
                break Poll::Pending;
            }
            if let Some(waker) = fresh.take() {
                let (own, former) = listeners.park(*number, waker);
                (*number, fresh) = (Some(own), former);
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
            let waker = self.bell.lock().remove(number);
            discard(waker);
        }
    }
}
