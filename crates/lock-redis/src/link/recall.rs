//! Whether the server of one connection may have forgotten leases, and until when it sits out.
//!
//! A server that lost its data in a restart is another run, and another run needs another connection. So a connection asks
//! once, before it carries a request that may grant a lease or a place in the queue. While the server sits out it asks
//! again now and then, because an operator may end that. Requests that begin before the first answer ask too.
//!
//! A grant that is pushed needs no look: a release publishes it to an inbox, an inbox names the history of the server's
//! data, and the place with that inbox was given through a connection that had asked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Instant, Ttl};

/// How often a connection asks a server that sits out, at most.
const EVERY: Duration = Duration::from_millis(500);

/// How the servers of an app sit out after a loss of their data. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Quarantine {
    /// The longest lease of any client.
    pub(super) longest: Ttl,
    /// The key of the record.
    pub(super) record: Arc<[u8]>,
    /// Whether this client has told what to do about a quarantine.
    pub(super) has_advised: Arc<AtomicBool>,
}

impl Quarantine {
    pub(crate) fn new(longest: Ttl, record: &[u8]) -> Self {
        Self { longest, record: record.into(), has_advised: Arc::default() }
    }
}

/// What one connection knows.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// The server grants leases: it has forgotten none that lives.
    is_over: AtomicBool,
    out: Mutex<Option<Out>>,
}

/// The server sits out.
#[derive(Clone, Copy, Debug)]
struct Out {
    until: Instant,
    /// When a request last asked.
    asked: Instant,
}

impl Recall {
    /// For how long the server still sits out, as far as is known. `None` if the caller has to ask.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        if self.is_over.load(Ordering::Acquire) {
            return Some(Duration::ZERO);
        }
        let mut out = self.lock();
        let out = out.as_mut()?;
        if now >= out.until || now.saturating_duration_since(out.asked) >= EVERY {
            out.asked = now;
            return None;
        }
        Some(out.until.saturating_duration_since(now))
    }

    /// Notes an answer. Returns whether it is news that the server sits out.
    pub(super) fn note(&self, left: Duration, now: Instant) -> bool {
        let mut out = self.lock();
        if left.is_zero() {
            *out = None;
            self.is_over.store(true, Ordering::Release);
            return false;
        }
        out.replace(Out { until: now + left, asked: now }).is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Out>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert_eq!([recall.left(at(0)), recall.left(at(1))], [None, None]);
        assert!(!recall.note(ms(0), at(2)));
        assert_eq!(recall.left(at(1_000_000)), Some(ms(0)));
    }

    #[test]
    fn a_connection_asks_now_and_then_while_the_server_sits_out_and_at_the_end() {
        let recall = Recall::default();
        assert!(recall.note(ms(800), at(0)));
        assert_eq!(recall.left(at(499)), Some(ms(301)));
        // One request asks. The others know enough.
        assert_eq!([recall.left(at(500)), recall.left(at(500))], [None, Some(ms(300))]);
        assert!(!recall.note(ms(300), at(502)));
        assert_eq!([recall.left(at(801)), recall.left(at(802))], [Some(ms(1)), None]);
        // Only the server says that the time is over.
        assert_eq!(recall.left(at(802)), None);
        // A client with longer leases has asked meanwhile.
        assert!(!recall.note(ms(100), at(803)));
        assert_eq!(recall.left(at(804)), Some(ms(99)));
        assert!(!recall.note(ms(0), at(903)));
        assert_eq!(recall.left(at(903)), Some(ms(0)));
    }
}
