//! Who leads.

use std::fmt;

use lock_core::{Cell, FencingToken};

/// Who leads, as the store sees it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderInfo {
    /// What the leader has said of itself.
    pub value: Vec<u8>,
    /// The leader's fencing token: higher than that of every leader before.
    pub token: FencingToken,
}

impl LeaderInfo {
    pub(super) fn of(cell: Cell) -> Option<Self> {
        cell.held.then_some(Self { value: cell.value, token: cell.token })
    }
}

impl fmt::Debug for LeaderInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderInfo")
            .field("value", &format_args!("\"{}\"", self.value.escape_ascii()))
            .field("token", &self.token)
            .finish()
    }
}
