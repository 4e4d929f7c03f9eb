//! A request for the value of a cell, and its making.

use std::sync::Arc;

use lock_tests::chaos::history::{Deed, Op, Refusal};

use super::Scribe;
use crate::worker::journal::{Calling, Journal};

/// A call for the value of a cell. Dropping this gives it up.
#[derive(Debug)]
pub(crate) struct Looking {
    scribe: Scribe,
    op: Op,
    is_over: bool,
    _calling: Calling,
}

/// An attempt to make the value. If this is dropped, nothing was made.
#[derive(Debug)]
pub(crate) struct Making {
    scribe: Scribe,
    op: Op,
    value: Option<u64>,
}

impl Looking {
    pub(crate) fn begin(journal: &Arc<Journal>, task: u32, key: String) -> Self {
        let (scribe, op) = (Scribe::new(journal), journal.number());
        let calling = journal.calls(op, "a cell");
        let looking = Self { scribe, op, is_over: false, _calling: calling };
        looking.record(Deed::Look { op, task, key });
        looking
    }

    /// The caller makes the value itself.
    pub(crate) fn make(&self) -> Making {
        self.record(Deed::Make { op: self.op });
        Making { scribe: self.scribe.clone(), op: self.op, value: None }
    }

    /// The call returned the value, or that there is none.
    pub(crate) fn saw(mut self, value: Option<u64>) {
        self.is_over = true;
        self.record(Deed::Saw { op: self.op, value });
    }

    pub(crate) fn not(mut self, why: Refusal) {
        self.is_over = true;
        self.record(Deed::Not { op: self.op, why });
    }

    fn record(&self, deed: Deed) {
        self.scribe.record(self.scribe.now(), [deed].into_iter());
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        if !self.is_over {
            self.record(Deed::Not { op: self.op, why: Refusal::GivenUp });
        }
    }
}

impl Making {
    /// The maker has made this value. No other task knows it yet.
    pub(crate) fn made(mut self, value: u64) -> u64 {
        self.value = Some(value);
        value
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        let deed = Deed::Made { op: self.op, value: self.value };
        self.scribe.record(self.scribe.now(), [deed].into_iter());
    }
}
