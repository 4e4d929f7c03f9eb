//! The term that grants on a connection name.
//!
//! The term of a server is the name of the history of its data (`master_replid`). A grant names it, so that a later
//! server can tell what was granted before its time. To read the term in the script that grants would cost the server
//! as much as the grant. So the client reads it once in a while, and sends it with its requests.
//!
//! The server may have another term by the time it grants. That does no harm, because the named term is one in which
//! *this server was the primary*, now or earlier. A primary never has a term again that it had before, and no other
//! server has that term as a primary. So whichever server finds the grant under another term than that of the grant
//! also finds that it is not its own. That server keeps the lock back, at worst in vain. The other way round it would
//! matter: whether a lock was held under *another* term than the present one is asked of the server, in the script,
//! whenever the lock was not released.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::Instant;

/// How old the term may become before it is read again. An old one costs waiting, and no lock.
const EVERY: Duration = Duration::from_secs(1);
/// The length of a term in a grant.
const DIGITS: usize = 16;

/// The term of the server of a connection.
#[derive(Debug, Default)]
pub(super) struct Terms(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    known: Option<[u8; DIGITS]>,
    /// When it was last asked for.
    asked: Option<Instant>,
}

impl Terms {
    /// The term for a grant that is asked for now, unless the script has to read it; and whether the caller has to read
    /// the term, for later grants.
    pub(super) fn take(&self, now: Instant) -> (Option<[u8; DIGITS]>, bool) {
        let mut state = self.lock();
        let is_due = state.asked.is_none_or(|at| now.saturating_duration_since(at) > EVERY);
        if is_due {
            state.asked = Some(now);
        }
        (state.known, is_due)
    }

    /// Notes the answer to `INFO replication`, if there is one. A server may not tell its term, for example to this
    /// user.
    pub(super) fn told(&self, info: Option<&[u8]>) {
        self.lock().known = info.and_then(own);
    }

    /// A panic under the lock leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The beginning of the name of the history, if the server is a primary. A replica has the history of another server.
fn own(info: &[u8]) -> Option<[u8; DIGITS]> {
    let is_primary =
        info.split(|byte| *byte == b'\n').any(|line| line.trim_ascii_end() == b"role:master");
    history(info)?.first_chunk().copied().filter(|_| is_primary)
}

/// The name of the history in the answer to `INFO`, in hexadecimal digits.
pub(crate) fn history(info: &[u8]) -> Option<&[u8]> {
    const FIELD: &[u8] = b"master_replid:";
    let name = info.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(FIELD))?;
    let name = name.trim_ascii_end();
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    name.iter().all(is_digit).then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HISTORY: &str = "0a1b2c3d4e5f60718293";

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn info(role: &str) -> String {
        format!(
            "# Replication\r\nrole:{role}\r\nconnected_slaves:0\r\nmaster_replid:{HISTORY}\r\nmaster_replid2:00\r\n"
        )
    }

    #[test]
    fn only_the_term_of_a_primary_is_its_own() {
        assert_eq!(own(info("master").as_bytes()).as_ref(), HISTORY.as_bytes().first_chunk());
        assert_eq!(history(info("slave").as_bytes()), Some(HISTORY.as_bytes()));
        assert_eq!(own(info("slave").as_bytes()), None);
        for bad in ["", "role:master\r\n", "role:master\r\nmaster_replid:0a1\r\n"] {
            assert_eq!(own(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(history(b"master_replid:0A1b2c"), None);
    }

    #[test]
    fn one_request_in_a_second_asks_for_the_term() {
        let terms = Terms::default();
        assert_eq!(terms.take(at(10_000)), (None, true));
        assert_eq!(terms.take(at(10_001)), (None, false));
        terms.told(Some(info("master").as_bytes()));
        let asks = (10_002..=12_001).filter(|&now| terms.take(at(now)).1).count();
        assert_eq!(asks, 1);
        assert_eq!(terms.take(at(12_002)).0.as_ref(), HISTORY.as_bytes().first_chunk());
        terms.told(None);
        assert_eq!(terms.take(at(12_003)).0, None);
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(info in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(own(&info), None);
        }
    }
}
