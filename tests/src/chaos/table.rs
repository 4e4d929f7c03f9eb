//! What must hold while something fails, and what the promise excludes.
//!
//! Everything that no rule excludes must hold. So a violation is either named here or a bug.
#![doc = include_str!("table.md")]

use std::time::Duration;

use super::check::Property::{self, *};
use super::{Deployment, Extent, Fault, Fault::*, Victim};

/// Whether something must hold in a place in which something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Promise {
    /// It must.
    Holds,
    /// It is not promised, for this reason, while the fault lasts and this long after it.
    Excluded(&'static str, Lasts),
}

/// For how long a fault that was made good still shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the table knows these")]
pub enum Lasts {
    /// No longer than the machine is late.
    Meanwhile,
    /// For what is left of leases, and until somebody asks after that.
    Lease,
    /// For as long as nodes that may have forgotten something keep out, and then as [`Lease`](Self::Lease).
    Quarantine,
    /// To the end of the run.
    Ever,
}

/// What a fault befalls, as far as it matters for what is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The memory of a process.
    Memory,
    /// The only server, or the links to it.
    Server,
    /// Fewer than half of the servers of a quorum.
    Minority,
    /// More than that.
    Majority,
}

/// What is not promised while one of these faults has one of these reaches.
struct Rule {
    faults: &'static [Fault],
    reach: &'static [Reach],
    excludes: &'static [Property],
    why: &'static str,
    lasts: Lasts,
}

/// Data is lost.
const FORGETS: &[Fault] = &[KillEmpty, KillStale, Flush, Evict, StoreForgets];
/// The same, in a way that a node of a quorum finds out by itself.
const FORGETS_AND_KNOWS: &[Fault] = &[KillEmpty, KillStale, Flush];
/// A server does not do what it is asked for.
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
const LINKS: &[Fault] =
    &[Delay, Jitter, Silence, HalfOpen, Reset, Partition, CutReplies, Dribble, Duplicate];

const ALONE: &[Reach] = &[Reach::Memory, Reach::Server];
const MOST: &[Reach] = &[Reach::Memory, Reach::Server, Reach::Majority];
const ANY: &[Reach] = &[Reach::Memory, Reach::Server, Reach::Minority, Reach::Majority];
const SERVERS: &[Reach] = &[Reach::Server, Reach::Minority, Reach::Majority];
const QUORUM: &[Reach] = &[Reach::Minority, Reach::Majority];

/// That no two have what only one can have.
const SAFE: &[Property] = &[Exclusion, Conversions, Permits, Resource];
/// That whoever can be served is.
const LIVE: &[Property] = &[Wakeups, Tries, Recovery, Overtaking];

/// The names of these in the page.
const GROUPS: [(&str, &[Property]); 2] = [("safety", SAFE), ("service", LIVE)];

const RULES: &[Rule] = &[
    Rule {
        faults: FORGETS,
        reach: ALONE,
        excludes: &[Exclusion, Conversions, Permits, Resource, Barriers, Values],
        why: "it has forgotten who holds a lock, and the holder hears of that when it renews",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: FORGETS,
        reach: ALONE,
        excludes: &[Tokens],
        why: "a process that has not heard of it yet passes on tokens that it reserved before",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[Evict],
        reach: QUORUM,
        excludes: &[Exclusion, Conversions, Permits, Resource, Tokens, Values],
        why: "a server cannot tell that it has evicted a lock: its policy must be `noeviction`",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: FORGETS_AND_KNOWS,
        reach: &[Reach::Majority],
        excludes: &[Wakeups, Tries, Recovery, Overtaking, Errors],
        why: "nodes that may have forgotten something keep out for as long as the longest lease lives",
        lasts: Lasts::Quarantine,
    },
    Rule {
        faults: &[ClockJump],
        reach: SERVERS,
        excludes: &[Exclusion, Conversions, Permits, Resource, Barriers, Tokens, Values],
        why: "it counts leases by a clock that was set, and two majorities may have no other in common",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[ClockJump],
        reach: &[Reach::Server, Reach::Majority],
        excludes: LIVE,
        why: "when a clock is set back, what was left behind before lives on for as much longer",
        lasts: Lasts::Ever,
    },
    Rule {
        faults: &[ClockJump],
        reach: ANY,
        excludes: &[Leaks],
        why: "keys end by the clock that was set",
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
        why: "nobody is served without it, and what it did unheard stays until that lease ends",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: LINKS,
        reach: MOST,
        excludes: &[Wakeups, Tries, Recovery, Overtaking, Errors],
        why: "what is late or lost is not heard, and what was done unheard stays until that lease ends",
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
        why: "a script may be gone again as soon as it was loaded",
        lasts: Lasts::Meanwhile,
    },
    Rule {
        faults: FORGETS_AND_KNOWS,
        reach: &[Reach::Majority],
        excludes: &[Values],
        why: "too few nodes are left that know what was stored",
        lasts: Lasts::Quarantine,
    },
    Rule {
        faults: &[KillWorker],
        reach: ANY,
        excludes: LIVE,
        why: "what a dead process holds is free when its lease ends",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[StopWorker, BlockExecutor],
        reach: ANY,
        excludes: &[Wakeups, Tries, Recovery, Overtaking, Errors],
        why: "whoever stands still may have the lock or be the next, and answers come while it does",
        lasts: Lasts::Lease,
    },
    Rule {
        faults: &[StopWorker, BlockExecutor],
        reach: ANY,
        excludes: &[Order],
        why: "whoever was granted what ended before it could take it asks again",
        lasts: Lasts::Lease,
    },
];

/// Whether a property is promised in a deployment while something fails, there and then.
///
/// For faults of workers the extent says nothing. For one server, and for memory, every extent is the whole.
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

/// Whether an error of this kind, by the name of [`ErrorKind`](lock_core::ErrorKind), is one that the fault
/// explains, where errors are to be expected at all.
pub fn explains(fault: Fault, kind: &str) -> bool {
    let kinds: &[&str] = match fault {
        FlushScripts => &["NotReady"],
        RevokeRights => &["Denied", "Unreachable", "Timeout", "NotReady"],
        OutOfMemory => &["OutOfMemory", "NotReady", "Timeout", "NotHeld"],
        // What is left of a lock of which a part was evicted is none.
        Evict => &["OutOfMemory", "NotReady", "Timeout", "NotHeld", "ForeignKey"],
        _ => &["Unreachable", "Timeout", "NotReady", "NotHeld"],
    };
    kinds.contains(&kind)
}

/// Whether a server that this befalls forgets what it knew, limits of semaphores included, or carries out a
/// change of a limit more than once.
pub fn confuses_limits(fault: Fault) -> bool {
    FORGETS.contains(&fault) || fault == Duplicate
}

/// Whether tokens may fall after the one and then the other, wherever that was made good in between.
pub fn sets_tokens_back(deployment: Deployment, first: Fault, then: Fault) -> bool {
    // Over a quorum it is the clocks of clients that they follow.
    deployment.servers() == 1 && first == ClockJump && FORGETS.contains(&then)
}

/// Why they may.
pub const SETS_TOKENS_BACK: &str = "it has forgotten the tokens that it gave out when its clock was ahead, and follows the clock again";

/// Why a campaign may be served after one that began later, where errors are not excluded.
pub const BEGINS_AGAIN: &str =
    "a campaign whose value could not be stored lets go, and begins again at the end of the line";

impl Lasts {
    /// How long that is, if leases live for `lease`, quarantines for `quarantine` and the machine is late by
    /// `slack`.
    pub fn after(self, lease: Duration, quarantine: Duration, slack: Duration) -> Duration {
        /// After a lease has ended, waiters ask at the latest after a third of the time of a place in line,
        /// and one that was let in and does not come holds them up for a second at most.
        const ASKED: Duration = Duration::from_secs(1);
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

/// The table as Markdown: a row for each fault, and in each column what is excluded there.
///
/// `table.md` beside this file is its output, so that it can be read.
pub fn render() -> String {
    let columns = [
        ("memory", Reach::Memory),
        ("one server", Reach::Server),
        ("quorum: a minority", Reach::Minority),
        ("quorum: a majority", Reach::Majority),
    ];
    let mut text = String::from("\n| fault |");
    columns.iter().for_each(|(name, _)| text += &format!(" {name} |"));
    text += "\n| --- |";
    columns.iter().for_each(|_| text += " --- |");
    for fault in Fault::ALL {
        text += &format!("\n| `{fault}` |");
        for (_, reach) in columns {
            text += &format!(" {} |", cell(reach, fault));
        }
    }
    text += "\n\nEmpty: all of it must hold. A dash: it cannot happen there. Otherwise this is excluded, for the \
             reason with that number.";
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
    text += "\n\nOn one server, after `clock-jump` a fault that makes it forget excludes tokens and resource as well, \
             to the end of the run: ";
    text += SETS_TOKENS_BACK;
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
            // The first rule that says it is the one to name.
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
        Victim::Server | Victim::Link => reach != Reach::Memory,
        Victim::Memory => reach == Reach::Memory,
        // There, it would be the end of everything that is to be watched.
        Victim::Worker => reach != Reach::Memory || fault != KillWorker,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(deployment: Deployment, fault: Fault, extent: Extent) -> Vec<Property> {
        let of = |&property: &Property| {
            matches!(promise(deployment, fault, extent, property), Promise::Excluded(..))
        };
        Property::ALL.into_iter().filter(of).collect()
    }

    #[test]
    fn the_page_is_up_to_date() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/chaos/table.md");
        if std::env::var_os("UPDATE_TABLE").is_some() {
            std::fs::write(&page, render()).unwrap();
        }
        let there = std::fs::read_to_string(&page).unwrap();
        assert_eq!(there, render(), "run this test with UPDATE_TABLE=1");
    }

    #[test]
    fn a_minority_of_a_quorum_excludes_nothing_but_what_no_node_can_tell() {
        use Extent::Minority;

        for fault in Fault::ALL {
            let of_servers = matches!(fault.victim(), Victim::Server | Victim::Link);
            if of_servers && !matches!(fault, Evict | ClockJump) {
                assert_eq!(excluded(Deployment::Quorum(5), fault, Minority), [], "{fault}");
            }
        }
    }

    #[test]
    fn no_fault_of_a_network_or_a_process_excludes_what_is_to_be_safe() {
        for deployment in Deployment::ALL {
            for fault in Fault::ALL {
                if matches!(fault.victim(), Victim::Link | Victim::Worker) {
                    for property in [Exclusion, Conversions, Permits, Tokens, Resource, Leaks] {
                        let promise = promise(deployment, fault, Extent::Majority, property);
                        assert_eq!(promise, Promise::Holds, "{deployment}, {fault}, {property}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_quorum_has_one_value_for_all_unless_it_forgets_or_a_clock_was_set() {
        for fault in Fault::ALL.into_iter().filter(|it| !FORGETS.contains(it) && *it != ClockJump) {
            let promise = promise(Deployment::Quorum(3), fault, Extent::Majority, Values);
            assert_eq!(promise, Promise::Holds, "{fault}");
        }
    }

    #[test]
    fn a_clock_that_is_a_little_fast_or_slow_excludes_nothing() {
        for deployment in Deployment::ALL {
            assert_eq!(excluded(deployment, ClockRate, Extent::Majority), [], "{deployment}");
        }
    }

    #[test]
    fn every_rule_is_the_first_for_something() {
        for rule in RULES {
            let first = rule.faults.iter().any(|&fault| {
                rule.reach.iter().filter(|&&reach| befalls(fault, reach)).any(|&reach| {
                    rule.excludes.iter().any(|&property| {
                        promised(reach, fault, property) == Promise::Excluded(rule.why, rule.lasts)
                    })
                })
            });
            assert!(first, "{}", rule.why);
        }
    }

    #[test]
    fn only_who_stands_still_may_be_served_out_of_order_and_nobody_may_break_off_the_record() {
        for rule in RULES {
            let stands = rule.faults.iter().all(|it| matches!(it, StopWorker | BlockExecutor));
            assert!(stands || !rule.excludes.contains(&Order));
            assert!(!rule.excludes.contains(&History));
        }
    }

    #[test]
    fn errors_are_explained_by_what_causes_them() {
        assert!(explains(RevokeRights, "Denied") && !explains(StopServer, "Denied"));
        assert!(!Fault::ALL.into_iter().any(|fault| explains(fault, "Protocol")));
    }
}
