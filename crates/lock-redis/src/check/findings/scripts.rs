//! How the server takes scripts.

use lock_core::ErrorKind;
use lock_core::check::{Findings, Severity};

use super::super::facts::Facts;

/// So many calls say something of their mean.
const ENOUGH: u64 = 20;
/// The mean of a fast script is some tens of microseconds. In microseconds.
const SLOW: u64 = 5_000;

/// Whether there is more to say of the server than this.
pub(super) fn is_ready(facts: &Facts, found: &mut Findings<'_>) -> bool {
    match &facts.scripts.refused {
        Some((ErrorKind::NotReady, why)) => {
            found.add(
                Severity::Critical,
                "not-ready",
                format!("the server serves nothing at the moment: {why}"),
                "no lock is granted, renewed or released until it does, and leases may end meanwhile",
                "wait while the server loads its data or fails over; end a script that runs for ever with `SCRIPT KILL`",
            );
            false
        }
        _ => true,
    }
}

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
    if let Some((_, why)) = &facts.scripts.refused {
        found.add(
            Severity::Critical,
            "scripts-refused",
            format!("the server runs no scripts: {why}"),
            "every lock is a script",
            "grant `+evalsha` and `+script|load`, or use a server or a proxy that runs scripts",
        );
    }
    if let Some(why) = &facts.scripts.unloaded {
        found.add(
            Severity::Warning,
            "scripts-not-loaded",
            format!("the server loads no scripts, but takes them with a call: {why}"),
            "whenever the server does not know a script, a request is repeated with up to 16 KB of text",
            "grant `+script|load`",
        );
    }
    if facts.scripts.sent_whole {
        found.add(
            Severity::Warning,
            "scripts-sent-whole",
            "every request sends its whole script: the server does not accept EVALSHA",
            "each request is up to 16 KB long, which costs the network and the server time",
            "grant `+evalsha`, or use a proxy that accepts EVALSHA",
        );
    }
    let (calls, micros) = facts.info.known().map(|info| info.scripts()).unwrap_or_default();
    if calls >= ENOUGH && micros / calls >= SLOW {
        found.add(
            Severity::Warning,
            "slow-scripts",
            format!("the scripts of all clients took {} µs on average, over {calls} calls", micros / calls),
            "the server runs one script at a time, so a slow script delays each renewal, and leases may end",
            "find the script with `SLOWLOG GET`, or give locks a server of their own",
        );
    }
}
