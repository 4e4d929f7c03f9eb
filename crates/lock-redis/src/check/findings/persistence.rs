//! What a restart of the server does to locks.

use lock_core::check::{Findings, Severity};

use super::super::facts::Facts;
use super::super::info::Info;

const REMEDY: &str = "set `appendonly yes`; or have the server sit out after a restart, with `Builder::data_quarantine`; \
    or let nothing restart the server sooner than the longest lease; or use a quorum, whose nodes sit out as well";

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
    let Some(info) = facts.info.known() else { return };
    let config = facts.config.known();
    match info.get("aof_enabled") {
        // What a restart forgets is over before the server grants locks again.
        _ if facts.wants.sits_out => {}
        Some("0") => without_log(config.and_then(|it| it.save.as_deref()), found),
        Some(_) => with_log(config.and_then(|it| it.appendfsync.as_deref()), found),
        None => {}
    }
    failures(info, found);
}

fn without_log(save: Option<&str>, found: &mut Findings<'_>) {
    match save {
        Some("") => found.add(
            Severity::Warning,
            "no-persistence",
            "the server keeps nothing on disk: `appendonly` is off, and `save` is empty",
            "a restart forgets every lock, so a second holder gets a lock whose first holder goes on",
            REMEDY,
        ),
        save => found.add(
            Severity::Warning,
            "snapshots-only",
            match save {
                Some(save) => format!("the server keeps only snapshots: `save` is `{save}`"),
                None => "the server keeps at most snapshots: `appendonly` is off".to_owned(),
            },
            "a restart forgets every lock that was granted since the last snapshot",
            REMEDY,
        ),
    }
}

fn with_log(appendfsync: Option<&str>, found: &mut Findings<'_>) {
    match appendfsync {
        Some("no") => found.add(
            Severity::Warning,
            "appendfsync-no",
            "`appendfsync` is `no`",
            "if the machine of the server crashes, the locks of the last half minute may be forgotten",
            "set `appendfsync` to `everysec` or `always`, or use `Builder::data_quarantine`",
        ),
        Some("everysec") => found.add(
            Severity::Info,
            "appendfsync-everysec",
            "`appendfsync` is `everysec`",
            "if the machine of the server crashes, the locks of the last one or two seconds are forgotten; \
             a crash of the process alone forgets none",
            "if that is too much, set `appendfsync always`, which makes each lock wait for the disk, or use \
             `Builder::data_quarantine`",
        ),
        _ => {}
    }
}

fn failures(info: &Info, found: &mut Findings<'_>) {
    if info.get("rdb_last_bgsave_status") == Some("err") {
        found.add(
            Severity::Warning,
            "snapshot-failed",
            "the last snapshot could not be written",
            "a restart brings back an older state, and with `stop-writes-on-bgsave-error` the server takes no writes",
            "look for the cause in the log of the server, often a full disk or a right in its folder",
        );
    }
    let is_bad = |field| info.get(field) == Some("err");
    if is_bad("aof_last_write_status") || is_bad("aof_last_bgrewrite_status") {
        found.add(
            Severity::Critical,
            "append-failed",
            "the append-only file could not be written",
            "the server takes no writes until it can write the file, or it forgets the latest locks in a restart",
            "look for the cause in the log of the server, often a full disk",
        );
    }
}
