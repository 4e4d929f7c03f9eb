//! The audit line of a forced release: the requester, the outcome, and the holders.

use std::fmt;
use std::os::unix::net::UnixDatagram;

use lock_core::{Error, ErrorKind, Inspection, Key, Label};

use crate::view::records::name;
use crate::view::shown::count;

/// The socket on which the system takes log messages.
const SYSLOG: &str = "/dev/log";
/// The facility `authpriv` at the level `notice`.
const PRIORITY: u8 = (10 << 3) | 5;

/// The requester: a person or a program.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    label: Label,
    /// The name of the user, from the environment.
    user: String,
    /// The number by which the system knows the user. The environment cannot change it.
    uid: u32,
}

impl Requester {
    pub(crate) fn new(label: Label) -> Self {
        let user =
            ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(|it| std::env::var(it).ok());
        let user = user.unwrap_or_else(|| "?".to_owned());
        let uid = rustix::process::getuid().as_raw();
        Self { label, user: user.chars().filter(|it| !it.is_control()).collect(), uid }
    }
}

/// The outcome of a forced release that was sent.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The store has ended so many leases.
    Ended(u64),
    /// The store has answered with an error, or not at all.
    Failed(Error),
    /// `dlock` ended before the answer.
    Left,
}

/// Readers of the log compare these words, so they contain no message of the store.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended(leases) => return write!(f, "{} ended", count(*leases, "lease")),
            Self::Failed(error) if is_refusal(error) => "no lease ended, because the store refused",
            Self::Failed(_) => "outcome unknown, because the store gave no clear answer",
            Self::Left => "outcome unknown, because dlock ended before the answer",
        })
    }
}

/// Whether the store has certainly ended no lease.
fn is_refusal(error: &Error) -> bool {
    use ErrorKind::{Denied, ForeignKey, InvalidConfig, InvalidKey, InvalidTtl, Unsupported};
    matches!(
        error.kind(),
        Denied | ForeignKey | InvalidConfig | InvalidKey | InvalidTtl | Unsupported
    )
}

/// The line: the requester, the lock, the outcome, and the holders that an inspection saw just before.
pub(crate) fn line(
    requester: &Requester,
    lock: &Key,
    outcome: &Outcome,
    before: &Inspection,
) -> String {
    let Requester { label, user, uid } = requester;
    let holders: Vec<_> = before.holders.iter().map(ToString::to_string).collect();
    let others = before.holding.saturating_sub(holders.len() as u64);
    let others = if others > 0 { format!(" and {others} more") } else { String::new() };
    let (host, pid) = (rustix::system::uname(), std::process::id());
    format!(
        "audit: {user}@{} ({label}, uid {uid}, process {pid}) released `{}` by force: {outcome}; held by {}{others}",
        host.nodename().to_string_lossy(),
        name(lock),
        if holders.is_empty() { "no client that was seen".to_owned() } else { holders.join(", ") },
    )
}

/// Writes the line to the log of the system where there is one, and to subscribers of traces.
pub(crate) fn log(line: &str) {
    tracing::warn!(target: "dlock::audit", "{line}");
    to_syslog(SYSLOG, line);
}

/// If the log is absent or full, it loses the line. Standard error has the line as well.
fn to_syslog(socket: &str, line: &str) {
    let Ok(log) = UnixDatagram::unbound() else { return };
    _ = log.set_nonblocking(true);
    let message = format!("<{PRIORITY}>dlock[{}]: {line}", std::process::id());
    _ = log.send_to(message.as_bytes(), socket);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::{FencingToken, Holder, Kind};

    use super::*;

    #[test]
    fn the_line_names_requester_lock_and_holders() {
        let requester =
            Requester { label: Label::new("on call").unwrap(), user: "ann".to_owned(), uid: 7 };
        let left = Duration::from_secs(8);
        let holder = Holder::new(Kind::Exclusive, Some(FencingToken::new(7)), Some(left));
        let holder = holder.labelled(Label::new("billing@web-3:71").ok());
        let seen = Inspection::new((vec![holder], 2), (Vec::new(), 0));
        let line = line(&requester, &Key::new("a\nb").unwrap(), &Outcome::Ended(2), &seen);
        assert!(line.starts_with("audit: ann@"), "{line}");
        for part in [
            "(on call, uid 7, process ",
            "released `a\\nb` by force: 2 leases ended; ",
            "held by billing@web-3:71 (exclusive, token 7, 8.0s left) and 1 more",
        ] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn an_outcome_is_known_only_from_a_clear_answer() {
        let failed = |kind| Outcome::Failed(Error::new(kind, "it says; held by")).to_string();
        for kind in [ErrorKind::Denied, ErrorKind::ForeignKey, ErrorKind::Unsupported] {
            assert_eq!(failed(kind), "no lease ended, because the store refused", "{kind:?}");
        }
        let unknown = "outcome unknown, because the store gave no clear answer";
        for kind in [
            ErrorKind::Timeout,
            ErrorKind::Unreachable,
            ErrorKind::NotReady,
            ErrorKind::Protocol,
            ErrorKind::ShuttingDown,
            ErrorKind::Other,
        ] {
            assert_eq!(failed(kind), unknown, "{kind:?}");
        }
    }

    #[test]
    fn the_log_of_the_system_gets_one_message_and_an_absent_log_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let path = path.to_str().unwrap();
        to_syslog(path, "nothing listens");
        let log = UnixDatagram::bind(path).unwrap();
        to_syslog(path, "audit: it is so");
        let mut room = [0; 100];
        let length = log.recv(&mut room).unwrap();
        let text = String::from_utf8_lossy(&room[..length]);
        assert!(text.starts_with("<85>dlock[") && text.ends_with("]: audit: it is so"), "{text}");
    }
}
