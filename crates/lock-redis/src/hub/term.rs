//! The term of a server: which history of the data it has now.
//!
//! A server that is promoted, or that starts anew, gets a new name for its history (`master_replid`), which no server
//! has had before. An inbox names the term in which its client subscribed. So a script that publishes to an inbox
//! knows the meaning if no client hears: within this term the client has gone. In another term the client may not
//! have subscribed here yet, because the server has just been promoted or the slot has just been moved. Then the claim
//! keeps its turn, and gets the lock for the short time of a lease that is handed over.
//!
//! A primary that has had no replica for an hour may take a new name as well. Then a claim whose client has gone costs
//! the others such a short lease, until clients subscribe anew.

use lock_core::Error;

use crate::link::{Live, history};
use crate::wire::{Command, Failure, Reply};

/// The beginning of the name of the history, in hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term([u8; Term::DIGITS]);

impl Term {
    pub(super) const DIGITS: usize = 6;
    /// Scripts take a client of this term for one of the present term.
    const UNKNOWN: Self = Self([b'0'; Self::DIGITS]);

    /// Asks a server for its term. It is unknown if the server does not say, for example to this user.
    ///
    /// # Errors
    ///
    /// The connection is of no use.
    pub(super) async fn of(live: &Live) -> Result<Self, Error> {
        let answer = live.call(&Command::words(&["INFO", "replication"])).await;
        match answer.map_err(Failure::into_error) {
            Ok(Reply::Text(text)) => Ok(Self::read(&text)),
            Err(error) if error.is_retryable() => Err(error),
            Ok(_) | Err(_) => Ok(Self::UNKNOWN),
        }
    }

    fn read(info: &[u8]) -> Self {
        let digits = history(info).and_then(|name| name.first_chunk::<{ Self::DIGITS }>());
        digits.map_or(Self::UNKNOWN, |digits| Self(*digits))
    }

    /// The channel of a client, by its name in any term.
    pub(super) fn name(self, inbox: &[u8]) -> Vec<u8> {
        let mut named = inbox.to_vec();
        if let Some(end) = named.last_chunk_mut::<{ Self::DIGITS }>() {
            *end = self.0;
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_term_is_the_beginning_of_a_history() {
        let info = b"role:master\r\nmaster_failover_state:no-failover\r\nmaster_replid:0a1b2c3d4e\r\nmaster_replid2:00\r\n";
        assert_eq!(Term::read(info), Term(*b"0a1b2c"));
        assert_eq!(Term::read(b"role:master"), Term::UNKNOWN);
        assert_eq!(Term::read(b"master_replid:0a1"), Term::UNKNOWN);
        assert_eq!(Term::read(b"master_replid:0A1b2c"), Term::UNKNOWN);
    }

    #[test]
    fn an_inbox_ends_in_the_term() {
        let inbox = Term(*b"0a1b2c").name(b"lock:inbox:0123456789000000");
        assert_eq!(inbox, b"lock:inbox:01234567890a1b2c");
        assert_eq!(Term(*b"777777").name(&inbox), b"lock:inbox:0123456789777777");
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(info in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(Term::read(&info).0.iter().all(u8::is_ascii_hexdigit));
        }
    }
}
