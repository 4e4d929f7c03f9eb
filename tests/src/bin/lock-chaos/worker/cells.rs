//! Cells, one after another: a stored value stays, so every new one needs a new name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{CellBackend, Clock, Error};
use lock_sync::{Locks, OnceCell};
use lock_tests::Random;

/// The number of latest cells in use.
const PAST: u64 = 5;

/// The cells of the present time, by the clock that all clients share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    /// How long each cell is the present one.
    slice: Duration,
}

impl Series {
    pub(crate) fn new(slice: Duration) -> Self {
        Self { slice: slice.max(Duration::from_millis(50)) }
    }

    /// The present cell, most of the time, or one of those before it.
    pub(crate) fn draw(self, random: &mut Random) -> u64 {
        let slice = u64::try_from(self.slice.as_nanos()).unwrap_or(u64::MAX);
        let present = Clock::boot().now().as_nanos() / slice;
        let back = if random.percent(60) { 0 } else { random.below(PAST as usize) as u64 };
        present.saturating_sub(back)
    }
}

/// The name of a cell.
pub(crate) fn name(number: u64) -> String {
    format!("c{number}")
}

/// Returns the cell of a name.
type Finder = dyn Fn(&str) -> Result<OnceCell<u64>, Error> + Send + Sync;

/// The cells of a client.
pub(crate) struct Cells {
    pub(crate) series: Series,
    cell: Box<Finder>,
    /// The cells that all tasks share.
    shared: Mutex<BTreeMap<u64, Arc<OnceCell<u64>>>>,
}

impl Cells {
    pub(crate) fn new<B: CellBackend>(locks: Locks<B>, series: Series) -> Self {
        let cell = Box::new(move |name: &str| locks.once_cell(name));
        Self { series, cell, shared: Mutex::default() }
    }

    /// A cell that all tasks of the client share.
    pub(crate) fn shared(&self, number: u64) -> Arc<OnceCell<u64>> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        // Cells that no task asks for any more are dropped.
        *shared = shared.split_off(&number.saturating_sub(2 * PAST));
        let cell = shared.entry(number).or_insert_with(|| Arc::new(self.fresh(number)));
        Arc::clone(cell)
    }

    /// A cell that has not read anything yet.
    pub(crate) fn fresh(&self, number: u64) -> OnceCell<u64> {
        (self.cell)(&name(number)).unwrap_or_else(|error| panic!("there is no cell: {error}"))
    }
}
