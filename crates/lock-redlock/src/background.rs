//! Where everything runs that no caller waits for.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, ErrorKind, runtime};
use tokio::runtime::{EnterGuard, Handle, RuntimeFlavor};
use tokio::sync::{mpsc, watch};

/// A runtime of this quorum's own, on a thread that ends when nobody needs it any more; or another's.
#[derive(Debug)]
pub(crate) struct Background {
    runtime: Handle,
    /// Ends when the last handle goes.
    open: watch::Receiver<()>,
    /// The thread listens for the end of this, and hears nothing else.
    _thread: Option<mpsc::Sender<()>>,
}

/// Held by the handles: what runs for as long as there is one ends with the last.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    _sender: Arc<watch::Sender<()>>,
}

impl Background {
    /// On this runtime, or on a thread of its own.
    pub(crate) fn start(runtime: Option<Handle>) -> Result<(Self, Open), Error> {
        let (sender, open) = watch::channel(());
        let (runtime, thread) = match runtime {
            Some(runtime) => (runtime, None),
            None => {
                let (alive, mut ended) = mpsc::channel(1);
                let until_ended = async move { _ = ended.recv().await };
                let runtime =
                    runtime::spawn_thread("lock-redlock", until_ended).map_err(|error| {
                        let message = "could not start the thread of the quorum";
                        Error::with_source(ErrorKind::Other, message, error)
                    })?;
                (runtime, Some(alive))
            }
        };
        let background = Self { runtime, open, _thread: thread };
        Ok((background, Open { _sender: Arc::new(sender) }))
    }

    /// Runs something to its end, which must come by itself.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Runs something that must come to an end by itself, on the runtime of whoever calls if that has threads of
    /// its own: then no other thread is woken. If that runtime ends, so does what is run, and is dropped.
    pub(crate) fn spawn_near(&self, work: impl Future<Output = ()> + Send + 'static) {
        let near = Handle::try_current();
        let near = near.ok().filter(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
        near.as_ref().unwrap_or(&self.runtime).spawn(work);
    }

    /// Runs something for as long as there is a handle.
    pub(crate) fn spawn_while_open(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut open = self.open.clone();
        self.runtime.spawn(async move {
            tokio::select! {
                () = work => {}
                _closed = open.changed() => {}
            }
        });
    }

    /// Whether there is a handle.
    pub(crate) fn is_open(&self) -> bool {
        self.open.has_changed().is_ok()
    }

    /// Makes timers work on a thread that has no runtime, for as long as the guard lives.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        Handle::try_current().is_err().then(|| self.runtime.enter())
    }
}

/// Sleeps on whichever runtime drives the timers here.
pub(crate) async fn pause(background: &Background, time: Duration) {
    let sleep = {
        let _entered = background.enter();
        tokio::time::sleep(time)
    };
    sleep.await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_ends_with_the_last_handle() {
        let (background, open) = Background::start(None).unwrap();
        let another = open.clone();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        background.spawn_while_open(async move {
            let _held = sender;
            std::future::pending::<()>().await;
        });
        drop(open);
        assert!(background.is_open());
        drop(another);
        // The sender goes with the task.
        assert!(receiver.recv().is_err());
        assert!(!background.is_open());
    }

    #[test]
    fn what_has_an_end_comes_to_it() {
        let (background, open) = Background::start(None).unwrap();
        drop(open);
        let (sender, receiver) = std::sync::mpsc::channel();
        background.spawn(async move {
            tokio::task::yield_now().await;
            let _received = sender.send(7);
        });
        assert_eq!(receiver.recv(), Ok(7));
    }
}
