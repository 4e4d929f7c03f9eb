//! The switches of a proxy, and its counters.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Direction;

/// The switches of both directions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Switches {
    to_server: Flow,
    to_client: Flow,
    /// Whether requests arrive twice.
    pub(super) repeats: bool,
    /// How often the connections at that time were told to end with their next reply.
    pub(super) cuts: u64,
    /// How often the clients of the connections at that time have vanished.
    pub(super) vanishings: u64,
}

/// One of so many arrivals straggles, if the switch says so.
const STRAGGLERS: u32 = 64;

/// The switches of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    pub(super) silent: bool,
    pub(super) delay: Duration,
    /// The longest random addition to the delay.
    pub(super) jitter: Duration,
    /// How much later single arrivals go out. Zero: as the others.
    pub(super) straggle: Duration,
    /// The pause after each byte, if they go out one by one.
    pub(super) dribble: Option<Duration>,
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

    /// Resets all switches. Connections that were cut stay so, and clients that have vanished do not return.
    pub(super) fn pass(&mut self) {
        *self = Self { cuts: self.cuts, vanishings: self.vanishings, ..Self::default() };
    }
}

/// The time of an arrival, and its random part of the jitter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) at: Instant,
    pub(super) luck: u32,
}

impl Flow {
    /// When it may go out, unless there is a silence.
    fn due(self, arrival: Arrival) -> Instant {
        let luck = f64::from(arrival.luck) / f64::from(u32::MAX);
        let straggle =
            if arrival.luck.is_multiple_of(STRAGGLERS) { self.straggle } else { Duration::ZERO };
        arrival.at + self.delay + self.jitter.mul_f64(luck) + straggle
    }
}

/// The switches for one direction of one connection.
pub(super) struct Gate {
    switches: watch::Receiver<Switches>,
    pub(super) direction: Direction,
    /// How often others were told to end before this one was opened.
    cuts: u64,
}

impl Gate {
    pub(super) fn new(switches: watch::Receiver<Switches>, direction: Direction) -> Self {
        let cuts = switches.borrow().cuts;
        Self { switches, direction, cuts }
    }

    /// Whether the arrival may go out now.
    pub(super) fn is_open(&self, arrival: Arrival) -> bool {
        let flow = self.flow();
        !flow.silent && flow.due(arrival) <= Instant::now()
    }

    /// Waits until it may.
    pub(super) async fn opened(&mut self, arrival: Arrival) {
        while !self.is_open(arrival) {
            let flow = self.switches.borrow_and_update().flow(self.direction);
            if flow.silent {
                self.changed().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep_until(flow.due(arrival)) => {}
                () = self.changed() => {}
            }
        }
    }

    /// Waits until a switch changes.
    pub(super) async fn changed(&mut self) {
        // An error means that the proxy is being dropped, and this task with it.
        _ = self.switches.changed().await;
    }

    /// Whether requests arrive twice.
    pub(super) fn repeats(&self) -> bool {
        self.switches.borrow().repeats
    }

    /// Whether the connection ends instead of delivering a reply.
    pub(super) fn cuts(&self) -> bool {
        self.direction == Direction::ToClient && self.switches.borrow().cuts > self.cuts
    }

    /// The pause after each byte, if they go out one by one.
    pub(super) fn dribble(&self) -> Option<Duration> {
        self.flow().dribble
    }

    fn flow(&self) -> Flow {
        self.switches.borrow().flow(self.direction)
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    accepted: AtomicUsize,
    open: AtomicUsize,
    /// How many of the open ones have a client that has not vanished.
    present: AtomicUsize,
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

    /// Whether the client of an open connection has not vanished.
    pub(super) fn has_present(&self) -> bool {
        self.present.load(Ordering::Acquire) > 0
    }

    /// Counts one more, and says how many there were before.
    pub(super) fn connected(&self) -> usize {
        self.present.fetch_add(1, Ordering::AcqRel);
        self.open.fetch_add(1, Ordering::AcqRel);
        self.accepted.fetch_add(1, Ordering::AcqRel)
    }

    pub(super) fn vanished(&self) {
        self.present.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn disconnected(&self, has_vanished: bool) {
        if !has_vanished {
            self.vanished();
        }
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    fn of(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }
}
