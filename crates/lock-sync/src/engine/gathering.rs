//! Several keys at once, in one step of the store.

use std::sync::Arc;
use std::task::{Context, Poll};

use lock_core::Mode;

use super::command::Command;
use super::gate::Way;
use super::machine::Entrance;
use super::observed::Begun;
use super::queue::WaiterId;
use super::together::{Asked, Together, refuse};
use super::{Asks, Denial, Entry, Hold, Home, Patience, Running, Shared, Ticket};
use crate::sync::atomic::{AtomicBool, Ordering};

/// A try for several keys. It does not wait for a holder of any of them.
///
/// Dropping it gives up the holds that it has by then. A grant that comes later is released.
pub(crate) struct Gathering {
    tries: Vec<KeyTry>,
    denial: Option<Denial>,
    /// Whether the store cannot, or does not want to, grant these keys in one step.
    unable: Arc<AtomicBool>,
}

/// The try for one of the keys.
struct KeyTry {
    entry: Arc<Entry>,
    standing: Standing,
    /// Until the standing is known, if there are observers.
    begun: Option<Begun>,
}

impl KeyTry {
    fn new(entry: &Arc<Entry>) -> Self {
        let begun = entry.observed.as_ref().and_then(|it| Begun::new(it, Mode::Exclusive));
        Self { entry: Arc::clone(entry), standing: Standing::Gone, begun }
    }

    /// The try has its outcome. Returns the denial, if the outcome is one.
    fn answered(&mut self, outcome: Result<Ticket, Denial>) -> Option<Denial> {
        let begun = self.begun.take();
        match outcome {
            Ok(ticket) => {
                self.standing = Standing::Held(hold(&self.entry, ticket, begun));
                None
            }
            Err(denial) => {
                if let (Some(begun), Some(observed)) = (begun, &self.entry.observed) {
                    begun.denied(observed, &denial);
                }
                self.standing = Standing::Gone;
                Some(denial)
            }
        }
    }
}

enum Standing {
    Waiting(WaiterId),
    Held(Hold),
    Gone,
}

impl Gathering {
    /// Asks for all of these keys, which must be different.
    pub(crate) fn begin<'e>(
        entries: impl IntoIterator<Item = &'e Arc<Entry>>,
    ) -> Result<Self, Denial> {
        let mut entries = entries.into_iter().peekable();
        let mut gathering = Self { tries: Vec::new(), denial: None, unable: Arc::default() };
        let Some(first) = entries.peek() else { return Ok(gathering) };
        let shared = Arc::clone(first.shared());
        shared.start().map_err(Denial::Failed)?;
        let mut asked = Vec::new();
        for entry in entries {
            let mut one = KeyTry::new(entry);
            match entry.enter(Mode::Exclusive, Patience::Try, shared.manner) {
                Entrance::Done(outcome) => {
                    if let Some(denial) = one.answered(outcome) {
                        drop(gathering);
                        refuse(asked);
                        return Err(denial);
                    }
                }
                Entrance::Queued(id) => one.standing = Standing::Waiting(id),
                Entrance::Attempt(id, request) => {
                    asked.push((Arc::clone(entry), request));
                    one.standing = Standing::Waiting(id);
                }
            }
            gathering.tries.push(one);
        }
        gathering.ask(shared, asked);
        Ok(gathering)
    }

    /// Asks the store for the keys of which this process has no lease.
    fn ask(&self, shared: Arc<Shared>, mut asked: Asked<Entry>) {
        let command = match asked.pop() {
            None => return,
            Some((entry, request)) if asked.is_empty() => {
                Command::Run(Running::attempt(&entry, request, Home::Driver))
            }
            Some(last) => {
                asked.push(last);
                Command::Together(Together::new(&shared, asked, &self.unable))
            }
        };
        shared.send(command);
    }

    /// All holds, in the order of the keys, or the reason why one of them was denied. Ready once every key has its
    /// outcome.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<Hold>, Denial>> {
        let mut waits = false;
        for one in &mut self.tries {
            let Standing::Waiting(id) = one.standing else { continue };
            match one.entry.poll(id, context) {
                Poll::Pending => waits = true,
                Poll::Ready(outcome) => {
                    if let Some(denial) = one.answered(outcome) {
                        self.denial.get_or_insert(denial);
                    }
                }
            }
        }
        // Even after a denial it waits for the other answers: one of them must not be taken for the answer to a later
        // request.
        if waits {
            return Poll::Pending;
        }
        if let Some(denial) = self.denial.take() {
            return Poll::Ready(Err(denial));
        }
        let tries = std::mem::take(&mut self.tries);
        let holds = tries.into_iter().filter_map(|one| match one.standing {
            Standing::Held(hold) => Some(hold),
            Standing::Waiting(_) | Standing::Gone => None,
        });
        let holds: Vec<_> = holds.collect();
        // The first hold may be over before the last one has come.
        let valid = holds.iter().all(|hold| hold.check().is_ok());
        Poll::Ready(if valid { Ok(holds) } else { Err(Denial::WouldBlock) })
    }

    /// Whether the keys were denied only because the store cannot, or does not want to, grant them in one step.
    pub(crate) fn is_unable(&self) -> bool {
        self.unable.load(Ordering::Acquire)
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        for KeyTry { entry, standing, begun } in &mut self.tries {
            if let Standing::Waiting(id) = *standing {
                entry.cancel(id, entry.shared.manner);
            }
            if let (Some(begun), Some(observed)) = (begun.take(), &entry.observed) {
                begun.abandoned(observed);
            }
        }
    }
}

fn hold(entry: &Arc<Entry>, ticket: Ticket, begun: Option<Begun>) -> Hold {
    let way = Way::Ticket(ticket);
    let told = entry.observed.as_ref().and_then(|observed| observed.grants(begun, &way));
    let permits = Mode::Exclusive.permits();
    Hold::new(Arc::clone(entry), way.into(), permits, entry.shared.manner, told)
}
