//! Whether the server of one connection may have forgotten leases, and until when it sits out.
//!
//! A server that lost its data in a restart is another run, and another run needs another connection. So a connection
//! asks once, before it carries a request that may grant a lease or a place in the queue. While the server sits out it
//! asks again now and then, because an operator may end that. Requests that begin before the first answer ask too.
//!
//! A node of a cluster has a record for each slot, and the connection asks for each slot. A slot may leave the server
//! and come back without its leases, and the server may become a replica, and a primary again, while the connection
//! lives. A request that is redirected shows that. A client that sends no request does not notice. So the connection
//! asks again for a slot of which no request ran for some [time](LASTS).
//!
//! A grant that is pushed needs no look outside of a cluster: a release publishes it to an inbox, an inbox names the
//! history of the server's data, and the place with that inbox was given through a connection that had asked. In a
//! cluster it may come from another server than the one that gave the place. So there it is only a reason to ask.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Instant, Ttl};

use crate::keys::Records;
use crate::wire::Call;

/// How often a connection asks a server that sits out, at most.
const EVERY: Duration = Duration::from_millis(500);
/// For how long an answer about a slot counts after the last request for a lock of the slot.
const LASTS: Duration = Duration::from_secs(5);

/// How the servers of an app sit out after a loss of their data. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Quarantine {
    /// The longest lease of any client.
    pub(super) longest: Ttl,
    pub(super) records: Records,
    /// Whether this client has told what to do about a quarantine.
    pub(super) has_advised: Arc<AtomicBool>,
}

impl Quarantine {
    pub(crate) fn new(longest: Ttl, records: Records) -> Self {
        Self { longest, records, has_advised: Arc::default() }
    }

    /// The number of the record that counts for a call, if the call names a key.
    pub(super) fn record_for(&self, call: &Call) -> Option<u16> {
        call.first_key().map(|key| self.records.number(key))
    }

    /// Whether each slot sits out by itself.
    pub(crate) fn is_by_slot(&self) -> bool {
        self.records.are_by_slot()
    }

    /// For how long an answer counts after the last request. `None`: as long as the connection.
    pub(super) fn lasts(&self) -> Option<Duration> {
        self.is_by_slot().then_some(LASTS)
    }
}

/// What one connection knows, by the number of the record.
#[derive(Debug, Default)]
pub(super) struct Recall(Mutex<HashMap<u16, Known>>);

#[derive(Clone, Copy, Debug)]
enum Known {
    /// The server grants leases: it has forgotten none that lives. A request ran at this time.
    Goes { ran: Instant },
    /// The server sits out.
    Out {
        until: Instant,
        /// When a request last asked.
        asked: Instant,
    },
}

impl Recall {
    /// For how long the server still sits out, as far as is known. `None` if the caller has to ask. What is known may
    /// [last](Quarantine::lasts) for a limited time.
    pub(super) fn left(
        &self,
        record: u16,
        now: Instant,
        lasts: Option<Duration>,
    ) -> Option<Duration> {
        let is_within = |limit, since| now.saturating_duration_since(since) < limit;
        match self.lock().get_mut(&record)? {
            Known::Goes { ran } => {
                lasts.is_none_or(|lasts| is_within(lasts, *ran)).then_some(Duration::ZERO)
            }
            Known::Out { until, asked } if now < *until && is_within(EVERY, *asked) => {
                Some(until.saturating_duration_since(now))
            }
            Known::Out { asked, .. } => {
                *asked = now;
                None
            }
        }
    }

    /// Notes an answer. Returns whether it is news that the server sits out.
    pub(super) fn note(&self, record: u16, left: Duration, now: Instant) -> bool {
        let known = match left {
            Duration::ZERO => Known::Goes { ran: now },
            left => Known::Out { until: now + left, asked: now },
        };
        let before = self.lock().insert(record, known);
        !left.is_zero() && !matches!(before, Some(Known::Out { .. }))
    }

    /// A request that was sent at this time has run.
    pub(super) fn ran(&self, record: u16, sent: Instant) {
        if let Some(Known::Goes { ran }) = self.lock().get_mut(&record) {
            *ran = sent.max(*ran);
        }
    }

    /// The slot leaves the server, or has left it.
    pub(super) fn forget(&self, record: u16) {
        self.lock().remove(&record);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_new_connection_asks_and_then_never_again() {
        let recall = Recall::default();
        let left = |now| recall.left(0, at(now), None);
        assert_eq!([left(0), left(1)], [None, None]);
        assert!(!recall.note(0, ms(0), at(2)));
        assert_eq!(left(1_000_000), Some(ms(0)));
    }

    #[test]
    fn a_connection_asks_now_and_then_while_the_server_sits_out_and_at_the_end() {
        let recall = Recall::default();
        let left = |now| recall.left(7, at(now), Some(LASTS));
        assert!(recall.note(7, ms(800), at(0)));
        assert_eq!(left(499), Some(ms(301)));
        // One request asks. The others know enough.
        assert_eq!([left(500), left(500)], [None, Some(ms(300))]);
        assert!(!recall.note(7, ms(300), at(502)));
        assert_eq!([left(801), left(802)], [Some(ms(1)), None]);
        // Only the server says that the time is over.
        assert_eq!(left(802), None);
        // A client with longer leases has asked meanwhile.
        assert!(!recall.note(7, ms(100), at(803)));
        assert_eq!(left(804), Some(ms(99)));
        assert!(!recall.note(7, ms(0), at(903)));
        assert_eq!(left(903), Some(ms(0)));
    }

    #[test]
    fn a_connection_asks_for_each_slot_and_again_after_a_while_without_requests() {
        let recall = Recall::default();
        let left = |slot, now| recall.left(slot, at(now), Some(LASTS));
        recall.note(1, ms(0), at(0));
        assert_eq!([left(1, 4_999), left(2, 0)], [Some(ms(0)), None]);
        recall.ran(1, at(4_000));
        recall.ran(1, at(3_000));
        assert_eq!([left(1, 8_999), left(1, 9_000)], [Some(ms(0)), None]);
        // A request that ran says nothing of a slot that sits out, or left.
        recall.note(2, ms(800), at(0));
        recall.ran(2, at(1));
        assert_eq!(left(2, 2), Some(ms(798)));
        recall.note(1, ms(0), at(9_000));
        recall.forget(1);
        recall.ran(1, at(9_001));
        assert_eq!(left(1, 9_002), None);
    }
}
