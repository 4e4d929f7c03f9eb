//! The sources of hints of this client.

use crate::keys::Keeping;
use crate::options::Notifications;

/// The sources to listen to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listening {
    pub(crate) notifications: Notifications,
    pub(crate) release_messages: bool,
    pub(crate) tracking: bool,
    /// How the state of a lock is kept: a watch writes the state as well.
    pub(crate) keeping: Keeping,
    /// Whether requests go where a server sends them: a watch at a server that does not have the lock is refused.
    pub(crate) routed: bool,
}

impl Listening {
    pub(super) fn to_nothing(self) -> bool {
        self.notifications == Notifications::Off && !self.release_messages && !self.tracking
    }
}
