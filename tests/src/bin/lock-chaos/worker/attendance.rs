//! The tasks that are still at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts tasks at work, so that a caller can wait until there is none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attendance(Arc<Room>);

#[derive(Debug, Default)]
struct Room {
    present: AtomicUsize,
    closed: AtomicBool,
    empty: Notify,
}

/// A task at work, until this is dropped.
#[must_use = "a task is at work until this is dropped"]
#[derive(Debug)]
pub(crate) struct Presence(Arc<Room>);

impl Attendance {
    /// `None` while it is closed.
    pub(crate) fn enter(&self) -> Option<Presence> {
        self.0.present.fetch_add(1, Ordering::SeqCst);
        let presence = Presence(Arc::clone(&self.0));
        if self.0.closed.load(Ordering::SeqCst) { None } else { Some(presence) }
    }

    /// Closes it, so that no task can enter, or opens it again.
    pub(crate) fn close(&self, closed: bool) {
        self.0.closed.store(closed, Ordering::SeqCst);
    }

    /// Waits until no task is at work.
    pub(crate) async fn emptied(&self) {
        loop {
            let mut empty = std::pin::pin!(self.0.empty.notified());
            // Before the check, so that a task that leaves in between is noticed.
            empty.as_mut().enable();
            if self.0.present.load(Ordering::SeqCst) == 0 {
                return;
            }
            empty.await;
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        if self.0.present.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.empty.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_attendance_is_empty_after_the_last_guest_and_admits_none_when_closed() {
        let attendance = Attendance::default();
        attendance.emptied().await;
        let present = [attendance.enter(), attendance.enter()];
        attendance.close(true);
        assert!(present.iter().all(Option::is_some) && attendance.enter().is_none());
        let waiting = tokio::spawn({
            let attendance = attendance.clone();
            async move { attendance.emptied().await }
        });
        let [one, other] = present;
        tokio::task::yield_now().await;
        drop(one);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        std::thread::spawn(move || drop(other)).join().unwrap();
        waiting.await.unwrap();
        attendance.close(false);
        assert!(attendance.enter().is_some());
    }
}
