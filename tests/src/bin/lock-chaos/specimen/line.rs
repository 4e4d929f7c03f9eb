//! The tasks of a process that want one lock: in a line, in which one at a time has its turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::flaw::Flaw;

/// The waiters for a turn, and whether a task has the turn. That task may leave a value to the next: `T`.
pub(super) struct Line<T: Send + 'static> {
    flaw: Flaw,
    state: Mutex<State<T>>,
}

struct State<T: Send + 'static> {
    is_taken: bool,
    waiting: VecDeque<oneshot::Sender<Turn<T>>>,
}

/// The turn of one task. It goes to the next task when it is dropped.
pub(super) struct Turn<T: Send + 'static> {
    line: Option<Arc<Line<T>>>,
    /// The value that the previous task has left.
    pub(super) left: Option<T>,
}

impl<T: Send + 'static> Line<T> {
    pub(super) fn new(flaw: Flaw) -> Arc<Self> {
        let state = State { is_taken: false, waiting: VecDeque::new() };
        Arc::new(Self { flaw, state: Mutex::new(state) })
    }

    /// Waits for a turn, in the order of these calls.
    ///
    /// # Cancel safety
    ///
    /// A turn that comes too late goes to the next task.
    pub(super) async fn turn(self: &Arc<Self>) -> Turn<T> {
        let came = {
            let mut state = self.state();
            if !state.is_taken {
                state.is_taken = true;
                return Turn { line: Some(Arc::clone(self)), left: None };
            }
            let (call, came) = oneshot::channel();
            if self.flaw == Flaw::QueueIgnored {
                state.waiting.push_front(call);
            } else {
                state.waiting.push_back(call);
            }
            came
        };
        match came.await {
            Ok(turn) => turn,
            // The line never forgets its waiters.
            Err(_) => std::future::pending().await,
        }
    }

    /// A turn, if no task has it or waits for it.
    pub(super) fn try_turn(self: &Arc<Self>) -> Option<Turn<T>> {
        let mut state = self.state();
        let is_free = !std::mem::replace(&mut state.is_taken, true);
        is_free.then(|| Turn { line: Some(Arc::clone(self)), left: None })
    }

    /// Gives the turn to the next task. Returns the value for it, if there is no next task.
    pub(super) fn pass(self: Arc<Self>, left: Option<T>) -> Option<T> {
        let mut turn = Turn { line: Some(Arc::clone(&self)), left };
        loop {
            let call = {
                let mut state = self.state();
                let Some(call) = state.waiting.pop_front() else {
                    state.is_taken = false;
                    turn.line = None;
                    return turn.left.take();
                };
                call
            };
            match call.send(turn) {
                Ok(()) => return None,
                Err(back) => turn = back,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + 'static> Turn<T> {
    /// Whether a task waits for the turn.
    pub(super) fn is_wanted(&self) -> bool {
        let line = self.line.as_ref();
        line.is_some_and(|line| line.state().waiting.iter().any(|call| !call.is_closed()))
    }

    /// Passes the turn on, with a value for the next task. Returns the value if there is no next task.
    pub(super) fn pass(mut self, left: Option<T>) -> Option<T> {
        self.line.take().and_then(|line| line.pass(left))
    }
}

impl<T: Send + 'static> Drop for Turn<T> {
    fn drop(&mut self) {
        if let Some(line) = self.line.take()
            // With this flaw, a task that gives up while it asks the server takes its turn along.
            && line.flaw != Flaw::SilentHead
        {
            // Without a next task, the value is dropped, and so released.
            drop(line.pass(self.left.take()));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn turns_come_in_order_and_skip_waiters_that_are_gone() {
        let line = Line::<u32>::new(Flaw::None);
        let first = line.turn().await;
        let [mut second, mut third, mut fourth] = [(); 3].map(|()| Box::pin(line.turn()));
        for waiting in [&mut second, &mut third, &mut fourth] {
            assert!(waiting.now_or_never().is_none());
        }
        assert!(line.try_turn().is_none());
        drop(second);
        assert_eq!(first.pass(Some(7)), None);
        assert!((&mut fourth).now_or_never().is_none());
        // The turn came, and was dropped unseen: so it goes on, with its value.
        drop(third);
        let fourth = fourth.now_or_never().unwrap();
        assert_eq!(fourth.left, Some(7));
        assert_eq!(fourth.pass(Some(8)), Some(8));
        assert!(line.try_turn().is_some());
    }

    #[tokio::test]
    async fn a_silent_head_stops_the_line() {
        let line = Line::<()>::new(Flaw::SilentHead);
        drop(line.turn().await);
        assert!(line.try_turn().is_none());
        let line = Line::<()>::new(Flaw::QueueIgnored);
        let first = line.turn().await;
        let [mut second, mut third] = [(); 2].map(|()| Box::pin(line.turn()));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        first.pass(None);
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_some());
    }
}
