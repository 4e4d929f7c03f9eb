//! What a proxy does with what comes in, and how much that was.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Direction;

/// How both directions are to be treated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switches {
    to_server: Flow,
    to_client: Flow,
}

/// How one direction is to be treated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    pub(super) silent: bool,
    pub(super) delay: Duration,
}

impl Switches {
    fn flow(&self, direction: Direction) -> Flow {
        match direction {
            Direction::ToServer => self.to_server,
            Direction::ToClient => self.to_client,
        }
    }

    pub(super) fn flow_mut(&mut self, direction: Direction) -> &mut Flow {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }
}

/// The switches as one direction of one connection sees them.
pub(super) struct Gate {
    pub(super) switches: watch::Receiver<Switches>,
    pub(super) direction: Direction,
}

impl Gate {
    /// Whether what came in at `arrival` may go out now.
    pub(super) fn is_open(&self, arrival: Instant) -> bool {
        let flow = self.switches.borrow().flow(self.direction);
        !flow.silent && arrival + flow.delay <= Instant::now()
    }

    /// Waits until it may.
    pub(super) async fn opened(&mut self, arrival: Instant) {
        while !self.is_open(arrival) {
            let flow = self.switches.borrow_and_update().flow(self.direction);
            if flow.silent {
                // An error means that the proxy is being dropped, and this task with it.
                _ = self.switches.changed().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep_until(arrival + flow.delay) => {}
                _ = self.switches.changed() => {}
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    accepted: AtomicUsize,
    open: AtomicUsize,
    to_server: AtomicU64,
    to_client: AtomicU64,
}

impl Counters {
    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Acquire)
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    pub(super) fn bytes(&self, direction: Direction) -> u64 {
        self.of(direction).load(Ordering::Acquire)
    }

    pub(super) fn add_bytes(&self, direction: Direction, count: usize) {
        self.of(direction).fetch_add(count as u64, Ordering::AcqRel);
    }

    pub(super) fn connected(&self) {
        self.open.fetch_add(1, Ordering::AcqRel);
        self.accepted.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn disconnected(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    fn of(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }
}
