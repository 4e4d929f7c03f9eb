//! The text of the table; pure.

use std::time::Duration;

use lock_core::{Backend, Capabilities, Capability, Limits};

use crate::stores::Store;

const BEGIN: &str = "<!-- guarantees: `tests/guarantees` writes this table -->\n";
const END: &str = "<!-- end of the guarantees -->\n";

const HEAD: &str = "\
| store | exclusive locks hold | tokens increase | leases | it lacks |
| --- | --- | --- | --- | --- |
";

/// What the locks cannot do over a store that lacks a capability.
const LACKING: [(Capability, &str); 8] = [
    (Capability::Share, "`RwLock`"),
    (Capability::Convert, "upgradable reads"),
    (Capability::Count, "`Semaphore`, `Barrier`"),
    (Capability::Join, "owners in several processes"),
    (Capability::Keep, "stored values"),
    (Capability::Inspect, "`inspect`"),
    (Capability::Watch, "messages to waiters"),
    (Capability::Queue, "a queue of all processes"),
];

/// The table.
pub(crate) fn of(stores: &[Store]) -> String {
    let row = |store: &Store| {
        let (limits, capabilities) = (store.backend.limits(), store.backend.capabilities());
        let (leases, lacks) = (leases(limits), lacks(&capabilities));
        let Store { name, exclusive, tokens, .. } = store;
        format!("| {name} | {exclusive} | {tokens} | {leases} | {lacks} |\n")
    };
    format!("{HEAD}{}", stores.iter().map(row).collect::<String>())
}

/// The text before the table, the table, and the text behind it.
pub(crate) fn find(text: &str) -> Result<(&str, &str, &str), &'static str> {
    let begin = text.find(BEGIN).ok_or("no comment that begins the table")? + BEGIN.len();
    let end = text[begin..].find(END).ok_or("no comment that ends the table")? + begin;
    Ok((&text[..begin], &text[begin..end], &text[end..]))
}

fn leases(limits: Limits) -> String {
    let (least, step) = (time(limits.min_ttl.duration()), time(limits.step));
    format!("from {least}, by {step}; up to {} late", time(limits.lag))
}

fn lacks(capabilities: &Capabilities<'_>) -> String {
    let lacking = LACKING.iter().filter(|(needed, _)| capabilities.require(*needed).is_err());
    let words: Vec<&str> = lacking.map(|(_, words)| *words).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
}

/// Whole seconds, or else milliseconds.
fn time(time: Duration) -> String {
    match (time.as_secs(), time.subsec_millis()) {
        (seconds, 0) => format!("{seconds} s"),
        _ => format!("{} ms", time.as_millis()),
    }
}

#[test]
fn a_table_is_found_between_its_comments() {
    let text = format!("a\n{BEGIN}old\n{END}b\n");
    let (before, table, after) = find(&text).unwrap();
    assert_eq!(format!("{before}{table}{after}"), text);
    assert_eq!(table, "old\n");
    assert!(find("no table").is_err() && find(BEGIN).is_err());
}

#[test]
fn limits_and_capabilities_are_told() {
    let limits =
        Limits::default().with_step(Duration::from_secs(1)).with_lag(Duration::from_millis(1_200));
    assert_eq!(leases(limits), "from 10 ms, by 1 s; up to 1200 ms late");
    let store = lock_core::memory::MemoryBackend::new();
    let all = Capabilities::none().sharing(&store).joining(&store).converting(&store);
    let all = all.counting(&store).keeping(&store).inspecting(&store);
    assert_eq!(lacks(&all), "nothing");
    assert_eq!(lacks(&all.without_watch()), "messages to waiters");
    assert_eq!(lacks(&all.without_queue()), "a queue of all processes");
    let none = lacks(&Capabilities::none());
    assert!(
        none.starts_with("`RwLock`, upgradable reads") && none.ends_with("`inspect`"),
        "{none}"
    );
}
