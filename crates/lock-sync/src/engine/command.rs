//! The commands that entries send to the driver.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Claim, Mode, Ttl};
use tokio::sync::oneshot;

use super::driver::{Errand, Flight};
use super::machine::Ending;
use super::running::{Asks, Running};
use super::shared::{Home, Shared};
use super::together::Together;
use super::withdraw::withdraw;

/// The entry of one key, as far as the commands know it.
pub(crate) trait Driven: Asks {
    /// Takes over the releases that the machine has asked for and still wants.
    fn begin_releases(&self) -> Vec<Ending>;

    /// Runs the watch with this number, unless another watch has replaced it or it was stopped.
    fn begin_watch(self: &Arc<Self>, number: u64);
}

/// Something for the driver to do.
pub(crate) enum Command<E: Driven> {
    /// Run this request to its end.
    Run(Running<E>),
    /// Run this request, which concerns several keys, to its end.
    Together(Together<E>),
    /// Release the leases that the entry has given up and has not taken back since.
    Release(Arc<E>, Flight),
    /// Release a claim that no entry knows any more, which may have the other mode, with the length of its lease.
    Withdraw(Arc<Shared<E>>, Claim, Option<Mode>, Ttl, Flight),
    /// Listen for hints.
    Watch(Arc<E>, u64),
    /// Ring after this time, unless the receiver has gone.
    Alarm(Duration, oneshot::Sender<()>),
}

impl<E: Driven> From<Running<E>> for Command<E> {
    fn from(running: Running<E>) -> Self {
        Self::Run(running)
    }
}

impl<E: Driven> Errand for Command<E> {
    fn begin(self) {
        match self {
            Self::Run(running) => drop(tokio::spawn(running.run())),
            Self::Together(together) => drop(tokio::spawn(together.run())),
            Self::Release(entry, _flight) => {
                for ending in entry.begin_releases() {
                    tokio::spawn(Running::release(&entry, ending, Home::Driver).run());
                }
                // The entry goes before the flight ends, because its drop may release more leases.
                drop(entry);
            }
            Self::Withdraw(shared, claim, other, ttl, flight) => {
                tokio::spawn(withdraw(shared, claim, other, ttl, flight));
            }
            Self::Watch(entry, number) => entry.begin_watch(number),
            Self::Alarm(after, mut ring) => {
                tokio::spawn(async move {
                    tokio::select! {
                        () = tokio::time::sleep(after) => drop(ring.send(())),
                        () = ring.closed() => {}
                    }
                });
            }
        }
    }

    fn refuse(self) {
        match self {
            Self::Run(running) => running.abandon(),
            Self::Together(together) => drop(together),
            Self::Release(entry, _flight) => {
                for ending in entry.begin_releases() {
                    Running::release(&entry, ending, Home::Driver).abandon();
                }
            }
            // A claim that is left behind ends with its lease.
            Self::Withdraw(..) | Self::Watch(..) | Self::Alarm(..) => {}
        }
    }
}
