//! How the server of a connection accepts scripts, as far as the connection has learned.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::wire::By;

/// How a connection makes its server run scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Manner {
    /// Loads a script that the server does not know.
    Loads,
    /// Brings along a script that the server does not know.
    Brings,
    /// Brings along every script.
    BringsAll,
}

impl Manner {
    pub(super) fn first(self) -> By {
        if self == Self::BringsAll { By::Body } else { By::Digest }
    }
}

/// The manner of one connection.
#[derive(Debug, Default)]
pub(super) struct Manners(AtomicU8);

impl Manners {
    pub(super) fn get(&self) -> Manner {
        match self.0.load(Ordering::Relaxed) {
            it if it == Manner::Brings as u8 => Manner::Brings,
            it if it == Manner::BringsAll as u8 => Manner::BringsAll,
            _ => Manner::Loads,
        }
    }

    /// Returns whether this changes the manner.
    pub(super) fn set(&self, manner: Manner) -> bool {
        self.0.swap(manner as u8, Ordering::Relaxed) != manner as u8
    }
}
