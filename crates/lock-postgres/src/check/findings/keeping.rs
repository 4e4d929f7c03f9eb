//! Findings about what the server keeps when it, its machine or a primary fails.

use lock_core::check::{Findings, Severity};

use super::super::facts::Facts;

pub(super) fn durability(facts: &Facts, found: &mut Findings<'_>) {
    let settings = &facts.settings;
    if !settings.fsync {
        found.add(
            Severity::Warning,
            "fsync-off",
            "`fsync` is off: the server does not wait for its disk",
            "a crash of the machine forgets grants or damages the data, and then locks that are held are granted again",
            "set `fsync = on`",
        );
    }
    if !settings.full_pages {
        found.add(
            Severity::Warning,
            "full-pages-off",
            "`full_page_writes` is off",
            "a crash of the machine may damage pages of the tables of the locks",
            "set `full_page_writes = on`",
        );
    }
    if settings.synchronous_commit == "off" {
        found.add(
            Severity::Warning,
            "commits-unwritten",
            "`synchronous_commit` is off for this role or database",
            "a crash of the server forgets the grants of the last moment, and these locks are granted again",
            "set `synchronous_commit` to `on` for the role of the locks",
        );
    }
}

pub(super) fn standbys(facts: &Facts, found: &mut Findings<'_>) {
    let settings = &facts.settings;
    if settings.is_standby {
        return;
    }
    let waits = !settings.standby_names.is_empty()
        && !["off", "local"].contains(&settings.synchronous_commit.as_str());
    if waits {
        waiting(facts, found);
    } else if facts.standbys.attached > 0 {
        found.add(
            Severity::Warning,
            "failover-forgets",
            format!("{} standbys follow the server, and no grant waits for one", facts.standbys.attached),
            "a failover to a standby that lacks the last commits forgets grants, and these locks are granted again",
            "name the standbys in `synchronous_standby_names`, and leave `synchronous_commit` at `on` or above",
        );
    } else {
        found.add(
            Severity::Info,
            "no-standby",
            "no other server has the data",
            "while the server is away, no lock is granted or renewed",
            "nothing, if the app can wait; otherwise run a synchronous standby",
        );
    }
}

/// The commits wait for standbys.
fn waiting(facts: &Facts, found: &mut Findings<'_>) {
    let in_step = facts.standbys.in_step;
    if in_step == Some(0) {
        found.add(
            Severity::Critical,
            "standbys-missing",
            format!(
                "commits wait for the standbys `{}`, and none of these is there",
                facts.settings.standby_names
            ),
            "no grant is confirmed, so no lock is acquired or renewed",
            "start the standbys, or correct `synchronous_standby_names`",
        );
    }
    if in_step.is_none() {
        found.add(
            Severity::Unknown,
            "standbys-unseen",
            "the role does not see how the standbys follow the server",
            "if none of the named standbys is there, no grant is confirmed",
            "grant `pg_read_all_stats` to the role of the check, or ask the operator of the server",
        );
    }
}
