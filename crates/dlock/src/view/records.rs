//! Locks as JSON, for machines. The README documents the fields: they stay as they are.

use lock_core::{FencingToken, Holder, Inspection, Key, Kind, Label, Waiter};
use serde::Serialize;

use super::listing::Sight;

/// One lock with its holders and its waiters.
#[derive(Debug, Serialize)]
pub(crate) struct LockRecord {
    /// The name. Bytes that are not UTF-8 are `\x..`.
    lock: String,
    /// Whether the name is the exact key in the store.
    exact: bool,
    holding: u64,
    /// `None` if the number is unknown.
    waiting: Option<u64>,
    holders: Vec<HolderRecord>,
    waiters: Vec<WaiterRecord>,
    queue: bool,
    late_ms: u64,
}

#[derive(Debug, Serialize)]
struct HolderRecord {
    label: Option<String>,
    mode: &'static str,
    permits: Option<u32>,
    token: Option<u64>,
    left_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct WaiterRecord {
    label: Option<String>,
    mode: &'static str,
    permits: Option<u32>,
    place_left_ms: u64,
    waited_ms: Option<u64>,
}

impl LockRecord {
    pub(crate) fn new(key: &Key, seen: &Inspection, sight: &Sight) -> Self {
        Self {
            lock: name(key),
            exact: key.is_as_is(),
            holding: seen.holding,
            waiting: sight.has_queue.then_some(seen.waiting),
            holders: seen.holders.iter().map(HolderRecord::new).collect(),
            waiters: seen.waiters.iter().map(WaiterRecord::new).collect(),
            queue: sight.has_queue,
            late_ms: millis(sight.late),
        }
    }
}

impl HolderRecord {
    fn new(holder: &Holder) -> Self {
        Self {
            label: text(holder.label.as_ref()),
            mode: mode(holder.kind),
            permits: permits(holder.kind),
            token: holder.token.map(FencingToken::get),
            left_ms: holder.remaining.map(millis),
        }
    }
}

impl WaiterRecord {
    fn new(waiter: &Waiter) -> Self {
        Self {
            label: text(waiter.label.as_ref()),
            mode: mode(waiter.kind),
            permits: permits(waiter.kind),
            place_left_ms: millis(waiter.remaining),
            waited_ms: waiter.waited.map(millis),
        }
    }
}

/// The name of a lock as text. `Display` of the key escapes bytes that are not UTF-8, and control characters, which
/// could change the terminal.
pub(crate) fn name(key: &Key) -> String {
    match std::str::from_utf8(key.as_bytes()) {
        Ok(name) if !name.chars().any(char::is_control) => name.to_owned(),
        _ => key.to_string(),
    }
}

fn text(label: Option<&Label>) -> Option<String> {
    label.map(|label| label.as_str().to_owned())
}

fn mode(kind: Kind) -> &'static str {
    match kind {
        Kind::Exclusive => "exclusive",
        Kind::Shared => "shared",
        Kind::Upgradable => "upgradable",
        Kind::Permits(_) => "permits",
        Kind::Joint => "joint",
        _ => "unknown",
    }
}

fn permits(kind: Kind) -> Option<u32> {
    if let Kind::Permits(permits) = kind { Some(permits) } else { None }
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::AnyBackend;
    use lock_core::memory::MemoryBackend;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_is_there_in_its_form() {
        let label = Label::new("billing@web-3:71").ok();
        let left = Duration::from_millis(8_210);
        let held = Holder::new(Kind::Permits(2), Some(FencingToken::new(7)), Some(left));
        let foreign = Holder::new(Kind::Exclusive, None, None);
        let waits = Waiter::new(Kind::Shared, left).labelled(label.clone());
        let waited = waits.clone().waiting_for(Some(Duration::from_millis(61_500)));
        let holders = vec![held.labelled(label), foreign];
        let seen = Inspection::new((holders, 2), (vec![waited, waits], 9));
        let sight = Sight::of(&AnyBackend::new(MemoryBackend::new()));
        let record = LockRecord::new(&Key::new("orders/42").unwrap(), &seen, &sight);
        assert_eq!(
            serde_json::to_value(record).unwrap(),
            json!({
                "lock": "orders/42", "exact": false, "holding": 2, "waiting": 9,
                "holders": [
                    {"label": "billing@web-3:71", "mode": "permits", "permits": 2, "token": 7, "left_ms": 8210},
                    {"label": null, "mode": "exclusive", "permits": null, "token": null, "left_ms": null},
                ],
                "waiters": [
                    {"label": "billing@web-3:71", "mode": "shared", "permits": null, "place_left_ms": 8210, "waited_ms": 61_500},
                    {"label": "billing@web-3:71", "mode": "shared", "permits": null, "place_left_ms": 8210, "waited_ms": null},
                ],
                "queue": true, "late_ms": 20,
            })
        );
    }

    #[test]
    fn a_name_is_shown_as_it_is_unless_it_would_harm_the_terminal() {
        let shown = |name_of: &[u8]| name(&Key::new(name_of).unwrap());
        assert_eq!(shown("größe/42".as_bytes()), "größe/42");
        assert_eq!(shown(b"a\x1b[2J"), "a\\x1b[2J");
        assert_eq!(shown(b"\xff"), "\\xff");
    }
}
