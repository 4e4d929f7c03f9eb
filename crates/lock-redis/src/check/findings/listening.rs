//! How waiters hear of releases.

use super::super::facts::{Facts, Rehearsal};
use super::super::report::Severity;
use super::found::Found;
use crate::hub::notifications;
use crate::options::Notifications;

pub(super) fn find(facts: &Facts, found: &mut Found<'_>) {
    events(facts, found);
    if let Some(why) = &facts.untracked {
        found.add(
            Severity::Warning,
            "tracking-refused",
            format!("the server does not track keys for this client: {why}"),
            "waiters do not hear of releases by other libraries in this way",
            "grant `+client|tracking` and `+client|caching`, use RESP3, or switch `tracking` off",
        );
    }
    if let Some(rehearsal) = &facts.rehearsal {
        messages(facts, rehearsal, found);
    }
}

/// What the rehearsal heard.
fn messages(facts: &Facts, rehearsal: &Rehearsal, found: &mut Found<'_>) {
    if let Some(why) = &rehearsal.unwatched {
        watching(facts.wants.notifications, why, found);
    }
    if let Some(limit) = rehearsal.unheard {
        found.add(
            Severity::Warning,
            "releases-unheard",
            format!("no message of a release came within {limit:?}"),
            "waiters rely on time alone: they ask again when a lease ends, and not when the lock is released",
            "grant `+publish`, and look for a proxy that does not deliver messages",
        );
    }
    if rehearsal.unqueued {
        found.add(
            Severity::Warning,
            "queue-refused",
            "a claim got no place in the queue of the server",
            "waiters are not served in order, and a release does not hand the lock over",
            format!(
                "grant the channels `&{}*`, on which the client hears of its grants",
                facts.wants.prefix
            ),
        );
    }
    if rehearsal.uncounted {
        found.add(
            Severity::Warning,
            "grants-uncounted",
            "the client heard a message, and the server counted no receiver of it",
            "a release passes over every claim in the queue: a proxy probably sends subscribers to a replica",
            "send `SUBSCRIBE` and scripts to one server, or switch the queue off (`queue_limit(0)`)",
        );
    }
}

/// Keyspace notifications.
fn events(facts: &Facts, found: &mut Found<'_>) {
    if facts.wants.notifications == Notifications::Off {
        return;
    }
    let what = match (facts.notifications.known(), facts.notifications.refusal()) {
        (Some(flags), _) => match notifications::missing(flags) {
            missing if missing.is_empty() => return,
            missing => format!("`notify-keyspace-events` lacks `{missing}`"),
        },
        // Otherwise the user may not ask, which is another finding.
        (None, Some(why)) if facts.config.known().is_some() => why.to_owned(),
        _ => return,
    };
    let severity = match facts.wants.notifications {
        // The app takes what there is, and messages of this library wake its waiters.
        Notifications::IfPresent => Severity::Info,
        _ => Severity::Warning,
    };
    found.add(
        severity,
        "notifications-missing",
        what,
        "releases by other libraries, deleted keys and evictions wake no waiter; releases by this library do",
        "set `notify-keyspace-events Kg$xe` if other libraries take the locks, or choose `Notifications::Off`",
    );
}

fn watching(wanted: Notifications, why: &str, found: &mut Found<'_>) {
    if wanted == Notifications::Require {
        found.add(
            Severity::Critical,
            "notifications-required",
            format!("a lock cannot be watched: {why}"),
            "the app requires keyspace notifications, so every wait for a lock fails",
            "set `notify-keyspace-events Kg$xe` and grant `+config|get`, or do not require notifications",
        );
        return;
    }
    found.add(
        Severity::Warning,
        "watch-refused",
        format!("a lock cannot be watched: {why}"),
        "waiters rely on time alone: they ask again when a lease ends, and not when the lock is released",
        "grant `+subscribe` and `+publish`, or leave release messages or notifications switched on",
    );
}
