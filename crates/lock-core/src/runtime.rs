//! A thread with a runtime, for work that must not depend on the runtime of an app: [`Thread`] for the work of a
//! client, [`spawn_thread`] for one future.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use futures::channel::oneshot;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinError;

use crate::{Error, ErrorKind};

/// The thread of a client. The thread runs requests to their end, also if their futures are dropped. When this value is
/// dropped, the thread ends.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_core::runtime::Thread;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let thread = Thread::start("lock-example", async {})?;
/// thread.spawn(async { println!("the connection is open") });
/// let answer = thread.run(async {
///     tokio::time::sleep(Duration::from_millis(1)).await;
///     Ok(42)
/// });
/// assert_eq!(answer.await?, 42);
/// thread.timer(Duration::from_millis(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Thread {
    handle: Handle,
    /// The thread ends when this is dropped.
    _alive: oneshot::Sender<()>,
}

impl Thread {
    /// Starts a thread with this name. The thread runs `farewell` when this value is dropped, and ends with it.
    ///
    /// # Errors
    ///
    /// If the system has no resources for a runtime or for a thread.
    pub fn start(
        name: &str,
        farewell: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Self, Error> {
        let (alive, ended) = oneshot::channel::<()>();
        let work = async move {
            let _dropped = ended.await;
            farewell.await;
        };
        let handle = spawn_thread(name, work).map_err(|error| {
            Error::with_source(ErrorKind::Other, "no thread for the client", error)
        })?;
        Ok(Self { handle, _alive: alive })
    }

    /// Runs work beside the requests.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Starts a request at once. The future waits for its outcome.
    ///
    /// # Errors
    ///
    /// Those of the request; [`ShuttingDown`](ErrorKind::ShuttingDown) if the thread has ended; and
    /// [`Other`](ErrorKind::Other) if the request panicked. Later requests run in spite of the panic.
    ///
    /// # Cancel safety
    ///
    /// The request goes on if this future is dropped, also before its first poll.
    pub fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> impl Future<Output = Result<T, Error>> + Send {
        // Spawned here and not inside the future: there the request would be moved once more, and it may have many bytes.
        let running = self.handle.spawn(request);
        async move { running.await.unwrap_or_else(|error| Err(unfinished(error))) }
    }

    /// Ends after this time, which begins with the first poll. The runtime of the caller needs no timers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub fn timer(&self, time: Duration) -> impl Future<Output = ()> + Send + use<> {
        let handle = self.handle.clone();
        async move {
            _ = handle.spawn(async move { tokio::time::sleep(time).await }).await;
        }
    }
}

/// Why a request has no outcome.
fn unfinished(error: JoinError) -> Error {
    match error.try_into_panic() {
        Ok(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words =
                words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words");
            Error::new(ErrorKind::Other, format!("a request has panicked in the client: {words}"))
        }
        Err(error) => {
            let message = "the thread of the client has ended";
            Error::with_source(ErrorKind::ShuttingDown, message, error)
        }
    }
}

/// Runs `work` on a runtime of its own, on a thread with this name. Both end with the work.
///
/// # Errors
///
/// If the system has no resources for a runtime or for a thread.
///
/// # Examples
///
/// ```
/// let (tell, told) = std::sync::mpsc::channel();
/// lock_core::runtime::spawn_thread("background", async move {
///     tokio::time::sleep(std::time::Duration::from_millis(1)).await;
///     tell.send("done").ok();
/// })?;
/// assert_eq!(told.recv(), Ok("done"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn spawn_thread(
    name: &str,
    work: impl Future<Output = ()> + Send + 'static,
) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    // If the thread cannot be spawned, the runtime must not be dropped here, because the caller may be inside
    // another runtime.
    let slot = Arc::new(Mutex::new(Some(runtime)));
    let taken = Arc::clone(&slot);
    let run = move || {
        if let Some(runtime) = take(&taken) {
            runtime.block_on(work);
        }
    };
    if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(run) {
        if let Some(runtime) = take(&slot) {
            runtime.shutdown_background();
        }
        return Err(error);
    }
    Ok(handle)
}

fn take(slot: &Mutex<Option<Runtime>>) -> Option<Runtime> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_request_goes_on_without_its_caller() {
        let thread = Thread::start("a name", async {}).unwrap();
        let (go, may_go) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        drop(thread.run(async {
            let _ = may_go.await;
            _ = tell.send("done");
            Ok(())
        }));
        drop(go);
        assert_eq!(told.await, Ok("done"));
    }

    #[tokio::test]
    async fn a_request_that_panics_says_so_and_the_thread_goes_on() {
        let thread = Thread::start("a name", async {}).unwrap();
        let error = thread.run::<()>(async { panic!("no such {}", "case") }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other);
        assert!(error.to_string().ends_with("no such case"), "{error}");
        assert_eq!(thread.run(async { Ok(7) }).await, Ok(7));
    }

    #[tokio::test]
    async fn a_thread_that_is_dropped_runs_its_farewell_and_ends() {
        let (tell, told) = oneshot::channel();
        let thread = Thread::start("a name", async {
            _ = tell.send(());
        });
        let thread = thread.unwrap();
        thread.timer(Duration::from_millis(1)).await;
        let mut late = Box::pin(thread.timer(Duration::from_secs(600)));
        assert!(late.as_mut().now_or_never().is_none());
        let handle = thread.handle.clone();
        drop(thread);
        assert_eq!(told.await, Ok(()));
        // The thread drops the work that it still has.
        late.await;
        let ended = Thread { handle, _alive: oneshot::channel().0 };
        let error = ended.run(async { Ok(()) }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ShuttingDown);
    }

    #[test]
    fn the_work_runs_on_the_thread_and_the_thread_ends_with_it() {
        let (end, ended) = oneshot::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let handle = spawn_thread("a name", async move {
            let name = thread::current().name().map(str::to_owned);
            sender.send(name).unwrap();
            let _ = ended.await;
        });
        let handle = handle.unwrap();
        assert_eq!(receiver.recv().unwrap().as_deref(), Some("a name"));
        let spawned = handle.spawn(std::future::pending::<()>());
        drop(end);
        // The runtime drops the tasks that it still has.
        while !spawned.is_finished() {
            thread::yield_now();
        }
    }
}
