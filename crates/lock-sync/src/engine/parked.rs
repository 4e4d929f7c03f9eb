//! A request whose sender does not wait for the answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

use super::Running;

/// A request that was sent from the thread of a task, and belongs to the driver from when there is
/// something to be done for it: an answer to be read, usually.
///
/// The driver need not wake up for the request as well as for its answer.
pub(super) struct Parked(Mutex<State>);

#[allow(clippy::large_enum_variant, reason = "there is one of them for each request")]
enum State {
    /// It is being sent, and may have been woken meanwhile.
    Sending {
        woken: bool,
    },
    Parked(Running),
    /// It is the driver's, or over.
    Gone,
}

impl Parked {
    /// Sends a request. `None` if it is over, or the driver's, already.
    pub(super) fn send(mut request: Running) -> Option<Arc<Self>> {
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

    /// Gives the request to the driver, if it has it not.
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.go_on();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.go_on();
    }
}
