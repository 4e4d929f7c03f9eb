//! A connection that is opened when a request needs it, and again after its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt, Shared};
use lock_core::{Error, ErrorKind};

use super::Attempts;

/// A connection that may end.
pub(crate) trait MayEnd: Send + Sync + 'static {
    /// Whether the connection is of no more use.
    fn is_over(&self) -> bool;
}

/// One connection at a time, and one attempt to open it. The attempt is a task of its own: it goes on after its
/// request was given up, and observers hear of it under no lock.
pub(crate) struct Kept<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    current: Option<Arc<T>>,
    /// The attempt that is under way.
    opening: Option<Opening<T>>,
    attempts: Attempts,
}

impl<T: MayEnd> State<T> {
    fn current(&self) -> Option<Arc<T>> {
        self.current.as_ref().filter(|it| !it.is_over()).cloned()
    }
}

type Opening<T> = Shared<BoxFuture<'static, Result<Arc<T>, Error>>>;

impl<T: MayEnd> Kept<T> {
    pub(crate) fn new() -> Self {
        let state = State { current: None, opening: None, attempts: Attempts::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The connection, if it is open.
    pub(crate) fn current(&self) -> Option<Arc<T>> {
        lock(&self.0).current()
    }

    /// The connection, which `open` opens if there is none and the pause after the last failure is over. `open` may
    /// refuse.
    pub(crate) async fn get_or_open<O>(
        &self,
        open: impl FnOnce() -> Result<O, Error>,
    ) -> Result<Arc<T>, Error>
    where
        O: Future<Output = Result<Arc<T>, Error>> + Send + 'static,
    {
        let opening = {
            let mut state = lock(&self.0);
            if let Some(current) = state.current() {
                return Ok(current);
            }
            state.current = None;
            match state.opening.clone() {
                Some(opening) => opening,
                None => {
                    state.attempts.check()?;
                    state.opening.insert(self.start(open()?)).clone()
                }
            }
        };
        opening.await
    }

    fn start<O>(&self, open: O) -> Opening<T>
    where
        O: Future<Output = Result<Arc<T>, Error>> + Send + 'static,
    {
        let attempt = Attempt(Arc::clone(&self.0));
        let opening = tokio::spawn(async move {
            let opened = open.await;
            attempt.ends(&opened);
            if let Err(error) = &opened {
                tracing::debug!(%error, "no connection to the database");
            }
            opened
        });
        opening.map(|joined| joined.unwrap_or_else(|_| Err(broken_off()))).boxed().shared()
    }

    /// Gives up this connection. Returns whether it was the current one.
    pub(crate) fn leave(&self, used: &Arc<T>) -> bool {
        lock(&self.0).current.take_if(|current| Arc::ptr_eq(current, used)).is_some()
    }
}

/// An attempt that is under way. If its task panics, or ends with its runtime, it has failed.
struct Attempt<T>(Arc<Mutex<State<T>>>);

impl<T> Attempt<T> {
    fn ends(&self, opened: &Result<Arc<T>, Error>) {
        let mut state = lock(&self.0);
        if state.opening.take().is_some() {
            state.attempts.note(opened);
            state.current = opened.as_ref().ok().cloned();
        }
    }
}

impl<T> Drop for Attempt<T> {
    fn drop(&mut self) {
        self.ends(&Err(broken_off()));
    }
}

fn broken_off() -> Error {
    Error::new(ErrorKind::Unreachable, "the attempt to connect to the database was broken off")
}

fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use futures::future::{join, poll_immediate};
    use tokio::sync::oneshot;

    use super::*;

    #[derive(Debug, Default)]
    struct Connection(AtomicBool);

    impl MayEnd for Connection {
        fn is_over(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    type Opened = Result<Arc<Connection>, Error>;

    /// Opens connections, and counts them.
    #[derive(Clone, Default)]
    struct Server(Arc<AtomicU32>);

    impl Server {
        fn open(&self) -> Result<impl Future<Output = Opened> + Send + use<>, Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(async { Ok(Arc::default()) })
        }

        fn opened(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn requests_share_one_attempt_and_one_connection() {
        let (kept, server) = (Kept::new(), Server::default());
        assert!(kept.current().is_none());
        let get = || kept.get_or_open(|| server.open());
        let (one, other) = join(get(), get()).await;
        assert!(Arc::ptr_eq(&one.unwrap(), &other.unwrap()));
        get().await.unwrap();
        assert_eq!(server.opened(), 1);
    }

    #[tokio::test]
    async fn a_connection_that_has_ended_or_was_given_up_is_opened_again() {
        let (kept, server) = (Kept::new(), Server::default());
        let get = || kept.get_or_open(|| server.open());
        let first = get().await.unwrap();
        first.0.store(true, Ordering::Relaxed);
        assert!(kept.current().is_none());
        let second = get().await.unwrap();
        assert!(!kept.leave(&first), "it was not the current one");
        assert!(kept.leave(&second));
        get().await.unwrap();
        assert_eq!(server.opened(), 3);
    }

    #[tokio::test]
    async fn an_attempt_goes_on_without_its_request() {
        let (kept, (answer, answered)) = (Kept::new(), oneshot::channel());
        let open = || Ok(async { answered.await.unwrap() });
        assert!(poll_immediate(kept.get_or_open(open)).await.is_none());
        answer.send(Ok(Arc::default())).unwrap();
        let server = Server::default();
        kept.get_or_open(|| server.open()).await.unwrap();
        assert_eq!(server.opened(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_panics_has_failed_and_another_one_follows() {
        let (kept, server) = (Kept::new(), Server::default());
        let panics = || Ok(async { panic!("a bug") });
        let error =
            kept.get_or_open::<BoxFuture<'static, Opened>>(|| panics().map(FutureExt::boxed));
        assert_eq!(error.await.unwrap_err().kind(), ErrorKind::Unreachable);
        // No attempt is made during the pause after a failure.
        let error = kept.get_or_open(|| server.open()).await.unwrap_err();
        assert_eq!((error.kind(), server.opened()), (ErrorKind::Unreachable, 0));
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        kept.get_or_open(|| server.open()).await.unwrap();
        assert_eq!(server.opened(), 1);
    }
}
