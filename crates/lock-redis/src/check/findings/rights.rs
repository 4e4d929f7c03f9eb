//! What the user lacks, for which kind of lock.

use lock_core::check::{Findings, Severity};

use super::super::facts::Facts;

/// The columns of the page about rights, in its order, without the last one: no lock needs the right to list locks, and
/// a user without that need should not have it.
const KINDS: [&str; 7] = [
    "mutex, by the clock",
    "mutex",
    "reader-writer lock",
    "semaphore",
    "reentrant mutex",
    "node of a quorum",
    "looking",
];

/// The commands of the scripts and of watches, and the columns that need them. A test compares this with the page.
const NEEDS: [(&[&str], [u8; 7]); 18] = [
    (&["get", "getrange", "exists", "pttl", "time"], [1, 1, 1, 1, 1, 1, 1]),
    (&["set", "del", "pexpire"], [1, 1, 1, 1, 1, 1, 0]),
    (&["setrange"], [0, 1, 1, 1, 1, 1, 0]),
    (&["publish", "channel"], [0, 1, 1, 1, 1, 1, 0]),
    (&["subscribe", "unsubscribe"], [0, 1, 1, 1, 1, 1, 0]),
    (&["hget"], [0, 1, 1, 1, 1, 1, 1]),
    (&["hset", "hdel"], [0, 1, 1, 1, 1, 1, 0]),
    (&["lindex", "lrem"], [0, 1, 1, 1, 1, 0, 0]),
    (&["llen"], [0, 1, 1, 1, 1, 0, 1]),
    (&["rpush", "lpush"], [0, 1, 1, 1, 1, 0, 0]),
    (&["lpop"], [0, 1, 1, 0, 0, 0, 0]),
    (&["lrange"], [0, 1, 1, 1, 1, 0, 1]),
    (&["hmget"], [0, 1, 1, 1, 1, 0, 0]),
    (&["zscore", "zrangebyscore"], [0, 0, 1, 1, 1, 1, 1]),
    (&["zadd", "zrem", "zrevrange"], [0, 0, 1, 1, 1, 1, 0]),
    (&["zcard"], [0, 0, 1, 0, 0, 0, 1]),
    (&["zrange", "zcount"], [0, 0, 1, 1, 1, 0, 0]),
    (&["hincrby"], [0, 0, 0, 1, 0, 0, 0]),
];

/// The commands that only an option of the client or a cluster needs, how much their absence matters, and for what.
/// They are tried only there.
const OPTIONS: [(&str, Severity, &str); 7] = [
    ("info", Severity::Critical, "every kind, because grants name the term of the server"),
    ("wait", Severity::Critical, "every kind, because replicas confirm grants"),
    ("waitaof", Severity::Critical, "every kind, because replicas confirm grants"),
    ("asking", Severity::Warning, "every lock whose slot is being moved to this server"),
    ("cluster|slots", Severity::Warning, "every kind, when this server alone knows the slots"),
    ("spublish", Severity::Info, "waiters, whose messages go to all servers of the cluster"),
    ("ssubscribe", Severity::Info, "waiters, whose messages go to all servers of the cluster"),
];

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
    let refused = facts.refused.known().map(Vec::as_slice).unwrap_or_default();
    if refused.is_empty() {
        return;
    }
    let kinds = kinds(refused);
    let rights: Vec<_> = refused.iter().map(|it| right(it, &facts.wants.prefix)).collect();
    let names = KINDS.iter().zip(kinds).filter(|(_, is)| *is).map(|(it, _)| *it);
    let mut severity = severity(kinds, facts.wants.queues);
    let mut reasons = Vec::new();
    for (_, of_option, why) in OPTIONS.iter().filter(|it| refused.iter().any(|word| word == it.0)) {
        severity = severity.max(*of_option);
        if !reasons.contains(why) {
            reasons.push(why);
        }
    }
    reasons.extend(names);
    found.add(
        severity,
        "rights-missing",
        format!("the user lacks {}", rights.join(" ")),
        format!("these kinds of locks fail, or do less: {}", reasons.join("; ")),
        format!(
            "`ACL SETUSER … {}`, if the app uses these kinds of locks",
            rights.join(" ").replace('`', "")
        ),
    );
}

/// Which columns need one of these.
fn kinds(refused: &[String]) -> [bool; 7] {
    let mut kinds = [false; 7];
    let is_refused = |commands: &[&str]| refused.iter().any(|it| commands.contains(&&**it));
    for (_, needs) in NEEDS.iter().filter(|(commands, _)| is_refused(commands)) {
        for (kind, need) in kinds.iter_mut().zip(needs) {
            *kind |= *need > 0;
        }
    }
    kinds
}

/// Every app needs the first column, and an app that wants to queue needs the second one.
fn severity([by_clock, mutex, ..]: [bool; 7], queues: bool) -> Severity {
    match (by_clock, mutex && queues) {
        (true, _) => Severity::Critical,
        (false, true) => Severity::Warning,
        (false, false) => Severity::Info,
    }
}

fn right(refused: &str, prefix: &str) -> String {
    match refused {
        "channel" => format!("`&{prefix}*`"),
        command => format!("`+{command}`"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PAGE: &str = include_str!("../../acl.md");

    /// Rights that no script needs, or without which none runs.
    const ELSEWHERE: [&str; 5] = ["~lock:*", "+evalsha", "+script|load", "+info", "+scan"];

    #[test]
    fn the_table_is_that_of_the_page() {
        let table = PAGE.split("\n\n").find(|part| part.starts_with("| | mutex")).unwrap();
        let cells = |line: &str| -> Vec<String> {
            let line = line.trim_matches('|').replace("\\|", "\0");
            line.split('|').map(|it| it.trim().replace('\0', "|")).collect()
        };
        let rows: Vec<_> = table.lines().map(cells).collect();
        let (listing, kinds) = rows[0][1..].split_last().unwrap();
        assert_eq!((listing.as_str(), kinds), ("listing", &KINDS.map(str::to_owned)[..]));
        let mut on_page = BTreeSet::new();
        for row in &rows[2..] {
            let marks: Vec<_> =
                row[1..=KINDS.len()].iter().map(|cell| u8::from(cell == "×")).collect();
            let rights = row[0].split('`').skip(1).step_by(2);
            for right in rights.filter(|right| !ELSEWHERE.contains(right)) {
                on_page.insert((right.to_owned(), marks.clone()));
            }
        }
        let here = NEEDS.iter().flat_map(|(commands, needs)| {
            commands.iter().map(|it| (right(it, "lock:").replace('`', ""), needs.to_vec()))
        });
        assert_eq!(here.collect::<BTreeSet<_>>(), on_page);
    }

    #[test]
    fn what_a_mutex_needs_matters_most() {
        let of = |commands: &[&str], queues| {
            let commands: Vec<_> = commands.iter().map(|it| (*it).to_owned()).collect();
            severity(kinds(&commands), queues)
        };
        assert_eq!(of(&["zcard"], true), Severity::Info);
        assert_eq!(of(&["zcard", "lrange"], true), Severity::Warning);
        assert_eq!(of(&["lrange"], false), Severity::Info);
        assert_eq!(of(&["lrange", "set"], false), Severity::Critical);
    }
}
