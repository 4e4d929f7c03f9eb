//! How waiters hear of releases.

use lock_core::check::{Findings, Severity};

use super::super::facts::Facts;
use crate::hub::notifications;
use crate::options::Notifications;

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
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
}

/// Keyspace notifications.
fn events(facts: &Facts, found: &mut Findings<'_>) {
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
