//! From facts to findings, without I/O.

mod keeping;
mod schema;

use lock_core::ErrorKind;
use lock_core::check::{Examined, Finding, Findings, Report, Severity, Trouble};

use super::facts::{Facts, Schema};
use crate::schema::OLDEST;

/// Differences between clocks up to here are not worth a finding. In microseconds.
const SKEW: u64 = 1_000_000;
/// The start of 2020, from which tokens count. In microseconds since 1970.
const EPOCH: i64 = 1_577_836_800_000_000;

/// What grants a role the rights of an app.
const ALLOW: &str = "run `CALL lock_v1.allow('role')` as the owner of the schema";

/// What the facts mean for locks.
pub(super) fn report(facts: &Facts) -> Report {
    let mut found = Findings::at(&facts.server);
    let finders = [
        server,
        schema::find,
        keeping::durability,
        keeping::standbys,
        clock,
        sessions,
        schema::owner,
    ];
    for find in finders {
        find(facts, &mut found);
    }
    if let Some(rehearsal) = &facts.rehearsal {
        rehearsal.judge(&mut found, |trouble, finding| advise(facts, trouble, finding));
    }
    Report::new(vec![examined(facts)], found.into_list())
}

fn examined(facts: &Facts) -> Examined {
    let settings = &facts.settings;
    let version = match &facts.schema {
        Schema::Open { version, .. } => Some(*version),
        _ => None,
    };
    let standbys = Some(facts.standbys.attached).filter(|_| !settings.is_standby);
    Examined::new(&facts.server)
        .with("version", Some(&settings.shown_version))
        .with("role", Some(if settings.is_standby { "standby" } else { "primary" }))
        .with("schema", version)
        .with("standbys", standbys)
        .with("synchronous-commit", Some(&settings.synchronous_commit))
        .with("pooler", facts.is_pooled.then_some("yes"))
        .with("clock", Some(facts.clock.offset()))
}

fn server(facts: &Facts, found: &mut Findings<'_>) {
    let settings = &facts.settings;
    if settings.version < OLDEST {
        found.add(
            Severity::Critical,
            "old-version",
            format!("the server has version {}", settings.shown_version),
            "the functions of the locks need PostgreSQL 13",
            "run PostgreSQL 13 or later",
        );
    }
    if settings.is_standby {
        found.add(
            Severity::Critical,
            "standby",
            "the server is a standby",
            "a standby takes no writes, so it grants no lock",
            "connect to the primary, or name all servers in the URL with `target_session_attrs=read-write`",
        );
    } else if settings.is_read_only {
        found.add(
            Severity::Critical,
            "read-only",
            "transactions of this role are read-only",
            "every verb of a lock writes",
            "set `default_transaction_read_only` to off for the role and the database",
        );
    }
    if !settings.autovacuum {
        found.add(
            Severity::Warning,
            "autovacuum-off",
            "`autovacuum` is off",
            "each grant leaves a dead row behind, so the tables grow and requests become slower",
            "set `autovacuum = on`",
        );
    }
}

fn clock(facts: &Facts, found: &mut Findings<'_>) {
    if facts.clock.told < EPOCH {
        found.add(
            Severity::Critical,
            "clock-unset",
            "the clock of the server is before 2020",
            "fencing tokens follow this clock, and would not be above those of earlier grants",
            "set the clock of the server",
        );
    }
    let offset = facts.clock.offset();
    if offset.exceeds(SKEW) {
        found.add(
            Severity::Warning,
            "clock-skew",
            format!("the clock of the server is {offset} of the clock of this machine"),
            "leases do not depend on it; but fencing tokens follow the clock of the server, and a standby with another \
             clock that takes over ends leases too early or too late",
            "synchronise the clocks of all machines; the check cannot tell which one is wrong",
        );
    }
}

fn sessions(facts: &Facts, found: &mut Findings<'_>) {
    // Without a pooler, the client sets it for its sessions.
    if facts.is_pooled && facts.settings.isolation != "read committed" {
        found.add(
            Severity::Critical,
            "isolation",
            format!("transactions are `{}` by default", facts.settings.isolation),
            "the verbs decide by what was committed last, so they refuse every other level",
            "set `default_transaction_isolation` to `read committed` for the role of the locks",
        );
    }
}

/// What to do about a trouble of the rehearsal.
fn advise(facts: &Facts, trouble: Trouble<'_>, finding: Finding) -> Option<Finding> {
    Some(match trouble {
        Trouble::Vanished => finding
            .why("something deletes rows, or two servers answer, so two holders can be inside at once")
            .remedy("find the client that deletes rows of `lock_v1`, and let the URL lead to one primary"),
        Trouble::Failed(kind, _) => finding.remedy(remedy(kind)),
        Trouble::Unseen(_) => finding.remedy(ALLOW),
        // Without a direct connection there is nothing to hear, which is another finding.
        Trouble::Unwatched(_) if !facts.is_direct => return None,
        Trouble::Unwatched(_) => finding
            .remedy("let the URL of the client lead to the server itself, past every pooler"),
        Trouble::Unqueued => finding
            .remedy("let the direct URL and the URL of the pooler lead to one database"),
        Trouble::Unheard | Trouble::Uncounted => finding.remedy(
            "let the URL of the client lead to the server itself, past every pooler, and give the pooler by `pooler`",
        ),
        _ => finding,
    })
}

fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Denied => ALLOW,
        ErrorKind::InvalidConfig => "call `init` once, as the owner of the schema",
        ErrorKind::NotReady => {
            "wait until the server takes writes: it fails over, starts, or lacks room or connections"
        }
        ErrorKind::Timeout => {
            "look for what holds the rows of `lock_v1`, and for standbys that are named and not there"
        }
        _ => "look for the cause at the server and in the network, and check again",
    }
}

#[cfg(test)]
mod tests {
    use lock_core::check::Severity::{Critical, Info, Unknown, Warning};
    use lock_core::check::{Look, Outcome, Rehearsal};
    use lock_core::conformance::{FindingCase, enforce_findings};

    use super::super::facts::{Settings, Standbys};
    use super::*;
    use crate::schema::VERSION;

    fn healthy() -> Facts {
        let now = 1_795_000_000_000_000;
        Facts {
            server: "db:5432/shop".to_owned(),
            is_pooled: false,
            is_direct: true,
            settings: Settings {
                version: 150_004,
                shown_version: "15.4".to_owned(),
                fsync: true,
                full_pages: true,
                synchronous_commit: "on".to_owned(),
                standby_names: "one".to_owned(),
                isolation: "read committed".to_owned(),
                is_read_only: false,
                autovacuum: true,
                is_standby: false,
            },
            standbys: Standbys { attached: 1, in_step: Some(1) },
            schema: open(VERSION, false, false),
            clock: Look { wall: now, took: 200, told: now + 100 },
            rehearsal: Some(Rehearsal::default()),
        }
    }

    fn rehearsed(facts: &mut Facts, change: impl FnOnce(&mut Rehearsal)) {
        change(facts.rehearsal.as_mut().unwrap());
    }

    fn open(version: i32, is_own: bool, is_of_superuser: bool) -> Schema {
        Schema::Open { version, is_own, is_of_superuser }
    }

    /// What makes each finding appear.
    const CASES: [FindingCase<Facts>; 29] = [
        ("schema-missing", Critical, |it| it.schema = Schema::Missing),
        ("schema-old", Critical, |it| it.schema = open(0, false, false)),
        ("schema-new", Info, |it| it.schema = open(VERSION + 1, false, false)),
        ("rights-missing", Critical, |it| it.schema = Schema::Closed(vec!["acquire".to_owned()])),
        ("rights-many", Info, |it| it.schema = open(VERSION, true, false)),
        ("owner-superuser", Warning, |it| it.schema = open(VERSION, false, true)),
        ("standby", Critical, |it| it.settings.is_standby = true),
        ("read-only", Critical, |it| it.settings.is_read_only = true),
        ("old-version", Critical, |it| it.settings.version = 120_022),
        ("autovacuum-off", Warning, |it| it.settings.autovacuum = false),
        ("clock-unset", Critical, |it| it.clock = Look { wall: 7, took: 1, told: 7 }),
        ("clock-skew", Warning, |it| it.clock.told += 2_000_000),
        ("standbys-missing", Critical, |it| it.standbys.in_step = Some(0)),
        ("standbys-unseen", Unknown, |it| it.standbys.in_step = None),
        ("failover-forgets", Warning, |it| it.settings.standby_names.clear()),
        ("failover-forgets", Warning, |it| it.settings.synchronous_commit = "local".to_owned()),
        ("no-standby", Info, |it| {
            it.settings.standby_names.clear();
            it.standbys.attached = 0;
        }),
        ("fsync-off", Warning, |it| it.settings.fsync = false),
        ("full-pages-off", Warning, |it| it.settings.full_pages = false),
        ("commits-unwritten", Warning, |it| {
            it.settings.synchronous_commit = "off".to_owned();
            it.standbys.attached = 0;
        }),
        ("isolation", Critical, |it| {
            it.is_pooled = true;
            it.settings.isolation = "serializable".to_owned();
        }),
        ("lock-refused", Critical, |it| {
            rehearsed(it, |it| {
                it.outcome = Outcome::Failed(ErrorKind::NotReady, "full".to_owned())
            });
        }),
        ("lock-vanished", Critical, |it| rehearsed(it, |it| it.outcome = Outcome::Vanished)),
        ("rehearsal-busy", Unknown, |it| rehearsed(it, |it| it.outcome = Outcome::Busy)),
        ("holders-unseen", Warning, |it| rehearsed(it, |it| it.unseen = Some("no".to_owned()))),
        ("watch-refused", Warning, |it| rehearsed(it, |it| it.unwatched = Some("no".to_owned()))),
        ("queue-refused", Warning, |it| rehearsed(it, |it| it.unqueued = true)),
        ("releases-unheard", Warning, |it| rehearsed(it, |it| it.unheard = true)),
        ("releases-unheard", Warning, |it| rehearsed(it, |it| it.uncounted = true)),
    ];

    #[test]
    fn a_healthy_database_is_shown() {
        let shown = report(&healthy()).to_string();
        assert!(shown.starts_with("db:5432/shop: version 15.4, role primary"), "{shown}");
    }

    #[test]
    fn each_fact_makes_its_finding_appear_and_no_worse_one() {
        for (code, severity, change) in CASES {
            let mut facts = healthy();
            change(&mut facts);
            assert_eq!(report(&facts).worst(), Some(severity), "{code}");
        }
    }

    #[test]
    fn the_docs_name_each_finding_with_its_severity() {
        // The last one follows from the capabilities, for every store.
        enforce_findings(include_str!("../mod.rs"), &["no-wake-ups"], &CASES, |change| {
            let mut facts = healthy();
            change(&mut facts);
            report(&facts).findings
        });
    }

    #[test]
    fn without_a_direct_connection_the_watch_is_no_finding_of_its_own() {
        let mut facts = healthy();
        facts.is_direct = false;
        rehearsed(&mut facts, |it| it.unwatched = Some("no".to_owned()));
        assert_eq!(report(&facts).findings, []);
    }
}
