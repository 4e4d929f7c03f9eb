//! The connection of one client to the store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::stats::{Counters, Stats, Verb};
use super::switches::Switchboard;
use crate::{Error, ErrorKind};

/// The path of one client's requests to the store and back.
#[derive(Debug, Default)]
pub(super) struct Connection {
    counters: Counters,
    switchboard: Mutex<Switchboard>,
    cut: AtomicBool,
    muted: AtomicBool,
}

impl Connection {
    /// Takes a request to the store, where `apply` carries it out, and brings its answer back.
    ///
    /// At the one await before `apply` and the one after it, a network may lose, hold or
    /// delay a message. Without faults neither is ever pending.
    pub(super) async fn carry<T>(
        &self,
        verb: Verb,
        apply: impl FnOnce() -> T + Send,
    ) -> Result<T, Error> {
        self.counters.count(verb);
        let trip = self.switchboard().next_trip(verb);
        for stop in &trip.there {
            stop.pass().await;
        }
        if let Some(kind) = trip.failure {
            return Err(Error::new(kind, "the store was told to fail this request"));
        }
        if self.is_cut() {
            return Err(unreachable());
        }
        let answer = apply();
        for stop in &trip.back {
            stop.pass().await;
        }
        if trip.loses_reply || self.is_cut() {
            return Err(unreachable());
        }
        Ok(answer)
    }

    pub(super) fn stats(&self) -> Stats {
        self.counters.read()
    }

    /// Never held across an await.
    pub(super) fn switchboard(&self) -> MutexGuard<'_, Switchboard> {
        self.switchboard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }

    pub(super) fn set_cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    pub(super) fn is_muted(&self) -> bool {
        self.muted.load(Ordering::SeqCst)
    }

    pub(super) fn set_muted(&self, muted: bool) {
        self.muted.store(muted, Ordering::SeqCst);
    }
}

pub(super) fn unreachable() -> Error {
    Error::new(ErrorKind::Unreachable, "the connection to the store is cut")
}
