//! The identifiers of channels, watchers and tasks.

use std::sync::Arc;

/// The name of a channel, or the key of a lock.
pub(crate) type Channel = Arc<[u8]>;

/// Identifies a watcher.
pub(crate) type Id = u64;

/// Identifies a task of a hub; the tasks follow one another.
pub(super) type Generation = u64;

/// What a look at a key found: nothing, or a value that only its hash identifies.
pub(super) type Seen = Option<u64>;
