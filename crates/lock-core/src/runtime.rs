//! A thread with a runtime, for work that must not depend on the runtime of an app: see [`spawn_thread`].

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};

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
    use tokio::sync::oneshot;

    use super::*;

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
