//! A thread with a runtime, for a part of the kit that no test can starve.

use std::io;
use std::thread::{Builder, JoinHandle};

use tokio::runtime;
use tokio::sync::oneshot;

/// A future that runs on a thread and a runtime of its own. The drop of this value ends the future and all tasks that it
/// has spawned, and waits until they have ended.
#[derive(Debug)]
pub(crate) struct Service {
    alive: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Runs the future that `begin` returns. The caller runs `begin`, which can bind sockets of the runtime.
    ///
    /// # Errors
    ///
    /// Those of `begin`, and if there is no runtime or no thread.
    pub(crate) fn start<F>(
        name: impl Into<String>,
        begin: impl FnOnce() -> io::Result<F>,
    ) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let work = {
            let _inside = runtime.enter();
            begin()?
        };
        let (alive, ended) = oneshot::channel::<()>();
        let thread = Builder::new().name(name.into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = work => {}
                    _ = ended => {}
                }
            });
        })?;
        Ok(Self { alive: Some(alive), thread: Some(thread) })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};

    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn the_tasks_of_a_service_end_before_its_drop_returns() {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let begin = || {
            let listener = TcpListener::from_std(listener)?;
            Ok(async move {
                tokio::spawn(async move { while listener.accept().await.is_ok() {} });
                std::future::pending().await
            })
        };
        let service = Service::start("a service of a test", begin).unwrap();
        assert!(TcpStream::connect(addr).is_ok());
        drop(service);
        assert!(TcpStream::connect(addr).is_err());
    }
}
