//! Hints on their way to watchers.

use futures::channel::mpsc::UnboundedSender;

use crate::Hint;

/// Hints that are written while the store is locked and sent after it is unlocked, because a waker may run
/// any code, even the `Drop` of another watch.
#[derive(Debug, Default)]
#[must_use = "the hints are sent by `send` alone"]
pub(super) struct Post(Vec<(UnboundedSender<Hint>, Hint)>);

impl Post {
    pub(super) fn add(&mut self, listener: &UnboundedSender<Hint>, hint: Hint) {
        self.0.push((listener.clone(), hint));
    }

    /// Sends all hints. A watch that was dropped in the meantime does not hear them.
    pub(super) fn send(self) {
        for (listener, hint) in self.0 {
            let _gone = listener.unbounded_send(hint);
        }
    }
}
