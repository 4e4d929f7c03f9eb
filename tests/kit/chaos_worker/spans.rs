//! When which task certainly held a lock, and what must hold of these times.

use std::collections::HashMap;

use lock_core::{FencingToken, Instant};
use lock_tests::chaos::history::{Deed, Way};

use super::operations::Operations;

/// A time in which a task certainly held a lock in one way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    way: Way,
    token: FencingToken,
    from: Instant,
    until: Instant,
}

/// The holds, by the names of the locks. A lock that was held in two ways one after the other counts twice.
pub(super) fn spans(operations: &Operations) -> HashMap<String, Vec<Span>> {
    let mut spans = HashMap::<String, Vec<Span>>::new();
    for events in operations.values() {
        let Deed::Ask { key, way, .. } = &events[0].deed else { continue };
        let (mut way, mut next, mut open, mut lost) = (*way, *way, None, None::<Instant>);
        for event in events {
            let closed = match event.deed {
                Deed::Got { token, .. } => {
                    open = Some((event.at, token));
                    None
                }
                Deed::Turned { token, .. } => {
                    way = next;
                    open = Some((event.at, token));
                    None
                }
                Deed::Turn { way, valid_until, .. } => {
                    next = way;
                    Some(valid_until)
                }
                Deed::Leave { valid_until, .. } => Some(valid_until),
                Deed::Lost { .. } => {
                    lost = lost.or(Some(event.at));
                    None
                }
                _ => None,
            };
            if let (Some(valid_until), Some((from, token))) = (closed, open) {
                let until = event.at.min(valid_until).min(lost.unwrap_or(event.at));
                spans.entry(key.clone()).or_default().push(Span { way, token, from, until });
                open = None;
            }
        }
    }
    for spans in spans.values_mut() {
        spans.retain(|span| span.from < span.until);
        spans.sort_by_key(|span| span.from);
    }
    spans
}

/// No two tasks held a lock at once in ways that exclude each other, and there were never more permits than
/// allowed.
#[track_caller]
pub(super) fn assert_apart(spans: &HashMap<String, Vec<Span>>) {
    for (key, spans) in spans {
        // No worker makes `s1` larger than that.
        let limit = match key.as_str() {
            "s0" => 3,
            "l0" => 2,
            _ => 9,
        };
        let mut here: Vec<Span> = Vec::new();
        for &span in spans {
            here.retain(|other| other.until > span.from);
            for other in &here {
                assert!(other.way.stands(span.way), "{key}: {other:?} and {span:?}");
            }
            here.push(span);
            let permits = |span: &Span| if let Way::Permits(count) = span.way { count } else { 0 };
            assert!(here.iter().map(permits).sum::<u32>() <= limit, "{key}: {here:?}");
        }
    }
}

/// Exclusive holders had higher tokens than earlier holders.
#[track_caller]
pub(super) fn assert_tokens_rise(spans: &HashMap<String, Vec<Span>>) {
    for (key, spans) in spans {
        let alone = || spans.iter().filter(|span| span.way.is_exclusive());
        for (one, next) in alone().zip(alone().skip(1)) {
            let again = one.token == next.token && one.way.stands(next.way);
            assert!(one.token < next.token || again, "{key}: {one:?} and {next:?}");
        }
    }
}
