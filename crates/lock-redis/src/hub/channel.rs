//! What channels, watchers and tasks are told apart by.

use std::sync::Arc;

/// The name of a channel, or the key of a lock.
pub(crate) type Channel = Arc<[u8]>;

/// Tells watchers apart.
pub(crate) type Id = u64;

/// Tells the tasks of a hub apart, which follow one another.
pub(super) type Generation = u64;

/// What a key was found to hold, as far as it matters: nothing, or one thing rather than another.
pub(super) type Seen = Option<u64>;
