//! The driver: where everything lives that must not depend on the tasks that use the locks.
//!
//! Renewals, releases of dropped guards, requests whose task went away, watches and timers. It runs
//! on a thread of its own unless told otherwise, so that a blocked executor does not end a lease and
//! a runtime that shuts down does not keep a lock.

mod flights;
mod timers;

use std::sync::Arc;

use lock_core::{Error, ErrorKind, runtime};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::foreign::survive;

pub(crate) use flights::{Flight, Flights};
pub(crate) use timers::{Timed, Timers};

/// Something for the driver to do. Sending it never blocks and never fails loudly: `Drop` does it.
pub(crate) trait Errand: Send + 'static {
    /// Begins it, on the driver.
    fn begin(self);

    /// The driver has gone. This comes at once, on the sender's thread: the sender may hold no lock of an entry.
    fn refuse(self);
}

/// The way to the driver.
pub(crate) struct Driver<C> {
    runtime: Handle,
    commands: UnboundedSender<C>,
}

impl<C: Errand> Driver<C> {
    /// Starts a driver on this runtime, or on a thread of its own. It calls `gone` when it goes, in whatever way.
    pub(crate) fn start(
        runtime: Option<Handle>,
        timers: &Arc<Timers<impl Timed>>,
        flights: &Arc<Flights>,
        gone: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        let (sender, commands) = unbounded_channel::<C>();
        let driver = run(Obituary(Some(gone)), commands, Arc::clone(timers), Arc::clone(flights));
        let runtime = match runtime {
            Some(runtime) => {
                runtime.spawn(driver);
                runtime
            }
            None => runtime::spawn_thread("lock-driver", driver).map_err(|error| {
                let message = "could not start the driver of the locks";
                Error::with_source(ErrorKind::Other, message, error)
            })?,
        };
        Ok(Self { runtime, commands: sender })
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Whether there is still somebody who listens.
    pub(crate) fn is_running(&self) -> bool {
        !self.commands.is_closed()
    }

    /// Sends an errand. The caller may hold no lock of an entry: see [`Errand::refuse`].
    pub(crate) fn send(&self, errand: C) {
        if let Err(refused) = self.commands.send(errand) {
            refused.0.refuse();
        }
    }
}

/// How many commands are carried out before the timers are looked at again.
const AT_ONCE: usize = 4096;

/// Works until every handle is gone, and then until nothing is under way.
///
/// What comes first is dropped last: whoever hears that the driver has gone finds nobody listening.
async fn run(
    _obituary: Obituary<impl FnOnce()>,
    mut commands: UnboundedReceiver<impl Errand>,
    timers: Arc<Timers<impl Timed>>,
    flights: Arc<Flights>,
) {
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            count = commands.recv_many(&mut batch, AT_ONCE) => match count {
                0 => break,
                // What one look at the timers leads to begins at once, with no other task in between: a
                // backend can send it together.
                _ => batch.drain(..).for_each(|command| survive(|| command.begin())),
            },
            due = timers.due() => {
                due.into_iter().for_each(|entry| survive(|| entry.tick()));
            }
        }
    }
    flights.all_landed().await;
}

/// Says that the driver has gone, in whatever way it did.
struct Obituary<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Obituary<F> {
    fn drop(&mut self) {
        if let Some(gone) = self.0.take() {
            gone();
        }
    }
}
