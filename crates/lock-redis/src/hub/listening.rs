//! What this client listens to.

use crate::options::Notifications;

/// What to listen to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listening {
    pub(crate) notifications: Notifications,
    pub(crate) release_messages: bool,
    pub(crate) tracking: bool,
    /// How long the state of a lock outlives its lease, in milliseconds: a watch writes it as well.
    pub(crate) retention: u64,
}

impl Listening {
    pub(super) fn to_nothing(self) -> bool {
        self.notifications == Notifications::Off && !self.release_messages && !self.tracking
    }
}
