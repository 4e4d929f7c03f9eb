//! The driver: where everything lives that must not depend on the tasks that use the locks.
//!
//! Renewals, releases of dropped guards, requests whose task went away, watches and timers. It runs
//! on a thread of its own unless told otherwise, so that a blocked executor does not end a lease and
//! a runtime that shuts down does not keep a lock.

mod flights;
mod forget;
mod timers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lock_core::{Claim, Error, ErrorKind};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

pub(crate) use flights::{Flight, Flights};
pub(crate) use timers::Timers;

use crate::engine::{Entry, Running, Together};
use crate::locks::Shared;

/// Something for the driver to do. Sending it never blocks and never fails loudly: `Drop` does it.
pub(crate) enum Command {
    /// Run this request to its end.
    Run(Running),
    /// The same, for a request that concerns several keys.
    Together(Together),
    /// Release what the entry has given up, unless it has been taken back since.
    Release(Arc<Entry>, Flight),
    /// Release a claim that no entry has in hand any more.
    Forget(Arc<Shared>, Claim, Flight),
    /// Listen for hints.
    Watch(Arc<Entry>, u64),
    /// Say so after this time, if somebody still listens.
    Alarm(Duration, oneshot::Sender<()>),
}

/// The way to the driver.
pub(crate) struct Driver {
    runtime: Handle,
    commands: UnboundedSender<Command>,
}

impl Driver {
    /// Starts a driver on this runtime, or on a thread of its own.
    pub(crate) fn start(runtime: Option<Handle>, shared: &Arc<Shared>) -> Result<Self, Error> {
        let (sender, commands) = unbounded_channel();
        let driver = run(
            Obituary(Arc::downgrade(shared)),
            commands,
            Arc::clone(&shared.timers),
            Arc::clone(&shared.flights),
        );
        let runtime = match runtime {
            Some(runtime) => {
                runtime.spawn(driver);
                runtime
            }
            None => start_thread(driver).map_err(|error| {
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

    /// Nobody may hold the lock of an entry while calling it: a driver that is gone answers at once.
    pub(crate) fn send(&self, command: Command) {
        let Err(refused) = self.commands.send(command) else { return };
        match refused.0 {
            Command::Run(running) => running.abandon(),
            Command::Together(together) => drop(together),
            Command::Release(entry, _flight) => {
                entry.begin_releases().into_iter().for_each(Running::abandon);
            }
            // What is left behind ends with its lease.
            Command::Forget(..) | Command::Watch(..) | Command::Alarm(..) => {}
        }
    }
}

/// How many commands are carried out before the timers are looked at again.
const AT_ONCE: usize = 4096;

fn start_thread(driver: impl Future<Output = ()> + Send + 'static) -> std::io::Result<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    // If there is no thread for it, the runtime must not be dropped here, which may be inside another.
    let slot = Arc::new(Mutex::new(Some(runtime)));
    let take = |slot: &Mutex<Option<tokio::runtime::Runtime>>| {
        slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    let spawned = std::thread::Builder::new().name("lock-driver".into()).spawn({
        let slot = Arc::clone(&slot);
        move || {
            if let Some(runtime) = take(&slot) {
                runtime.block_on(driver);
            }
        }
    });
    match spawned {
        Ok(_) => Ok(handle),
        Err(error) => {
            if let Some(runtime) = take(&slot) {
                runtime.shutdown_background();
            }
            Err(error)
        }
    }
}

/// Works until every handle is gone, and then until nothing is under way.
///
/// What comes first is dropped last: whoever hears that the driver has gone finds nobody listening.
async fn run(
    _obituary: Obituary,
    mut commands: UnboundedReceiver<Command>,
    timers: Arc<Timers>,
    flights: Arc<Flights>,
) {
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            count = commands.recv_many(&mut batch, AT_ONCE) => match count {
                0 => break,
                // What one look at the timers leads to begins at once, with no other task in between: a
                // backend can send it together.
                _ => batch.drain(..).for_each(|command| survive(|| execute(command))),
            },
            due = timers.due() => {
                due.into_iter().for_each(|entry| survive(|| entry.tick()));
            }
        }
    }
    flights.all_landed().await;
}

fn execute(command: Command) {
    match command {
        Command::Run(running) => drop(tokio::spawn(running.run())),
        Command::Together(together) => drop(tokio::spawn(together.run())),
        Command::Release(entry, _flight) => {
            for running in entry.begin_releases() {
                tokio::spawn(running.run());
            }
        }
        Command::Forget(shared, claim, flight) => {
            tokio::spawn(forget::forget(shared, claim, flight));
        }
        Command::Watch(entry, number) => entry.begin_watch(number),
        Command::Alarm(after, mut ring) => {
            tokio::spawn(async move {
                tokio::select! {
                    () = tokio::time::sleep(after) => drop(ring.send(())),
                    () = ring.closed() => {}
                }
            });
        }
    }
}

/// Wakers and subscribers are other people's code. One that panics must not stop the driver.
fn survive(work: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}

/// Tells everybody who depends on the driver that it has gone, in whatever way it did.
struct Obituary(Weak<Shared>);

impl Drop for Obituary {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.stop();
        }
    }
}
