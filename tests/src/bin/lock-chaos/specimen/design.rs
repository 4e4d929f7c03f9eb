//! The designs of locks on one Redis server that came before the pattern of today.

use std::fmt;
use std::str::FromStr;

/// A design that was once recommended, or that people still copy. Everything that it leaves open is done right here, so
/// it fails in one way only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Design {
    /// `SET NX PX`, and a script that compares and deletes: the pattern of today. Exclusion holds.
    Today,
    /// `SETNX` with a timestamp. If the timestamp is over, `DEL` and `SETNX`: two clients may do so at once, and the
    /// second deletes the lock of the first.
    SetnxDelete,
    /// As above, and no reply to `GET` is read as the timestamp 0, which is over. The lock that is then deleted may be
    /// the fresh lock of another client.
    SetnxNil,
    /// `SETNX` with a timestamp. If the timestamp is over, `GETSET`. It is over too early for a client whose clock is
    /// ahead.
    SetnxGetset,
    /// `SETNX`, then `EXPIRE`. A client that dies in between leaves a lock without an end.
    SetnxExpire,
    /// `SET NX PX`, and `DEL` without a comparison.
    PlainDelete,
    /// `SET NX PX`, and `GET`, a comparison by the client, and `DEL`.
    GetThenDelete,
}

impl Design {
    const ALL: [(Self, &str); 7] = [
        (Self::Today, "set-nx-px"),
        (Self::SetnxDelete, "setnx-delete"),
        (Self::SetnxNil, "setnx-nil"),
        (Self::SetnxGetset, "setnx-getset"),
        (Self::SetnxExpire, "setnx-expire"),
        (Self::PlainDelete, "plain-delete"),
        (Self::GetThenDelete, "get-then-delete"),
    ];

    /// Whether the value is a time of day by the clock of the client. Otherwise the server counts the lease.
    pub(super) fn has_timestamps(self) -> bool {
        matches!(self, Self::SetnxDelete | Self::SetnxNil | Self::SetnxGetset)
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(design, _)| design == self).map(|(_, name)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

impl FromStr for Design {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text).map(|(design, _)| *design);
        found.ok_or_else(|| format!("there is no design {text}"))
    }
}
