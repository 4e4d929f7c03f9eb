//! The flaws of the specimen.

use std::fmt;
use std::str::FromStr;

use super::design::Design;

/// A flaw of the lock. Each was seen in a library that people use, or in a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// Nothing.
    None,
    /// A release deletes the lock, whichever owner has it by now: the first recipe that most people write.
    NoOwnerCheck,
    /// A lease is counted from its answer, not from its request (Redlock's validity is the ttl less the time of
    /// the request, less the drift of clocks).
    NoValidity,
    /// A renewal adds to the deadline that the grant had. node-redlock, too, dated extensions from the acquire.
    ExtensionFromAcquire,
    /// A refused waiter subscribes, and sleeps: it does not hear of a release in between (redis-lock-py).
    CheckThenSubscribe,
    /// A disconnected waiter subscribes again, and sleeps on (Redisson).
    NoRecheck,
    /// If the first of two waiters in a process gives up, the second is never woken (tokio's mutex of 2019,
    /// embassy, shuttle).
    SilentHead,
    /// The lock is handed to the head of the queue, dead or not, for a whole lease (Redisson's fair lock).
    DeadGrant,
    /// A token is the highest of a majority's counters, and is not written back to them (failures of a model:
    /// variant A).
    NoWriteBack,
    /// It is written back even if another owner has the lock by then (variant B).
    BlindWriteBack,
    /// The client trusts the locks of a server that has a marker. A restored copy has both.
    MarkerAlone,
    /// A renewal sets the key even if it is absent: RedLock.net's script recreates a lost key.
    RenewRecreates,
    /// A renewal rounds the time to live down to whole seconds: Redis takes `PEXPIRE 0` for a deletion.
    RenewZero,
    /// A vote that was given up is asked for again under one name. A release of the first vote that arrives late
    /// deletes the second (an earlier version of this library).
    ReusedBallot,
    /// Half of the servers are a majority.
    HalfMajority,
    /// The lock goes from task to task, without a check that there is still a lease.
    NoDeadlineCheck,
    /// The lock goes from task to task, with one token for all.
    ReusedToken,
    /// The last waiter in a process is served first.
    QueueIgnored,
    /// The lock goes from task to task for as long as the process has waiters, though other processes wait.
    NoBudget,
    /// The resource gets the token of the first lease of the process (Redisson reads the present token, whichever
    /// owner it belongs to).
    OtherToken,
    /// Tokens come from `INCR`: they begin anew after a flush, or a failover (Redisson's fenced lock).
    PlainCounter,
    /// An upgrade releases its hold, and asks for the new one (advice on many boards).
    UpgradeGap,
    /// The client first asks how many permits are held, and then takes one more (distributed-lock-redis).
    CheckThenTake,
    /// After a refusal, further tries are refused without a request until the end of that lease.
    StaleTry,
    /// A lock has no time to live (redis-py, by default): it outlives its holder.
    NoTtl,
    /// Each refusal keeps a connection.
    LeakConnection,
    /// Each lease leaves a key behind, for ever (Redisson's tokens: 25 million of them).
    LeakKey,
    /// A waiter waits without end: no time limit is obeyed (rslock).
    Endless,
    /// A holder does not hear that its lease is lost (RedLock.net, redsync).
    MuteLoss,
    /// A client whose connection was closed does not open another.
    NoReconnect,
    /// A barrier opens for one arrival too few: it counts tasks that gave up (a counter and no list).
    EarlyBarrier,
    /// A maker stores its value even if it no longer holds the lock (the usual code of a cache under a lock).
    BlindStore,
    /// A commit stores its value even if the client no longer holds the lock (a `SET` after the work).
    BlindCommit,
    /// The value is loaded before the lock is granted (the usual code: load, lock, change, store).
    EarlyLoad,
    /// A value is stored in two halves, one after the other (a record with two keys, and no transaction).
    HalvedValue,
    /// A commit stores the value, and leaves the version as it was.
    ForgottenVersion,
    /// A stream of versions relies on messages, and subscribes after it has loaded the value.
    DeafStream,
    /// The lock has a historic design.
    Historic(Design),
}

impl Flaw {
    /// All of them but the historic designs, and none.
    pub(crate) const ALL: [(Self, &str); 37] = [
        (Self::None, "none"),
        (Self::NoOwnerCheck, "no-owner-check"),
        (Self::NoValidity, "no-validity"),
        (Self::ExtensionFromAcquire, "extension-from-acquire"),
        (Self::CheckThenSubscribe, "check-then-subscribe"),
        (Self::NoRecheck, "no-recheck"),
        (Self::SilentHead, "silent-head"),
        (Self::DeadGrant, "dead-grant"),
        (Self::NoWriteBack, "no-write-back"),
        (Self::BlindWriteBack, "blind-write-back"),
        (Self::MarkerAlone, "marker-alone"),
        (Self::RenewRecreates, "renew-recreates"),
        (Self::RenewZero, "renew-zero"),
        (Self::ReusedBallot, "reused-ballot"),
        (Self::HalfMajority, "half-majority"),
        (Self::NoDeadlineCheck, "no-deadline-check"),
        (Self::ReusedToken, "reused-token"),
        (Self::QueueIgnored, "queue-ignored"),
        (Self::NoBudget, "no-budget"),
        (Self::OtherToken, "other-token"),
        (Self::PlainCounter, "plain-counter"),
        (Self::UpgradeGap, "upgrade-gap"),
        (Self::CheckThenTake, "check-then-take"),
        (Self::StaleTry, "stale-try"),
        (Self::NoTtl, "no-ttl"),
        (Self::LeakConnection, "leak-connection"),
        (Self::LeakKey, "leak-key"),
        (Self::Endless, "endless"),
        (Self::MuteLoss, "mute-loss"),
        (Self::NoReconnect, "no-reconnect"),
        (Self::EarlyBarrier, "early-barrier"),
        (Self::BlindStore, "blind-store"),
        (Self::BlindCommit, "blind-commit"),
        (Self::EarlyLoad, "early-load"),
        (Self::HalvedValue, "halved-value"),
        (Self::ForgottenVersion, "forgotten-version"),
        (Self::DeafStream, "deaf-stream"),
    ];
}

impl Flaw {
    /// Whether waiters rely on messages, and have no timer (rueidislock).
    pub(super) fn relies_on_messages(self) -> bool {
        matches!(self, Self::CheckThenSubscribe | Self::NoRecheck)
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Historic(design) = self {
            return design.fmt(f);
        }
        let name = Self::ALL.iter().find(|(flaw, _)| flaw == self).map(|(_, name)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

impl FromStr for Flaw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text).map(|(flaw, _)| *flaw);
        found.map_or_else(|| text.parse().map(Self::Historic), Ok)
    }
}
