//! What can be wrong with a lock.

use std::fmt;
use std::str::FromStr;

/// What is wrong with the lock. Each was seen in a library that people use, or in a paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// Nothing.
    None,
    /// A release deletes the lock, whoever has it by now: the first recipe that most people write.
    NoOwnerCheck,
    /// A lease is counted from when its answer came, not from when it was asked for (Redlock's validity is the
    /// ttl less what it took, less the drift of clocks).
    NoValidity,
    /// A renewal adds to the deadline that the grant had. node-redlock, too, dated extensions from the acquire.
    ExtensionFromAcquire,
    /// Whoever is refused subscribes, and sleeps: what is released in between is not heard of (redis-lock-py).
    CheckThenSubscribe,
    /// Whoever was disconnected subscribes anew, and sleeps on (Redisson).
    NoRecheck,
    /// Of two that wait in a process, the first gives up, and the second is never woken (tokio's mutex of 2019,
    /// embassy, shuttle).
    SilentHead,
    /// The lock is handed to the head of the queue, dead or not, for a whole lease (Redisson's fair lock).
    DeadGrant,
    /// A token is the highest of a majority's counters, and they are not told (failures of a model: variant A).
    NoWriteBack,
    /// They are told, even if the lock is someone else's by then (variant B).
    BlindWriteBack,
    /// A server that has a marker is believed to have its locks, too. A copy from before has both.
    MarkerAlone,
    /// A renewal sets the key, whether it is there or not: RedLock.net's script makes one that is gone.
    RenewRecreates,
    /// The time to live of a renewal is rounded down to whole seconds: of `PEXPIRE 0`, Redis makes a deletion.
    RenewZero,
    /// Half of the servers are a majority.
    HalfMajority,
    /// The lock goes from task to task, and nobody looks whether there is still a lease.
    NoDeadlineCheck,
    /// The lock goes from task to task, with one token for all.
    ReusedToken,
    /// Whoever comes last in a process is served first.
    QueueIgnored,
    /// The lock goes from task to task for as long as there are any, though others wait elsewhere.
    NoBudget,
    /// The token that the resource is shown is that of the first lease of the process (Redisson reads whatever
    /// token there is).
    OtherToken,
    /// Tokens come from `INCR`: they begin anew after a flush, or a failover (Redisson's fenced lock).
    PlainCounter,
    /// An upgrade lets go of what it has, and asks for what it wants (advice on many boards).
    UpgradeGap,
    /// How many permits are out is asked first, and one more taken then (distributed-lock-redis).
    CheckThenTake,
    /// A try that was refused is refused for as long as that lease was to live, without asking again.
    StaleTry,
    /// A lock has no time to live (redis-py, by default): it outlives who held it.
    NoTtl,
    /// Each refusal keeps a connection.
    LeakConnection,
    /// Each lease leaves a key behind, for ever (Redisson's tokens: 25 million of them).
    LeakKey,
    /// Who waits for a lock, waits: no limit is kept (rslock).
    Endless,
    /// A holder is told nothing when its lease is lost (RedLock.net, redsync).
    MuteLoss,
    /// A client whose connection was closed does not open another.
    NoReconnect,
    /// A barrier opens for one too few: it counts those who gave up (a counter and no list).
    EarlyBarrier,
    /// A value is stored by whoever has made one, whether the lock is still its own or not (what most people write
    /// who cache something under a lock).
    BlindStore,
}

impl Flaw {
    /// All of them, and none.
    pub(crate) const ALL: [(Self, &str); 31] = [
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
    ];
}

impl Flaw {
    /// Whether those who wait rely on what they are told, and have no timer (rueidislock).
    pub(super) fn relies_on_messages(self) -> bool {
        matches!(self, Self::CheckThenSubscribe | Self::NoRecheck)
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(flaw, _)| flaw == self).map(|(_, name)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

impl FromStr for Flaw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text).map(|(flaw, _)| *flaw);
        found.ok_or_else(|| format!("there is no flaw {text}"))
    }
}
