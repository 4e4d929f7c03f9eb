//! The promises that must hold during a fault, and those that are excluded.
//!
//! Every promise that no rule excludes must hold. So a violation is either named here or a bug.
#![doc = include_str!("table.md")]

mod sequels;

use std::time::Duration;

use super::check::Property::{self, *};
use super::{Deployment, Extent, Fault, Fault::*, Victim};

pub use sequels::{MISSES_VALUES, SETS_TOKENS_BACK, keeps_writes_away, sets_tokens_back};

/// Whether a promise must hold during a fault, for one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Promise {
    /// It must.
    Holds,
    /// It is not promised, for this reason, while the fault lasts and this long after it.
    Excluded(&'static str, Lasts),
}

/// How long a fault still shows after it was healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the table knows these")]
pub enum Lasts {
    /// No longer than the lateness of the machine.
    Meanwhile,
    /// For the rest of the leases, and until a client asks after that.
    Lease,
    /// For as long as nodes that may have forgotten leases abstain, and then as [`Lease`](Self::Lease).
    Quarantine,
    /// To the end of the run.
    Ever,
}

/// The target of a fault, as far as it matters for the promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The memory backend of a process.
    Memory,
    /// The only server, or the links to it.
    Server,
    /// The only server, of PostgreSQL, or the links to it.
    Postgres,
    /// The only server, of etcd, or the links to it.
    Etcd,
    /// Members of a cluster of etcd, or the links to them.
    Members,
    /// Fewer than half of the servers of a quorum.
    Minority,
    /// More than half of them.
    Majority,
    /// A deployment in which another server takes over.
    Takeover,
    /// As above, and all replicas confirm every grant.
    Confirmed,
}

/// The exclusions while one of these faults has one of these reaches.
struct Rule {
    faults: &'static [Fault],
    reach: &'static [Reach],
    excludes: &'static [Property],
    why: &'static str,
    lasts: Lasts,
}

/// Data is lost.
const FORGETS: &[Fault] = &[KillEmpty, KillStale, Flush, Evict, StoreForgets];
/// Data is lost, and a node of a quorum notices it itself.
const FORGETS_AND_KNOWS: &[Fault] = &[KillEmpty, KillStale, Flush];
/// A server does not serve requests.
const AWAY: &[Fault] = &[
    KillKept,
    KillEmpty,
    KillStale,
    StopServer,
    Flush,
    Evict,
    OutOfMemory,
    KillClients,
    PauseClients,
    RevokeRights,
    StoreFails,
    StoreForgets,
];
/// Another server takes over, without a replica that has confirmed what it has.
const FAILS_OVER: &[Fault] =
    &[FailOver, KillPrimary, CutAndFailOver, PausePrimary, PartitionPrimary];
const LINKS: &[Fault] =
    &[Delay, Jitter, Straggle, Silence, HalfOpen, Reset, Partition, CutReplies, Dribble, Duplicate];

const ALONE: &[Reach] = &[Reach::Memory, Reach::Server, Reach::Postgres, Reach::Etcd];
const MOST: &[Reach] = &[
    Reach::Memory,
    Reach::Server,
    Reach::Postgres,
    Reach::Etcd,
    Reach::Members,
    Reach::Majority,
    Reach::Takeover,
    Reach::Confirmed,
];
const ANY: &[Reach] = &[
    Reach::Memory,
    Reach::Server,
    Reach::Postgres,
    Reach::Etcd,
    Reach::Members,
    Reach::Minority,
    Reach::Majority,
    Reach::Takeover,
    Reach::Confirmed,
];
const TAKEOVER: &[Reach] = &[Reach::Takeover];
const SERVERS: &[Reach] = &[Reach::Server, Reach::Minority, Reach::Majority];
const QUORUM: &[Reach] = &[Reach::Minority, Reach::Majority];

/// Two holders never have what only one can have.
const SAFE: &[Property] = &[Exclusion, Conversions, Permits, Resource];
/// What a server promises that keeps its leases and its data.
const KEPT: &[Property] =
    &[Exclusion, Conversions, Permits, Resource, Barriers, Tokens, Values, Commits, Snapshots];
/// A waiter that can be served is served.
const LIVE: &[Property] = &[Wakeups, Tries, Recovery, Overtaking];

/// The names of these groups in the page.
const GROUPS: [(&str, &[Property]); 2] = [("safety", SAFE), ("service", LIVE)];

const RULES: &[Rule] = &[
    Rule {
        faults: FORGETS,
        reach: ALONE,
        excludes: &[
            Exclusion,
            Conversions,
            Permits,
            Resource,
            Barriers,
            Values,
            Commits,
            Snapshots,
        ],
        why: "the store has forgotten the holder of a lock, and the holder hears of that when it renews",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: FORGETS,
        reach: ALONE,
        excludes: &[Tokens],
        why: "a process that has not heard of the loss yet passes on tokens that it reserved before",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[Evict],
        reach: QUORUM,
        excludes: &[Exclusion, Conversions, Permits, Resource, Tokens, Values, Commits, Snapshots],
        why: "a server cannot tell that it has evicted a lock: its policy must be `noeviction`",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: FORGETS_AND_KNOWS,
        reach: &[Reach::Majority],
        excludes: &[Wakeups, Tries, Recovery, Overtaking, Errors],
        why: "nodes that may have forgotten a lease abstain for the time of the longest lease",
        lasts: Lasts::Quarantine,
    },
    Rule {
        faults: &[ClockJump],
        reach: SERVERS,
        excludes: KEPT,
        why: "the server counts leases by a clock that was set, and two majorities may have only that server in common",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[ClockJump],
        reach: &[Reach::Server, Reach::Majority],
        excludes: LIVE,
        why: "when a clock is set back, keys that were left behind before live longer by that time",
        lasts: Lasts::Ever,
    },
    Rule {
        faults: &[ClockJump],
        reach: ANY,
        excludes: &[Leaks],
        why: "keys expire by the clock that was set",
        lasts: Lasts::Ever,
    },
    Rule {
        faults: &[ClockJump],
        reach: SERVERS,
        excludes: &[Errors],
        why: "a lease that ends early is lost",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: AWAY,
        reach: MOST,
        excludes: &[Wakeups, Tries, Recovery, Overtaking, Errors],
        why: "no client is served without the server, and a grant whose answer was lost stays until its lease ends",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: LINKS,
        reach: MOST,
        excludes: &[Wakeups, Tries, Recovery, Overtaking, Errors],
        why: "late or lost messages are not heard, and a grant whose answer was lost stays until its lease ends",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[Duplicate],
        reach: ALONE,
        excludes: &[Barriers],
        why: "an arrival that is delivered again after it was withdrawn counts until its lease ends",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[FlushScripts],
        reach: MOST,
        excludes: &[Errors],
        why: "a script may be forgotten again as soon as it was loaded",
        lasts: Lasts::Meanwhile,
    },
    Rule {
        faults: FORGETS_AND_KNOWS,
        reach: &[Reach::Majority],
        excludes: &[Values, Commits, Snapshots],
        why: "too few nodes are left that know the stored value",
        lasts: Lasts::Quarantine,
    },
    Rule {
        faults: FAILS_OVER,
        reach: TAKEOVER,
        excludes: KEPT,
        why: "no replica confirms a grant, so the server that takes over may lack it; and the old primary may answer \
              meanwhile, even with higher tokens",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: FAILS_OVER,
        reach: &[Reach::Confirmed],
        excludes: &[Barriers],
        why: "replicas confirm leases and values, and no withdrawals",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: FAILS_OVER,
        reach: &[Reach::Takeover, Reach::Confirmed, Reach::Members],
        excludes: &[Wakeups, Tries, Recovery, Overtaking, Errors],
        why: "no client is served until another server has taken over and the client has found it, and a lock that the \
              old primary handed over or released may be held there until its lease ends",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[StopServer, PausePrimary],
        reach: &[Reach::Members],
        excludes: KEPT,
        why: "a leader whose process has stood still may end leases that were renewed meanwhile: the fix of etcd #15247 is \
              for stalled disks",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[KillWorker],
        reach: ANY,
        excludes: LIVE,
        why: "a lock of a dead process is free when its lease ends",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[StopWorker, BlockExecutor],
        reach: ANY,
        excludes: &[Wakeups, Tries, Recovery, Overtaking, Errors],
        why: "a client that stands still may hold the lock or be the next, and answers come while it stands still",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[StopWorker, BlockExecutor],
        reach: ANY,
        excludes: &[Order],
        why: "a client whose grant ended before it could take the lock asks again",
        lasts: Lasts::Lease,
    },
];

/// Whether a property is promised in a deployment during a fault of this extent.
///
/// For faults of workers the extent does not matter. For one server, and for the memory backend, every extent means
/// the whole store.
pub fn promise(
    deployment: Deployment,
    fault: Fault,
    extent: Extent,
    property: Property,
) -> Promise {
    let reach = match (deployment, extent) {
        (Deployment::Memory, _) => Reach::Memory,
        (Deployment::Redis | Deployment::Plain, _) => Reach::Server,
        (Deployment::Quorum(_), Extent::Minority) => Reach::Minority,
        (Deployment::Quorum(_), Extent::Majority) => Reach::Majority,
        (Deployment::Cluster | Deployment::Service | Deployment::Unguarded, _) => Reach::Takeover,
        (Deployment::Confirmed, _) => Reach::Confirmed,
        (Deployment::Postgres, _) => Reach::Postgres,
        (Deployment::Etcd, _) => Reach::Etcd,
        (Deployment::Members, _) => Reach::Members,
    };
    promised(reach, fault, property)
}

fn promised(reach: Reach, fault: Fault, property: Property) -> Promise {
    let rule = RULES.iter().find(|rule| {
        rule.faults.contains(&fault)
            && rule.reach.contains(&reach)
            && rule.excludes.contains(&property)
    });
    rule.map_or(Promise::Holds, |rule| Promise::Excluded(rule.why, rule.lasts))
}

/// Whether the fault explains an error of this kind, by the name of [`ErrorKind`](lock_core::ErrorKind), if
/// errors are to be expected at all.
pub fn explains(fault: Fault, kind: &str) -> bool {
    let kinds: &[&str] = match fault {
        FlushScripts => &["NotReady"],
        RevokeRights => &["Denied", "Unreachable", "Timeout", "NotReady"],
        OutOfMemory => &["OutOfMemory", "NotReady", "Timeout", "NotHeld"],
        // After the eviction of a part of a lock the rest is no longer a lock.
        Evict => &["OutOfMemory", "NotReady", "Timeout", "NotHeld", "ForeignKey"],
        _ => &["Unreachable", "Timeout", "NotReady", "NotHeld"],
    };
    kinds.contains(&kind)
}

/// Whether a node of a quorum forgets its leases under this fault, and knows it.
pub fn is_forgetful(fault: Fault) -> bool {
    FORGETS_AND_KNOWS.contains(&fault)
}

/// Whether a node of a quorum loses votes under this fault.
pub fn loses_votes(fault: Fault) -> bool {
    FORGETS.contains(&fault)
}

/// Whether a server forgets its data under this fault, including the limits of semaphores, or executes a
/// change of a limit more than once.
pub fn confuses_limits(fault: Fault) -> bool {
    FORGETS.contains(&fault) || FAILS_OVER.contains(&fault) || fault == Duplicate
}

/// Why a campaign may be served after one that began later, where errors are not excluded.
pub const BEGINS_AGAIN: &str = "a campaign whose value could not be stored releases the lock, and starts again at the end of the line";

impl Lasts {
    /// How long a healed fault still shows, if leases live for `lease`, quarantines last for `quarantine` and the
    /// machine is late by `slack`.
    pub fn after(self, lease: Duration, quarantine: Duration, slack: Duration) -> Duration {
        /// A waiter asks at the latest this long after the end of a lease, or after a third of the lease of its place
        /// if that is longer.
        const ASKED: Duration = Duration::from_secs(1);
        /// A waiter that gets the lock by a hand-over and does not use it holds the others up for at most this long.
        const CLAIMED: Duration = Duration::from_secs(1);

        let lease = lease + ASKED.max(lease / 3) + CLAIMED.min(lease) + slack;
        match self {
            Self::Meanwhile => slack,
            Self::Lease => lease,
            Self::Quarantine => quarantine + quarantine / 50 + lease,
            Self::Ever => Duration::MAX,
        }
    }
}

/// The columns of the table.
const COLUMNS: [(&str, Reach); 9] = [
    ("memory", Reach::Memory),
    ("one server", Reach::Server),
    ("quorum: a minority", Reach::Minority),
    ("quorum: a majority", Reach::Majority),
    ("cluster, sentinels", Reach::Takeover),
    ("sentinels, confirmed", Reach::Confirmed),
    ("PostgreSQL", Reach::Postgres),
    ("etcd", Reach::Etcd),
    ("etcd, three members", Reach::Members),
];

/// The table as Markdown: a row for each fault, and in each column the exclusions.
///
/// `table.md` beside this file is its output, for readers.
pub fn render() -> String {
    let mut text = String::from("\n| fault |");
    COLUMNS.iter().for_each(|(name, _)| text += &format!(" {name} |"));
    text += "\n| --- |";
    COLUMNS.iter().for_each(|_| text += " --- |");
    for fault in Fault::ALL {
        text += &format!("\n| `{fault}` |");
        for (_, reach) in COLUMNS {
            text += &format!(" {} |", cell(reach, fault));
        }
    }
    text += "\n\nEmpty: all of it must hold. A dash: it cannot happen there, or no run tries it there. Otherwise this is \
             excluded, for the reason with that number.";
    for (name, group) in GROUPS {
        let members: Vec<String> = group.iter().map(Property::to_string).collect();
        text += &format!(" *{name}*: {}.", members.join(", "));
    }
    text.push('\n');
    for (number, rule) in RULES.iter().enumerate() {
        let lasts = match rule.lasts {
            Lasts::Meanwhile => "meanwhile",
            Lasts::Lease => "until the leases of that time have ended",
            Lasts::Quarantine => "until the quarantine is over",
            Lasts::Ever => "to the end of the run",
        };
        text += &format!("\n{}. {}; {lasts}.", number + 1, rule.why);
    }
    text += &sequels::text();
    text += ".\n\nNo run makes a server of a cluster, or one that sentinels watch, forget its data. Where a primary \
             restarts without its data before a replica takes over, nothing is promised without `Builder::data_quarantine`, which is off by \
             default. `tests/topologies/lost_data.rs` and `lost_slots.rs` test what that option promises";
    text += ".\n\nWhat excludes errors excludes the order of an election as well: ";
    text += BEGINS_AGAIN;
    text += ".\n";
    text
}

fn cell(reach: Reach, fault: Fault) -> String {
    if !befalls(fault, reach) {
        return "-".to_owned();
    }
    let of_rule = |(number, rule): (usize, &Rule)| {
        let here = |&&property: &&Property| match promised(reach, fault, property) {
            Promise::Holds => false,
            // The first rule that excludes it is the one to name.
            Promise::Excluded(why, _) => why == rule.why,
        };
        let applies = rule.faults.contains(&fault) && rule.reach.contains(&reach);
        let mut rest: Vec<Property> = rule.excludes.iter().filter(here).copied().collect();
        let mut names = Vec::new();
        for (name, group) in GROUPS {
            if group.iter().all(|property| rest.contains(property)) {
                rest.retain(|property| !group.contains(property));
                names.push(format!("*{name}*"));
            }
        }
        names.extend(rest.iter().map(Property::to_string));
        (applies && !names.is_empty()).then(|| format!("{} ({})", names.join(", "), number + 1))
    };
    RULES.iter().enumerate().filter_map(of_rule).collect::<Vec<_>>().join("; ")
}

fn befalls(fault: Fault, reach: Reach) -> bool {
    match fault.victim() {
        _ if reach == Reach::Postgres => fault.can_befall(Deployment::Postgres),
        _ if reach == Reach::Etcd => fault.can_befall(Deployment::Etcd),
        _ if reach == Reach::Members => fault.can_befall(Deployment::Members),
        // Only a cluster has slots, and its replicas confirm nothing here.
        Victim::Part if fault == MoveSlot => reach == Reach::Takeover,
        Victim::Part => matches!(reach, Reach::Takeover | Reach::Confirmed),
        _ if matches!(reach, Reach::Takeover | Reach::Confirmed) => {
            fault == FlushScripts || fault.victim() == Victim::Worker
        }
        Victim::Server | Victim::Link => reach != Reach::Memory,
        Victim::Memory => reach == Reach::Memory,
        // With the memory backend, the run would end with the worker.
        Victim::Worker => reach != Reach::Memory || fault != KillWorker,
    }
}

#[cfg(test)]
mod tests;
