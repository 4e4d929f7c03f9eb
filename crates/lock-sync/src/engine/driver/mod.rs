//! The driver runs everything that must not depend on the tasks that use the locks: renewals, releases of dropped
//! guards, requests whose task went away, watches and timers.
//!
//! By default it runs on a thread of its own. So a blocked executor does not end a lease, and a runtime that shuts
//! down does not keep a lock.

mod flights;
mod health;
mod timers;

use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use lock_core::{Error, ErrorKind, runtime};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::foreign::survive;

pub(crate) use flights::{Flight, Flights};
pub(crate) use timers::{Timed, Timers};

/// Something for the driver to do. Sending it never blocks, never panics and returns no error, because `Drop` sends
/// errands.
pub(crate) trait Errand: Send + 'static {
    /// Begins the errand, on the driver.
    fn begin(self);

    /// Handles an errand that comes after the driver has gone. This is called at once, on the sender's thread, so the
    /// sender must not hold the lock of an entry.
    fn refuse(self);
}

/// A handle to the driver.
pub(crate) struct Driver<C> {
    runtime: Handle,
    commands: UnboundedSender<C>,
}

impl<C: Errand> Driver<C> {
    /// Starts a driver on this runtime, or on a thread of its own. The driver also polls `beside` while it works, and
    /// calls `gone` when it ends, for whatever reason.
    pub(crate) fn start(
        runtime: Option<Handle>,
        timers: &Arc<Timers<impl Timed>>,
        flights: &Arc<Flights>,
        beside: impl Future<Output = ()> + Send + 'static,
        gone: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        let (sender, commands) = unbounded_channel::<C>();
        let (timers, flights) = (Arc::clone(timers), Arc::clone(flights));
        let driver = run(Obituary(Some(gone)), commands, timers, flights, beside);
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

    /// Whether the driver still takes errands.
    pub(crate) fn is_running(&self) -> bool {
        !self.commands.is_closed()
    }

    /// Sends an errand. The caller must not hold the lock of an entry: see [`Errand::refuse`].
    pub(crate) fn send(&self, errand: C) {
        if let Err(refused) = self.commands.send(errand) {
            refused.0.refuse();
        }
    }
}

/// How many commands the driver begins before it looks at the timers again.
const AT_ONCE: usize = 4096;

/// Works until every handle is gone, and then until no request is under way.
///
/// The first parameter is dropped last: when it says that the driver has gone, the driver no longer takes commands.
async fn run(
    _obituary: Obituary<impl FnOnce()>,
    mut commands: UnboundedReceiver<impl Errand>,
    timers: Arc<Timers<impl Timed>>,
    flights: Arc<Flights>,
    beside: impl Future<Output = ()>,
) {
    let mut batch = Vec::new();
    let mut health = timers.health();
    let mut beside = pin!(beside.fuse());
    loop {
        tokio::select! {
            count = commands.recv_many(&mut batch, AT_ONCE) => match count {
                0 => break,
                // All commands of one look at the timers begin at once, with no other task in between, so that
                // a backend can send their requests together.
                _ => batch.drain(..).for_each(|command| survive(|| command.begin())),
            },
            due = timers.due(&mut health) => {
                due.into_iter().for_each(|entry| survive(|| entry.tick()));
            }
            () = &mut beside => {}
        }
    }
    flights.all_landed().await;
}

/// Calls back when the driver ends, for whatever reason.
struct Obituary<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Obituary<F> {
    fn drop(&mut self) {
        if let Some(gone) = self.0.take() {
            gone();
        }
    }
}
