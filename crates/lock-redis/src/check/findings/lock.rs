//! How the rehearsal of a lock went.

use lock_core::ErrorKind;

use super::super::facts::{Facts, Outcome};
use super::super::report::Severity;
use super::found::Found;

pub(super) fn find(facts: &Facts, found: &mut Found<'_>) {
    let Some(rehearsal) = &facts.rehearsal else { return };
    match &rehearsal.outcome {
        Outcome::Worked => {}
        Outcome::Busy => found.add(
            Severity::Unknown,
            "rehearsal-busy",
            "another client holds the lock of the rehearsal",
            "the check did not acquire, renew and hand over a lock",
            "check again in ten seconds: the other client probably runs this check",
        ),
        Outcome::Vanished => found.add(
            Severity::Critical,
            "lock-vanished",
            "a lock was gone a moment after it was granted",
            "something deletes or evicts keys, so two holders can be inside at once",
            "find the client that deletes keys, and set `maxmemory-policy noeviction`",
        ),
        Outcome::Failed(kind, why) => found.add(
            Severity::Critical,
            "lock-refused",
            format!("a lock could not be acquired, renewed and handed over: {why}"),
            "no lock of the app can be relied on",
            remedy(*kind, &facts.wants.prefix),
        ),
    }
    if let Some(why) = &rehearsal.unseen {
        found.add(
            Severity::Warning,
            "holders-unseen",
            format!("the holders of a lock cannot be listed: {why}"),
            "an inspection fails, and semaphores and groups may fail",
            "grant the rights of the column `looking` on the page about rights",
        );
    }
}

fn remedy(kind: ErrorKind, prefix: &str) -> String {
    match kind {
        ErrorKind::Denied => "grant the rights of a mutex (see the page about rights)".to_owned(),
        ErrorKind::ForeignKey => {
            format!(
                "delete the keys `{prefix}{{lock-redis/check}}*`, which are no lock of this version"
            )
        }
        ErrorKind::OutOfMemory => {
            "raise `maxmemory`, or give locks a server of their own".to_owned()
        }
        ErrorKind::NotReady => {
            "wait until the server takes writes: it fails over, loads its data, or lacks replicas"
                .to_owned()
        }
        ErrorKind::Timeout | ErrorKind::Unreachable => {
            "look for the cause at the server and in the network, and check again".to_owned()
        }
        ErrorKind::Unsupported => {
            "use a server or a proxy that accepts this, or connect as a client of the cluster"
                .to_owned()
        }
        _ => "look for the cause at the server, and check again".to_owned(),
    }
}
