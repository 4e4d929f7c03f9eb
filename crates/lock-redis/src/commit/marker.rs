//! What a commit writes.

use std::sync::Arc;

use crate::scripts::COMMIT;
use crate::wire::Call;

/// What a commit may write, in the slot of a lock. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Marker {
    key: Arc<[u8]>,
    lock: Arc<[u8]>,
    /// The slot is being moved to the server, which serves requests that know of it.
    asking: bool,
}

impl Marker {
    /// The marker is this `key`. The `lock` is in the slot of the key.
    pub(crate) fn new(key: &[u8], lock: &[u8], asking: bool) -> Self {
        Self { key: key.into(), lock: lock.into(), asking }
    }

    /// Writes the marker. A server to which the slot is being moved may still get the marker of the other one, and
    /// could not if it had one already. So it writes the lock, as it is.
    pub(super) fn write(&self) -> Call {
        if self.asking { self.write_lock() } else { self.call(&self.key, b"") }
    }

    /// Writes the lock, as it is. While the slot is being moved away, a server writes only keys that it has. The lease
    /// was given there a moment ago, so the lock is there.
    pub(super) fn write_lock(&self) -> Call {
        self.call(&self.lock, b"lock")
    }

    fn call(&self, key: &[u8], what: &[u8]) -> Call {
        let mut call = Call::new(&COMMIT, 1, key.len() + what.len());
        call.bytes(key).bytes(what);
        if self.asking { call.asking() } else { call }
    }
}
