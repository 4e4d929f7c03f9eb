//! A request whose sender does not wait for the answer.

use std::sync::{Arc, PoisonError};
use std::task::{Context, Wake, Waker};

use super::running::{Asks, Running};
use crate::sync::{Mutex, MutexGuard};

/// A request that was sent from the thread of a task. It moves to the driver when it is first woken, usually because
/// an answer can be read.
///
/// So the driver wakes up once for the answer, and not also to send the request.
pub(super) struct Parked<E: Asks>(Mutex<State<E>>);

enum State<E: Asks> {
    /// The request is being sent, and may have been woken meanwhile.
    Sending {
        woken: bool,
    },
    Parked(Running<E>),
    /// The driver has the request, or the request is over.
    Gone,
}

impl<E: Asks> Parked<E> {
    /// Sends a request. `None` if the request is over or has moved to the driver.
    pub(super) fn send(mut request: Running<E>) -> Option<Arc<Self>> {
        let parked = Arc::new(Self(Mutex::new(State::Sending { woken: false })));
        let waker = Waker::from(Arc::clone(&parked));
        if request.poll(&mut Context::from_waker(&waker)).is_ready() {
            *parked.lock() = State::Gone;
            return None;
        }
        let mut state = parked.lock();
        if matches!(*state, State::Sending { woken: true }) {
            *state = State::Gone;
            drop(state);
            request.go_to_driver();
            return None;
        }
        *state = State::Parked(request);
        drop(state);
        Some(parked)
    }

    /// Gives the request to the driver, unless the driver has it already.
    pub(super) fn go_on(&self) {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Gone) {
            State::Sending { .. } => *state = State::Sending { woken: true },
            State::Parked(request) => {
                // Not under the lock: a driver that has gone answers at once.
                drop(state);
                request.go_to_driver();
            }
            State::Gone => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Asks> Wake for Parked<E> {
    fn wake(self: Arc<Self>) {
        self.go_on();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.go_on();
    }
}
