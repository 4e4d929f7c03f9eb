//! The driver: where everything lives that must not depend on the tasks that use the locks.
//!
//! Renewals, releases of dropped guards, requests whose task went away, watches and timers. It runs
//! on a thread of its own unless told otherwise, so that a blocked executor does not end a lease and
//! a runtime that shuts down does not keep a lock.

mod flights;
mod timers;

use std::sync::Arc;

use lock_core::{Error, ErrorKind};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(crate) use flights::{Flight, Flights};
pub(crate) use timers::Timers;

use crate::engine::{Entry, Running};

/// Something for the driver to do. Sending it never blocks and never fails loudly: `Drop` does it.
pub(crate) enum Command {
    /// Run this request to its end.
    Run(Running),
    /// Release what the entry has given up, unless it has been taken back since.
    Release(Arc<Entry>, Flight),
    /// Listen for hints.
    Watch(Arc<Entry>, u64),
}

/// The way to the driver.
pub(crate) struct Driver {
    runtime: Handle,
    commands: UnboundedSender<Command>,
}

impl Driver {
    /// Starts a driver on this runtime, or on a thread of its own.
    pub(crate) fn start(
        runtime: Option<Handle>,
        timers: Arc<Timers>,
        flights: Arc<Flights>,
    ) -> Result<Self, Error> {
        let (sender, commands) = unbounded_channel();
        if let Some(runtime) = runtime {
            runtime.spawn(run(commands, timers, flights));
            return Ok(Self { runtime, commands: sender });
        }
        let failed = |error| {
            Error::with_source(ErrorKind::Other, "could not start the driver of the locks", error)
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("lock-driver".into())
            .spawn(move || runtime.block_on(run(commands, timers, flights)))
            .map_err(failed)?;
        Ok(Self { runtime: handle, commands: sender })
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(crate) fn send(&self, command: Command) {
        if let Err(refused) = self.commands.send(command) {
            // The runtime of the driver has shut down. What it leaves behind ends with its lease.
            if let Command::Run(running) = refused.0 {
                running.abandon();
            }
        }
    }
}

/// Works until every handle is gone, and then until nothing is under way.
async fn run(mut commands: UnboundedReceiver<Command>, timers: Arc<Timers>, flights: Arc<Flights>) {
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(command) => execute(command),
                None => break,
            },
            due = timers.due() => due.into_iter().for_each(|entry| entry.tick()),
        }
    }
    flights.all_landed().await;
}

fn execute(command: Command) {
    match command {
        Command::Run(running) => drop(tokio::spawn(running.run())),
        Command::Release(entry, _flight) => {
            if let Some(running) = entry.begin_release() {
                tokio::spawn(running.run());
            }
        }
        Command::Watch(entry, number) => entry.begin_watch(number),
    }
}
