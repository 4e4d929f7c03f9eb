//! Several keys at once, in one step of the store's.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use lock_core::{Acquire, Attempt, Error, ErrorKind, Mode};
use tokio::time::timeout;

use super::command::Command;
use super::driver::Flight;
use super::machine::Entered;
use super::queue::WaiterId;
use super::running::panic_message;
use super::{Denial, Entry, Hold, Home, Patience, Running, Shared, Ticket};

/// A try for several keys that does not wait for a holder of one of them.
///
/// Dropping it passes on what it has got by then, and sees to it that what is still under way goes back.
pub(crate) struct Gathering {
    places: Vec<Place>,
    denial: Option<Denial>,
    /// The store can or will not grant these keys in one step.
    unable: Arc<AtomicBool>,
}

struct Place {
    entry: Arc<Entry>,
    standing: Standing,
}

enum Standing {
    Waiting(WaiterId),
    Held(Hold),
    Gone,
}

impl Gathering {
    /// Asks for all of these keys, of which no two may be the same.
    pub(crate) fn begin<'e>(
        entries: impl IntoIterator<Item = &'e Arc<Entry>>,
    ) -> Result<Self, Denial> {
        let mut entries = entries.into_iter().peekable();
        let mut gathering = Self { places: Vec::new(), denial: None, unable: Arc::default() };
        let Some(first) = entries.peek() else { return Ok(gathering) };
        let shared = Arc::clone(first.shared());
        shared.start().map_err(Denial::Failed)?;
        let mut asked = Vec::new();
        for entry in entries {
            let standing =
                match entry.enter(Mode::Exclusive, Patience::Try, shared.manner, &mut None) {
                    Entered::Done(Ok(ticket)) => Standing::Held(hold(entry, ticket)),
                    Entered::Done(Err(denial)) => {
                        drop(gathering);
                        refuse(asked);
                        return Err(denial);
                    }
                    Entered::Queued(id) => Standing::Waiting(id),
                    Entered::Attempt(id, request) => {
                        asked.push((Arc::clone(entry), request));
                        Standing::Waiting(id)
                    }
                };
            gathering.places.push(Place { entry: Arc::clone(entry), standing });
        }
        gathering.ask(shared, asked);
        Ok(gathering)
    }

    /// Asks the store for those that are not in this process already.
    fn ask(&self, shared: Arc<Shared>, mut asked: Asked) {
        let command = match asked.pop() {
            None => return,
            Some((entry, request)) if asked.is_empty() => {
                Command::Run(Running::attempt(&entry, request, Home::Driver))
            }
            Some(last) => {
                asked.push(last);
                let flight = shared.flights.begin();
                let unable = Arc::clone(&self.unable);
                let shared = Arc::clone(&shared);
                Command::Together(Together { shared, asked, unable, _flight: flight })
            }
        };
        shared.send(command);
    }

    /// All of the holds, in the order of the keys; or why one of them could not be had, once it is known
    /// of every one.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<Hold>, Denial>> {
        let mut waits = false;
        for Place { entry, standing } in &mut self.places {
            let Standing::Waiting(id) = *standing else { continue };
            match entry.poll(id, context) {
                Poll::Pending => waits = true,
                Poll::Ready(Ok(ticket)) => *standing = Standing::Held(hold(entry, ticket)),
                Poll::Ready(Err(denial)) => {
                    *standing = Standing::Gone;
                    self.denial.get_or_insert(denial);
                }
            }
        }
        // What is still under way must not be taken for the answer to a later request.
        if waits {
            return Poll::Pending;
        }
        if let Some(denial) = self.denial.take() {
            return Poll::Ready(Err(denial));
        }
        let places = std::mem::take(&mut self.places);
        let holds = places.into_iter().filter_map(|place| match place.standing {
            Standing::Held(hold) => Some(hold),
            Standing::Waiting(_) | Standing::Gone => None,
        });
        let holds: Vec<_> = holds.collect();
        // One that came at once may be over before the last has come.
        let valid = holds.iter().all(|hold| hold.check().is_ok());
        Poll::Ready(if valid { Ok(holds) } else { Err(Denial::WouldBlock) })
    }

    /// Whether it was denied only because the store can or will not grant these keys in one step.
    pub(crate) fn is_unable(&self) -> bool {
        self.unable.load(Ordering::Acquire)
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        for Place { entry, standing } in &self.places {
            if let Standing::Waiting(id) = *standing {
                entry.cancel(id, entry.shared.manner);
            }
        }
    }
}

fn hold(entry: &Arc<Entry>, ticket: Ticket) -> Hold {
    Hold::new(Arc::clone(entry), ticket, Mode::Exclusive, entry.shared.manner)
}

/// One request for leases of several keys.
///
/// The driver has it from the start, so that its answer reaches every key whatever becomes of the task
/// that waits for it.
pub(crate) struct Together {
    shared: Arc<Shared>,
    asked: Asked,
    unable: Arc<AtomicBool>,
    _flight: Flight,
}

type Asked = Vec<(Arc<Entry>, Acquire)>;

impl Together {
    /// Runs the request to its end, for no longer than there can be something to gain by it.
    pub(crate) async fn run(mut self) {
        let requests: Vec<_> = self.asked.iter().map(|(_, request)| request.clone()).collect();
        let limit = self.shared.policy.ttl.duration();
        let backend = Arc::clone(&self.shared.backend);
        let request = AssertUnwindSafe(backend.acquire_together(&requests)).catch_unwind();
        let answer = match timeout(limit, request).await {
            Ok(Ok(answer)) => answer,
            // A backend that panics must not take the locks with it.
            Ok(Err(panic)) => Err(Error::new(ErrorKind::Other, panic_message(&*panic))),
            Err(_) => Err(Error::new(ErrorKind::Timeout, format!("no answer within {limit:?}"))),
        };
        self.report(answer);
    }

    fn report(&mut self, answer: Result<Option<Vec<Attempt>>, Error>) {
        let asked = std::mem::take(&mut self.asked);
        match answer {
            Ok(Some(attempts)) if attempts.len() == asked.len() => {
                for ((entry, request), attempt) in asked.into_iter().zip(attempts) {
                    entry.attempt_done(&request.claim, Ok(free_at_once(attempt)));
                }
            }
            // They may all be held: each key finds out for itself.
            Err(error) if error.is_retryable() => {
                for (entry, request) in asked {
                    entry.attempt_done(&request.claim, Err(error.clone()));
                }
            }
            // Nothing was granted. It is not the fault of every key, so those who wait for only one of
            // them must not hear of it.
            Ok(_) | Err(_) => {
                self.unable.store(true, Ordering::Release);
                refuse(asked);
            }
        }
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        if !self.asked.is_empty() {
            // The leases, if there are any, end by themselves.
            let why = "the runtime of the driver has stopped";
            self.report(Err(Error::new(ErrorKind::ShuttingDown, why)));
        }
    }
}

/// Takes back requests that were not sent.
fn refuse(asked: Asked) {
    for (entry, request) in asked {
        let free = Attempt::Busy { retry_after: None };
        entry.attempt_done(&request.claim, Ok(free_at_once(free)));
    }
}

/// A key that was refused without a time was free: whoever else waits for it here should ask at once.
fn free_at_once(attempt: Attempt) -> Attempt {
    match attempt {
        Attempt::Busy { retry_after: None } => Attempt::Busy { retry_after: Some(Duration::ZERO) },
        answer => answer,
    }
}
