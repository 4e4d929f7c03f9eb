//! The leader, as others see it.

use std::fmt;

use lock_core::{Cell, FencingToken};

/// The leader of an election, as the store sees it.
///
/// The [example](crate::Election#examples) of an election shows one.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderInfo {
    /// The value that the leader has stored.
    pub value: Vec<u8>,
    /// The fencing token of the leader. It is higher than the token of every earlier leader.
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
