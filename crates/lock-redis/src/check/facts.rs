//! What the check asks of one server, before any judgement.

use lock_core::check::{ClockOffset, Rehearsal};
use lock_core::{Error, ErrorKind, check};

use super::info::Info;
use crate::options::Notifications;

/// The facts about the servers of a deployment.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    /// The hosts, without credentials.
    pub(super) name: String,
    /// Whether another server may take over from one of these, and may lack grants.
    pub(super) is_unconfirmed: bool,
    /// How many slots of a cluster have no server.
    pub(super) uncovered: usize,
    /// The sentinels of which the client knows.
    pub(super) sentinels: Vec<Sentinel>,
    pub(super) servers: Vec<Facts>,
}

/// The facts about one server.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// The address and the database, without credentials.
    pub(super) server: String,
    pub(super) wants: Wants,
    pub(super) info: Probe<Info>,
    /// The answer to `ROLE`, which is asked only where `INFO` does not say.
    pub(super) is_replica: Probe<bool>,
    pub(super) config: Probe<Config>,
    /// The setting `notify-keyspace-events`.
    pub(super) notifications: Probe<String>,
    /// How many clients listen as Sentinels do; asked only where there may be replicas.
    pub(super) sentinels: Probe<u64>,
    /// The clocks of the replicas, if the client may have to follow one.
    pub(super) replicas: Vec<Replica>,
    /// Whether another connection led to another server.
    pub(super) differs: bool,
    /// Two looks at the clock, the second one at the end of the check.
    pub(super) clock: Probe<[Look; 2]>,
    pub(super) scripts: Scripts,
    /// The commands that the server refuses to this user, as far as locks need them here.
    pub(super) refused: Probe<Vec<String>>,
    /// Why keys are not tracked, if they should be.
    pub(super) untracked: Option<String>,
    /// `None` if there was no rehearsal: it could not have succeeded, or another server of the cluster has its lock.
    pub(super) rehearsal: Option<Rehearsal>,
}

/// A sentinel, and what it says; or why it does not.
#[derive(Clone, Debug)]
pub(super) struct Sentinel {
    pub(super) address: String,
    pub(super) view: Result<View, String>,
    /// Why the client hears of no failover from it, though it answers.
    pub(super) unheard: Option<String>,
}

/// What a sentinel says of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) primary: String,
    /// How many other sentinels it knows.
    pub(super) others: u64,
    /// How many of them decide that the primary is down.
    pub(super) quorum: u64,
}

/// A replica, and a look at its clock.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    pub(super) address: String,
    pub(super) clock: Probe<Look>,
}

/// What the app wants of the server.
#[derive(Clone, Debug)]
pub(super) struct Wants {
    /// The prefix of the keys of locks.
    pub(super) prefix: String,
    pub(super) notifications: Notifications,
    /// Whether requests want a place in the queue.
    pub(super) queues: bool,
    /// Whether the client knows that other servers have other keys, or may take over.
    pub(super) follows: bool,
    /// How many replicas there have to be, all of which confirm a grant. `None` if none has to.
    pub(super) confirms: Option<u32>,
    /// Whether a server that lost its data sits out.
    pub(super) sits_out: bool,
}

/// The answer to a question that the server may refuse.
#[derive(Clone, Debug)]
pub(super) enum Probe<T> {
    Known(T),
    /// The server refused, in these words.
    Refused(String),
    /// Nothing was asked.
    Skipped,
}

/// The settings that only `CONFIG GET` shows. A setting is `None` if the server does not have it.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    pub(super) appendfsync: Option<String>,
    pub(super) save: Option<String>,
    pub(super) min_replicas_to_write: Option<String>,
}

/// One look at the clock of the server, between two looks at the clocks of this machine. In microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// The wall clock of this machine before the request.
    pub(super) wall: i64,
    /// A clock of this machine that is never set, before the request.
    pub(super) steady: i64,
    /// How long the answer took.
    pub(super) took: i64,
    /// The clock of the server.
    pub(super) told: i64,
}

/// How the server takes scripts.
#[derive(Clone, Debug, Default)]
pub(super) struct Scripts {
    /// Why scripts cannot be loaded, though they can be sent.
    pub(super) unloaded: Option<String>,
    /// Why there are no scripts at all.
    pub(super) refused: Option<(ErrorKind, String)>,
    /// Whether every request sends its whole script.
    pub(super) sent_whole: bool,
}

impl<T> Probe<T> {
    /// The answer, or the refusal.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or does not answer.
    pub(super) fn of(outcome: Result<T, Error>) -> Result<Self, Error> {
        match outcome {
            Ok(value) => Ok(Self::Known(value)),
            Err(error) if is_silence(&error) => Err(error),
            Err(error) => Ok(Self::Refused(error.to_string())),
        }
    }

    pub(super) fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Refused(_) | Self::Skipped => None,
        }
    }

    pub(super) fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused(why) => Some(why),
            Self::Known(_) | Self::Skipped => None,
        }
    }
}

/// Whether an error tells nothing of the server.
pub(super) fn is_silence(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::ShuttingDown)
}

impl Facts {
    /// Whether the server is a replica; `None` if it does not say.
    pub(super) fn is_replica(&self) -> Option<bool> {
        let of_info = self.info.known().and_then(|info| info.get("role"));
        of_info.map(|role| role == "slave").or_else(|| self.is_replica.known().copied())
    }

    /// How far the clock of the server is ahead.
    pub(super) fn offset(&self) -> Option<ClockOffset> {
        let [_, last] = self.clock.known()?;
        Some(last.offset())
    }
}

impl Look {
    /// How far the clock of the server is ahead.
    pub(super) fn offset(&self) -> ClockOffset {
        check::Look { wall: self.wall, took: self.took, told: self.told }.offset()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_fact_and_silence_is_not() {
        let of = |kind| Probe::<()>::of(Err(Error::new(kind, "no")));
        for kind in [ErrorKind::Denied, ErrorKind::Unsupported, ErrorKind::Protocol] {
            assert_eq!(of(kind).unwrap().refusal(), Some("no"));
        }
        for kind in [ErrorKind::Unreachable, ErrorKind::Timeout] {
            assert_eq!(of(kind).unwrap_err().kind(), kind);
        }
        assert_eq!(Probe::of(Ok(7)).unwrap().known(), Some(&7));
    }
}
