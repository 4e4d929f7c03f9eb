//! Nothing stays behind.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_core::Instant;

use super::{Property, Violation};
use crate::chaos::history::{Deed, Event};

/// The remains when all clients have shut down and all leases have ended.
#[derive(Clone, Debug, Default)]
#[allow(clippy::exhaustive_structs, reason = "it is a record")]
pub struct Left {
    /// The keys on the servers, and how long each will live; `None`: until it is deleted.
    pub keys: Vec<(String, Option<Duration>)>,
    /// The connections to each server, without those of the harness.
    pub connections: Vec<usize>,
    /// How many more tasks than at first a client may have at rest: those of connections that were not needed before.
    pub tasks: u64,
}

/// How many more files and threads than at first a client may have at rest: those of a runtime, and of
/// connections that were not needed before, to each server.
const SPARE: (u64, u64) = (6, 3);

/// How much more memory, in kibibytes: the reserve of allocators.
const SPARE_MEMORY: u64 = 32 * 1024;

/// The end of the key with the limit of the semaphore whose limit is changed.
const CHANGED: &str = "{s1}:limit";

/// The leaks: the resources of each client at its last rest, compared with its first one, and the remains on the
/// servers.
///
/// A lock leaves its fence there for an hour, and a semaphore its limit. A changed limit and the value of a cell
/// stay for good. Everything else must be gone.
pub fn leaks(events: &[Event], left: &Left) -> Vec<Violation> {
    let end = events.last().map_or(Instant::from_nanos(0), |event| event.at);
    let stays = |what: &str, text: String| Violation::new(Property::Leaks, (end, end), what, text);
    let mut violations = Vec::new();
    let spare = SPARE.0 + SPARE.1 * left.connections.len() as u64;
    for (client, (first, last)) in uses(events) {
        let more = [
            ("files", first.files, last.files, spare),
            ("threads", first.threads, last.threads, spare),
            ("tasks", first.tasks, last.tasks, left.tasks),
            ("kibibytes", first.memory, last.memory, SPARE_MEMORY + first.memory),
        ];
        for (what, before, after, spare) in more {
            if after > before + spare {
                let text = format!("it had {before} {what} at first, and {after} at the end");
                violations.push(stays(client, text));
            }
        }
    }
    for (key, lives) in left.keys.iter().filter(|(key, lives)| !may_stay(key, *lives)) {
        violations.push(stays(key, format!("the key is still there, for {lives:?}")));
    }
    for (server, &count) in left.connections.iter().enumerate().filter(|(_, count)| **count > 0) {
        let text = format!("{count} connections are open, and all clients have shut down");
        violations.push(stays(&format!("server {server}"), text));
    }
    violations
}

struct Used {
    files: u64,
    threads: u64,
    tasks: u64,
    memory: u64,
}

/// The resources of each client that recorded them twice, at first and at last.
fn uses(events: &[Event]) -> BTreeMap<&str, (Used, Used)> {
    let mut first = BTreeMap::new();
    let mut both = BTreeMap::new();
    for event in events {
        if let Deed::Uses { files, threads, tasks, memory } = event.deed {
            let used = || Used { files, threads, tasks, memory };
            let client = event.client.as_str();
            if first.contains_key(client) {
                both.insert(client, used());
            } else {
                first.insert(client, used());
            }
        }
    }
    let both = both.into_iter();
    both.filter_map(|(client, last)| Some((client, (first.remove(client)?, last)))).collect()
}

fn may_stay(key: &str, lives: Option<Duration>) -> bool {
    let stays = key.ends_with(CHANGED) || key.ends_with(":cell") || key.contains(":node@");
    let ends = key.ends_with(":state") || key.ends_with(":limit") || key.contains(crate::LABELS);
    stays || (ends && lives.is_some())
}

#[cfg(test)]
mod tests {
    use super::super::scene::Scene;
    use super::*;

    fn found(scene: &Scene, left: &Left) -> Vec<String> {
        leaks(scene.events(), left)
            .into_iter()
            .map(|leak| format!("{}: {}", leak.key, leak.text))
            .collect()
    }

    fn uses(files: u64, tasks: u64, memory: u64) -> Deed {
        Deed::Uses { files, threads: 3, tasks, memory }
    }

    #[test]
    fn what_a_client_has_at_the_end_is_what_it_had_at_first() {
        let mut scene = Scene::new();
        scene.event("a", 1, uses(20, 3, 20_000));
        scene.event("a", 2, uses(90, 9, 90_000));
        scene.event("b", 2, uses(90, 9, 90_000));
        scene.event("a", 3, uses(22, 3, 41_000));
        assert_eq!(found(&scene, &Left::default()), [""; 0]);
        scene.event("a", 4, uses(29, 4, 80_000));
        let text = found(&scene, &Left::default()).join("; ");
        let expected = "a: it had 20 files at first, and 29 at the end; \
                        a: it had 3 tasks at first, and 4 at the end; \
                        a: it had 20000 kibibytes at first, and 80000 at the end";
        assert_eq!(text, expected);
    }

    #[test]
    fn fences_stay_and_locks_do_not() {
        let keys = [
            "lock:{m0}:state",
            "lock:{s0}:limit",
            "lock:{s1}:limit",
            "lock:{e0}:cell",
            "lock:node@0",
            "lock:{%label}:0123456789",
            "lock:{m0}",
            "lock:{m0}:queue",
        ];
        let keys = keys.map(|key| (key.to_owned(), Some(Duration::from_secs(9)))).to_vec();
        let mut left = Left { keys, connections: vec![0, 2], tasks: 0 };
        for key in ["{m1}:state", "{e1}:cell", "{s0}:limit", "{b0:arrivals:7}:limit", "{s1}:limit"]
        {
            left.keys.push((format!("lock:{key}"), None));
        }
        let seen = found(&Scene::new(), &left);
        let names: Vec<&str> = seen.iter().map(|leak| leak.split(": ").next().unwrap()).collect();
        let expected = [
            "lock:{m0}",
            "lock:{m0}:queue",
            "lock:{m1}:state",
            "lock:{s0}:limit",
            "lock:{b0:arrivals:7}:limit",
            "server 1",
        ];
        assert_eq!(names, expected);
    }
}
