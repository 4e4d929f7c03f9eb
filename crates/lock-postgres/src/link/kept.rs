//! A connection that is opened when a request needs it, and again after its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt, Shared};
use lock_core::Error;

use super::Attempts;
use crate::failure;

/// A connection that may be over.
pub(crate) trait Lasting: Send + Sync + 'static {
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

type Opening<T> = Shared<BoxFuture<'static, Result<Arc<T>, Error>>>;

impl<T: Lasting> Kept<T> {
    pub(crate) fn new() -> Self {
        let state = State { current: None, opening: None, attempts: Attempts::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The connection, if it is open.
    pub(crate) fn current(&self) -> Option<Arc<T>> {
        lock(&self.0).current.as_ref().filter(|it| !it.is_over()).cloned()
    }

    /// The connection, which `open` opens if there is none and the pause after the last failure is over. `open` may
    /// refuse.
    pub(crate) async fn or_open<O>(
        &self,
        open: impl FnOnce() -> Result<O, Error>,
    ) -> Result<Arc<T>, Error>
    where
        O: Future<Output = Result<Arc<T>, Error>> + Send + 'static,
    {
        let opening = {
            let mut state = lock(&self.0);
            if let Some(current) = state.current.as_ref().filter(|it| !it.is_over()) {
                return Ok(Arc::clone(current));
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
        let state = Arc::clone(&self.0);
        let opening = tokio::spawn(async move {
            let opened = open.await;
            {
                let mut state = lock(&state);
                state.opening = None;
                state.attempts.note(&opened);
                state.current = opened.as_ref().ok().cloned();
            }
            if let Err(error) = &opened {
                tracing::debug!(%error, "no connection to the database");
            }
            opened
        });
        opening.map(|joined| joined.unwrap_or_else(|_| Err(failure::timeout()))).boxed().shared()
    }

    /// Gives up this connection. Returns whether it was the current one.
    pub(crate) fn leave(&self, used: &Arc<T>) -> bool {
        lock(&self.0).current.take_if(|current| Arc::ptr_eq(current, used)).is_some()
    }
}

fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
