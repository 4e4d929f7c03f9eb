//! How the rehearsal of a lock went.

use lock_core::ErrorKind;
use lock_core::check::{Finding, Findings, Severity, Trouble};

use super::super::facts::{Facts, Wants};
use crate::options::Notifications;

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
    if let Some(rehearsal) = &facts.rehearsal {
        rehearsal.judge(found, |trouble, finding| Some(advise(&facts.wants, trouble, finding)));
    }
}

/// What to do about a trouble of the rehearsal.
fn advise(wants: &Wants, trouble: Trouble<'_>, finding: Finding) -> Finding {
    match trouble {
        Trouble::Vanished => finding
            .why("something deletes or evicts keys, so two holders can be inside at once")
            .remedy("find the client that deletes keys, and set `maxmemory-policy noeviction`"),
        Trouble::Failed(kind, _) => finding.remedy(remedy(kind, &wants.prefix)),
        Trouble::Unseen(_) => finding
            .why("an inspection fails, and semaphores and groups may fail")
            .remedy("grant the rights of the column `looking` on the page about rights"),
        Trouble::Unwatched(_) if wants.notifications == Notifications::Require => {
            Finding::new(Severity::Critical, "notifications-required", finding.server)
                .because(
                    finding.finding,
                    "the app requires keyspace notifications, so every wait for a lock fails",
                )
                .remedy("set `notify-keyspace-events Kg$xe` and grant `+config|get`, or do not require notifications")
        }
        Trouble::Unwatched(_) => finding.remedy(
            "grant `+subscribe` and `+publish`, or leave release messages or notifications switched on",
        ),
        Trouble::Unqueued => finding.remedy(format!(
            "grant the channels `&{}*`, on which the client hears of its grants",
            wants.prefix
        )),
        Trouble::Unheard => {
            finding.remedy("grant `+publish`, and look for a proxy that does not deliver messages")
        }
        Trouble::Uncounted => Finding::new(Severity::Warning, "grants-uncounted", finding.server)
            .because(
                "the client heard a message, and the server counted no receiver of it",
                "a release passes over every claim in the queue: a proxy probably sends subscribers to a replica",
            )
            .remedy("send `SUBSCRIBE` and scripts to one server, or switch the queue off (`queue_limit(0)`)"),
        _ => finding,
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
