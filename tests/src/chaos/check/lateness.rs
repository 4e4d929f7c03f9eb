//! When the machine was late.

use std::time::Duration;

use lock_core::Instant;

use crate::chaos::history::{Deed, Event};

/// A late thread reports that when it notices, and it looks this often.
pub(super) const SINCE: Duration = Duration::from_millis(60);

/// When and by how much clients were late, except those that were made to stand still.
pub(super) fn lateness<'a>(
    events: &'a [Event],
    stood_still: &'a [(String, Instant, Instant)],
) -> impl Iterator<Item = (&'a Event, Duration)> {
    let late = events.iter().filter_map(|event| match event.deed {
        Deed::Late { millis } => Some((event, Duration::from_millis(millis))),
        _ => None,
    });
    late.filter(|&(event, late)| {
        let since = event.at - SINCE - late;
        !stood_still.iter().any(|(client, begin, end)| {
            is_of_process(&event.client, client) && *begin <= event.at && since <= *end
        })
    })
}

/// Whether a client is that process, or one of several in it.
pub(super) fn is_of_process(client: &str, process: &str) -> bool {
    client.strip_prefix(process).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
