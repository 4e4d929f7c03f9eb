//! What a commit means for a grant; pure.

use std::time::Duration;

use lock_core::{Error, ErrorKind};

use crate::hub::number;
use crate::wire::Reply;

/// How grants are to be confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// How many replicas there are, each of which has to have the grant.
    pub(crate) replicas: u32,
    /// How long they may take.
    pub(crate) timeout: Duration,
    /// Whether the server and its replicas have to have it on disk.
    pub(crate) on_disk: bool,
}

/// The name of the history of a server's data.
pub(super) type Term = Box<[u8]>;

/// What the server says as it writes a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marked {
    pub(super) term: Term,
    /// How many replicas are attached.
    pub(super) attached: u32,
}

/// The outcome of a commit.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// So many replicas have the marker, and the server has it where it has to.
    Acknowledged { marked: Marked, count: u32, is_local: bool },
    /// It failed before the replicas were asked.
    Failed(Error),
}

/// Reads `term replicas`.
pub(super) fn marked(reply: &Reply) -> Option<Marked> {
    let Reply::Text(text) = reply else { return None };
    let at = text.iter().position(|byte| *byte == b' ')?;
    let (term, attached) = (&text[..at], number(&text[at + 1..])?);
    let is_term = !term.is_empty() && term.iter().all(u8::is_ascii_hexdigit);
    is_term.then(|| Marked { term: term.into(), attached })
}

/// Reads the answer to `WAIT`, or to `WAITAOF`: how many replicas have acknowledged, and whether the server itself has
/// the marker where it has to.
pub(super) fn acknowledged(reply: &Reply) -> Option<(u32, bool)> {
    match reply {
        Reply::Int(count) => Some((u32::try_from(*count).ok()?, true)),
        Reply::List(counts) => match counts[..] {
            [Reply::Int(local), Reply::Int(count)] => Some((u32::try_from(count).ok()?, local > 0)),
            _ => None,
        },
        _ => None,
    }
}

impl Wish {
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the wish makes no sense where a command may take this long.
    pub(crate) fn new(
        replicas: u32,
        timeout: Duration,
        on_disk: bool,
        command_timeout: Duration,
    ) -> Result<Self, Error> {
        let invalid = |message: &'static str| Err(Error::new(ErrorKind::InvalidConfig, message));
        if replicas == 0 {
            return invalid("grants are confirmed by at least one replica");
        }
        if timeout < Duration::from_millis(2) || timeout > command_timeout / 2 {
            return invalid(
                "replicas have at least 2 ms to confirm a grant, and at most half of the command timeout",
            );
        }
        Ok(Self { replicas, timeout, on_disk })
    }

    /// Whether the replicas are to be asked: exactly those are attached that count.
    pub(super) fn is_met_by(self, marked: &Marked) -> bool {
        marked.attached == self.replicas
    }

    /// Whether a grant is confirmed that was asked for under this term, or later, and answered before the commit.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotReady`] if it is not, or the error of the commit.
    pub(super) fn judge(self, term: &Term, outcome: Outcome) -> Result<(), Error> {
        let Self { replicas, timeout, on_disk } = self;
        let (marked, count, is_local) = match outcome {
            Outcome::Failed(error) => return Err(error),
            Outcome::Acknowledged { marked, count, is_local } => (marked, count, is_local),
        };
        let place = if on_disk { " on disk" } else { "" };
        let message = if marked.term != *term {
            "the term of the server has changed".to_owned()
        } else if !self.is_met_by(&marked) {
            format!("{} replicas are attached instead of {replicas}", marked.attached)
        } else if count < replicas {
            format!("{count} of {replicas} replicas have it{place} after {timeout:?}")
        } else if !is_local {
            format!("the server does not have it on disk after {timeout:?}")
        } else {
            return Ok(());
        };
        Err(unconfirmed(&message))
    }
}

/// A grant that is not confirmed, for this reason.
pub(super) fn unconfirmed(why: &str) -> Error {
    Error::new(ErrorKind::NotReady, format!("the lease is not confirmed: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    fn wish() -> Wish {
        Wish { replicas: 2, timeout: Duration::from_millis(500), on_disk: false }
    }

    fn outcome(term: &[u8], attached: u32, count: u32, is_local: bool) -> Outcome {
        Outcome::Acknowledged { marked: Marked { term: term.into(), attached }, count, is_local }
    }

    #[test]
    fn only_all_replicas_under_one_term_confirm() {
        let judge = |outcome| wish().judge(&b"a0"[..].into(), outcome);
        assert!(judge(outcome(b"a0", 2, 2, true)).is_ok());
        for (bad, says) in [
            (outcome(b"a1", 2, 2, true), "the term of the server has changed"),
            (outcome(b"a0", 3, 3, true), "3 replicas are attached instead of 2"),
            (outcome(b"a0", 1, 1, true), "1 replicas are attached instead of 2"),
            (outcome(b"a0", 2, 1, true), "1 of 2 replicas have it after 500ms"),
            (outcome(b"a0", 2, 2, false), "the server does not have it on disk after 500ms"),
        ] {
            let error = judge(bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotReady);
            assert!(error.is_retryable());
            assert!(error.to_string().contains(says), "{error}");
        }
        let failed = Outcome::Failed(Error::new(ErrorKind::Denied, "no"));
        assert_eq!(judge(failed).unwrap_err().kind(), ErrorKind::Denied);
    }

    #[test]
    fn what_the_server_says_is_read() {
        let text = |text: &str| Reply::Text(text.into());
        let read = marked(&text("0a1b 2"));
        assert_eq!(read, Some(Marked { term: b"0a1b"[..].into(), attached: 2 }));
        for bad in ["", "0a1b", " 2", "0a1b ", "0a1b -1", "0a1b 2 ", "0x1b 2"] {
            assert_eq!(marked(&text(bad)), None, "{bad}");
        }
        assert_eq!(acknowledged(&Reply::Int(2)), Some((2, true)));
        let list = |counts: &[i64]| Reply::List(counts.iter().map(|it| Reply::Int(*it)).collect());
        assert_eq!(acknowledged(&list(&[0, 2])), Some((2, false)));
        assert_eq!(acknowledged(&list(&[1, 2])), Some((2, true)));
        assert_eq!(acknowledged(&list(&[1])), None);
        assert_eq!(acknowledged(&Reply::Int(-1)), None);
    }

    proptest! {
        #[test]
        fn no_reply_does_harm(reply in garbage::replies()) {
            let _ = (marked(&reply), acknowledged(&reply));
        }
    }
}
