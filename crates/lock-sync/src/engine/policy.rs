//! What a lock promises.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Label, Ttl};

use super::labels::{Labelled, Labels};

/// What a lock promises its holders and its waiters. Locks of one process with one name and one policy are one lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Policy {
    pub(crate) ttl: Ttl,
    pub(crate) renew: bool,
    pub(crate) max_hold: Option<Duration>,
    /// How long a caller waits for a store that does not answer. Without it, a caller without a limit waits for the
    /// length of a lease, and another caller waits until its limit.
    pub(crate) outage_limit: Option<Duration>,
    /// Whether the store can convert a lease that is held.
    pub(crate) converts: bool,
    /// The label by which people know the holders and the waiters. `None` without random bytes for its mark.
    pub(crate) label: Option<Arc<Labelled>>,
}

impl Policy {
    /// How long a caller without a limit waits for a store that does not answer. After the length of a lease, every
    /// lease that was held has ended.
    pub(crate) fn patience(&self) -> Duration {
        self.outage_limit.unwrap_or(self.ttl.duration())
    }

    /// Takes this label. Without random bytes for its mark, the policy keeps its former one.
    pub(crate) fn set_label(&mut self, label: &Label, labels: &Labels) {
        self.label = labels.of(label).or(self.label.take());
    }
}
