//! The faults that the next requests meet.

use std::sync::Arc;
use std::time::Duration;

use super::gate::Barrier;
use super::stats::Verb;
use crate::ErrorKind;

/// The switches of one client: one set for every request, and one for each verb.
#[derive(Debug, Default)]
pub(super) struct Switchboard {
    every: Switches,
    /// In the order of [`Verb`].
    each: [Switches; Verb::COUNT],
}

#[derive(Debug, Default)]
pub(super) struct Switches {
    pub(super) failing: Option<Failing>,
    pub(super) replies_to_lose: u32,
    pub(super) there: Stops,
    pub(super) back: Stops,
}

#[derive(Debug)]
pub(super) struct Failing {
    pub(super) kind: ErrorKind,
    /// How many more requests fail; `None` means all, until the client is healed.
    pub(super) left: Option<u32>,
}

/// The gate and the delay for messages in one direction.
#[derive(Debug, Default)]
pub(super) struct Stops {
    pub(super) delay: Duration,
    pub(super) gate: Option<Arc<Barrier>>,
}

/// The faults that one request meets. They are decided when the request is sent.
#[derive(Debug)]
pub(super) struct Trip {
    pub(super) there: Vec<Stop>,
    pub(super) failure: Option<ErrorKind>,
    pub(super) back: Vec<Stop>,
    pub(super) loses_reply: bool,
}

#[derive(Debug)]
pub(super) enum Stop {
    Delay(Duration),
    Gate(Arc<Barrier>),
}

impl Switchboard {
    /// The switches of one verb, or of every request.
    pub(super) fn switches(&mut self, verb: Option<Verb>) -> &mut Switches {
        match verb {
            None => &mut self.every,
            Some(verb) => &mut self.each[verb as usize],
        }
    }

    /// Decides which faults the next request meets, and counts them down.
    pub(super) fn next_trip(&mut self, verb: Verb) -> Trip {
        let mut trip =
            Trip { there: Vec::new(), failure: None, back: Vec::new(), loses_reply: false };
        for scope in [Some(verb), None] {
            let switches = self.switches(scope);
            switches.there.add_to(&mut trip.there);
            switches.back.add_to(&mut trip.back);
            if trip.failure.is_none() {
                trip.failure = switches.next_failure();
            }
            if !trip.loses_reply && switches.replies_to_lose > 0 {
                switches.replies_to_lose -= 1;
                trip.loses_reply = true;
            }
        }
        trip
    }

    /// Opens every gate.
    pub(super) fn open_gates(&self) {
        for switches in self.each.iter().chain([&self.every]) {
            for gate in [&switches.there.gate, &switches.back.gate].into_iter().flatten() {
                gate.open();
            }
        }
    }
}

impl Switches {
    fn next_failure(&mut self) -> Option<ErrorKind> {
        let failing = self.failing.as_mut()?;
        match &mut failing.left {
            None => {}
            Some(0) => return None,
            Some(left) => *left -= 1,
        }
        Some(failing.kind)
    }
}

impl Stops {
    fn add_to(&self, stops: &mut Vec<Stop>) {
        if !self.delay.is_zero() {
            stops.push(Stop::Delay(self.delay));
        }
        stops.extend(self.gate.clone().map(Stop::Gate));
    }
}

impl Stop {
    pub(super) async fn pass(&self) {
        match self {
            Self::Delay(delay) => tokio::time::sleep(*delay).await,
            Self::Gate(barrier) => barrier.pass().await,
        }
    }
}
