//! How a handle declares its number of permits, and what else comes before a wait for permits.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use lock_core::{Error, ErrorKind, PermitBackend, Resize};

use super::Semaphore;
use super::declaration::{Declaration, Declaring};
use crate::bare::{BareLock, Denial, Known, Limit, Retries};

impl Semaphore {
    /// Sets what happens if another number of permits was declared before for this name. The default is
    /// [`Declaration::Refuse`].
    ///
    /// With [`Declaration::LastWins`], the first call of this handle that asks the store first declares the number,
    /// with one more request. The number then applies to every process that uses the name, until another process
    /// declares another number. Keep the handle: each new handle declares its number again.
    ///
    /// If there are fewer permits than before, no holder loses its permits. The semaphore grants no permits until
    /// enough of them have come back. A request for more permits than there are now waits, and later requests wait
    /// behind it. The declaration undoes earlier changes by [`add_permits`](Self::add_permits) and
    /// [`forget_permits`](Self::forget_permits), unless it repeats the last declared number: a process that only
    /// restarts undoes no change.
    ///
    /// The [guide](crate::guide::resizing) describes a deployment.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Declaration, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let store = MemoryBackend::new();
    /// # let (old_locks, new_locks) = (Locks::new(store.client()), Locks::new(store.client()));
    /// // In the processes of the old version:
    /// let old = old_locks.semaphore("pool", 8)?;
    /// let permits = old.acquire_many(7).await?;
    ///
    /// // In the processes of the new version:
    /// let new = new_locks.semaphore("pool", 10)?.with_declaration(Declaration::LastWins);
    /// assert_eq!(new.available_permits().await?, 3);
    ///
    /// // The old processes go on, with the new number.
    /// assert_eq!(old.available_permits().await?, 3);
    /// # drop(permits);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_declaration(mut self, declaration: Declaration) -> Self {
        self.declaring = Arc::new(Declaring::new(declaration));
        self
    }

    /// Asks the store about this semaphore. Declares the number first if that is due, and again if the store has
    /// forgotten it.
    pub(super) async fn asking<'a, T>(
        &'a self,
        request: impl Fn() -> BoxFuture<'a, Result<T, Error>>,
    ) -> Result<T, Error> {
        if self.declaring.is_due() {
            self.declare().await?;
        }
        match self.lock.ask_about(request()).await {
            Err(error) if self.declaring.cures(&error) => {
                // The error may have another cause, for example too many permits.
                let state = self.lock.ask(self.backend.permits(self.key(), self.declared)).await;
                if state.is_err_and(|error| self.declaring.cures(&error)) {
                    self.declare().await?;
                }
                self.lock.ask(request()).await
            }
            answer => answer,
        }
    }

    async fn declare(&self) -> Result<(), Error> {
        let request = self.backend.resize(self.key(), self.declared, Resize::Declare);
        self.lock.ask_about(request).await?;
        self.declaring.done();
        // Waiters of this process ask at once, without a hint of the store.
        self.lock.look_again();
        Ok(())
    }

    /// The declaration that is due before a request for permits.
    pub(super) fn first_declares(&self, limit: Limit, on_driver: bool) -> Option<Preface> {
        self.declaring.is_due().then(|| self.declares(limit, on_driver))
    }

    /// The declaration that is due before the next try, if this refusal is worth a next try.
    pub(super) fn declares_after(
        &self,
        refusal: &Denial,
        limit: Limit,
        on_driver: bool,
    ) -> Option<Preface> {
        let cures = matches!(refusal, Denial::Failed(error) if self.declaring.cures(error));
        cures.then(|| self.declares(limit, on_driver))
    }

    fn declares(&self, limit: Limit, on_driver: bool) -> Preface {
        let (backend, declaring) = (Arc::clone(&self.backend), Arc::clone(&self.declaring));
        let lock = self.lock_from(on_driver);
        self.preface(declare_patiently(backend, lock, self.declared, declaring, limit))
    }

    /// Asks whether the semaphore, which was closed for all, is open: another process may have destroyed it.
    pub(super) fn asks_again(&self, known: Known, limit: Limit, on_driver: bool) -> Preface {
        let (backend, of) = (Arc::clone(&self.backend), self.declared);
        let (lock, closed_for_all) = (self.lock_from(on_driver), Arc::clone(&self.closed_for_all));
        self.preface(async move {
            let asked = async {
                match lock.ask(backend.permits(lock.key(), of)).await {
                    Ok(state) if !state.closed => {
                        closed_for_all.learn(known, false);
                        Ok(())
                    }
                    Err(error) if error.kind() == ErrorKind::InvalidConfig => {
                        Err(Denial::Failed(error))
                    }
                    _ => Err(Denial::Closed),
                }
            };
            limit.bound(&lock, asked).await
        })
    }

    /// A preface with this work. It also ends when the handle is closed.
    fn preface(&self, work: impl Future<Output = Result<(), Denial>> + Send + 'static) -> Preface {
        let closing = Arc::clone(&self.closing);
        Preface(Mutex::new(
            async move {
                tokio::select! {
                    biased;
                    done = work => done,
                    () = closing.bell.listen() => Err(Denial::Closed),
                }
            }
            .boxed(),
        ))
    }

    /// The lock, for requests from the driver or from the task.
    fn lock_from(&self, driver: bool) -> BareLock {
        let lock = self.lock.clone();
        if driver { lock.on_driver() } else { lock }
    }

    /// Whether this handle may replace the declared number.
    pub(super) fn last_wins(&self) -> bool {
        self.declaring.last_wins()
    }
}

/// What comes before a wait for permits: a declaration of the number, or a question. The mutex is never locked: it
/// makes the future `Sync`.
pub(super) struct Preface(Mutex<BoxFuture<'static, Result<(), Denial>>>);

impl Preface {
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Denial>> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut().poll(context)
    }
}

/// Declares the number, for a wait with this limit.
async fn declare_patiently(
    backend: Arc<dyn PermitBackend>,
    lock: BareLock,
    of: u32,
    declaring: Arc<Declaring>,
    limit: Limit,
) -> Result<(), Denial> {
    let mut retries = Retries::new(&lock, limit);
    let declared = async {
        while let Err(error) = lock.ask(backend.resize(lock.key(), of, Resize::Declare)).await {
            retries.after(error).await?;
        }
        Ok(())
    };
    limit.bound(&lock, declared).await?;
    declaring.done();
    lock.look_again();
    Ok(())
}
