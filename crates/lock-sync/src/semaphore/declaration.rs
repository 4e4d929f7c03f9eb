//! The declaration of a handle, and whether the handle has made it.

use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::{Error, ErrorKind};

/// What happens if a [`Semaphore`](crate::Semaphore) declares another number of permits than earlier handles with its
/// name.
///
/// The [guide to rolling upgrades](crate::guide::resizing) says what happens while processes with both numbers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Declaration {
    /// The store refuses the semaphore with [`ErrorKind::InvalidConfig`], as long as it remembers the other number: for
    /// an hour after the last use. This is the default, because two numbers are usually a mistake.
    ///
    /// The store accepts each of the last [eight](lock_core::Permits::DECLARATIONS) declared numbers. So a process goes
    /// on when another process has replaced its number by [`LastWins`](Self::LastWins).
    #[default]
    Refuse,
    /// The number of this semaphore replaces the other number, for all processes.
    LastWins,
}

/// Whether a handle has yet to declare its number.
pub(super) struct Declaring {
    declaration: Declaration,
    is_declared: AtomicBool,
}

impl Declaring {
    pub(super) fn new(declaration: Declaration) -> Self {
        Self { declaration, is_declared: AtomicBool::new(declaration == Declaration::Refuse) }
    }

    pub(super) fn last_wins(&self) -> bool {
        self.declaration == Declaration::LastWins
    }

    pub(super) fn is_due(&self) -> bool {
        !self.is_declared.load(Ordering::Acquire)
    }

    pub(super) fn done(&self) {
        self.is_declared.store(true, Ordering::Release);
    }

    /// Whether a failed request is worth another try after a declaration: the store has forgotten the number of this
    /// handle, and another process has declared another number.
    pub(super) fn cures(&self, error: &Error) -> bool {
        self.last_wins() && error.kind() == ErrorKind::InvalidConfig
    }
}
