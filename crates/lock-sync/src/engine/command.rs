//! What the entries have the driver do.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Claim;
use tokio::sync::oneshot;

use super::driver::{Errand, Flight, Timed};
use super::forget::forget;
use super::{Entry, Running, Shared, Together};

/// Something for the driver to do.
pub(crate) enum Command {
    /// Run this request to its end.
    Run(Running),
    /// Run this request, which concerns several keys, to its end.
    Together(Together),
    /// Release what the entry has given up, unless it has been taken back since.
    Release(Arc<Entry>, Flight),
    /// Release a claim that no entry has in hand any more.
    Forget(Arc<Shared>, Claim, Flight),
    /// Listen for hints.
    Watch(Arc<Entry>, u64),
    /// Ring after this time, unless the receiver has gone.
    Alarm(Duration, oneshot::Sender<()>),
}

impl Errand for Command {
    fn begin(self) {
        match self {
            Self::Run(running) => drop(tokio::spawn(running.run())),
            Self::Together(together) => drop(tokio::spawn(together.run())),
            Self::Release(entry, _flight) => {
                for running in entry.begin_releases() {
                    tokio::spawn(running.run());
                }
            }
            Self::Forget(shared, claim, flight) => {
                tokio::spawn(forget(shared, claim, flight));
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
                entry.begin_releases().into_iter().for_each(Running::abandon);
            }
            // What is left behind ends with its lease.
            Self::Forget(..) | Self::Watch(..) | Self::Alarm(..) => {}
        }
    }
}

impl Timed for Entry {
    fn tick(self: &Arc<Self>) {
        Self::tick(self);
    }
}
