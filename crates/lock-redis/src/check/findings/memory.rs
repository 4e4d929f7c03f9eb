//! Whether the server evicts locks, and whether it has room for more.

use lock_core::check::{Findings, Severity};

use super::super::facts::Facts;
use super::super::info::Info;

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
    let Some(info) = facts.info.known() else { return };
    let limit = info.number("maxmemory").filter(|limit| *limit > 0);
    eviction(info, limit, found);
    if let Some((used, limit)) = info.number("used_memory").zip(limit)
        && used / 9 >= limit / 10
    {
        found.add(
            Severity::Warning,
            "memory-almost-full",
            format!("{used} of {limit} bytes are in use (`maxmemory`)"),
            "without memory the server grants no lock, or evicts some",
            "raise `maxmemory`, or give locks a server of their own",
        );
    }
}

fn eviction(info: &Info, limit: Option<u64>, found: &mut Findings<'_>) {
    if let Some(policy) = info.get("maxmemory_policy").filter(|policy| *policy != "noeviction") {
        let (severity, when) = match limit {
            Some(limit) => (Severity::Critical, format!("beyond {limit} bytes (`maxmemory`)")),
            None => (Severity::Warning, "once there is a `maxmemory`".to_owned()),
        };
        found.add(
            severity,
            "eviction-policy",
            format!("the server evicts keys {when}: its policy is `{policy}`"),
            "an evicted lock is free at once, although its holder goes on; all locks have a time to live, \
             so every such policy concerns them",
            "set `maxmemory-policy noeviction`, or give locks a server of their own",
        );
    }
    if let Some(count) = info.number("evicted_keys").filter(|count| *count > 0) {
        found.add(
            Severity::Warning,
            "keys-evicted",
            format!("the server has evicted {count} keys since its start"),
            "locks may have been among them",
            "set `maxmemory-policy noeviction`, or give locks a server of their own",
        );
    }
}
