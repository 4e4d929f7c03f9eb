//! From facts to findings, without I/O.

mod members;

use lock_core::ErrorKind;
use lock_core::check::{Examined, Finding, Findings, Report, Severity, Trouble};

use super::facts::Facts;
use crate::link::Host;

/// What the facts mean for locks.
pub(super) fn report(facts: &Facts) -> Report {
    let mut found = Findings::at(&facts.store);
    members::together(facts, &mut found);
    if let Some(rehearsal) = &facts.rehearsal {
        rehearsal.judge(&mut found, advise);
    }
    let mut list = members::each(facts);
    list.extend(found.into_list());
    Report::new(facts.survey.hosts.iter().map(examined).collect(), list)
}

fn examined(host: &Host) -> Examined {
    let examined = Examined::new(&host.name);
    let Ok(told) = &host.told else { return examined };
    let errors = Some(told.errors.join("; ")).filter(|errors| !errors.is_empty());
    examined
        .with("version", Some(&told.version))
        .with("cluster", Some(format!("{:x}", told.cluster)))
        .with("bytes", Some(told.size))
        .with("errors", errors)
}

/// What to do about a trouble of the rehearsal.
fn advise(trouble: Trouble<'_>, finding: Finding) -> Option<Finding> {
    Some(match trouble {
        Trouble::Vanished => finding
            .why("something deletes keys or revokes leases, or two clusters answer, so two holders can be inside at once")
            .remedy("find the client that deletes keys under the prefix or revokes leases, and let the URL lead to one cluster"),
        Trouble::Failed(ErrorKind::Denied, why) => {
            Finding::new(Severity::Critical, "rights-missing", finding.server)
                .because(format!("the user may not do what a lock needs: {why}"), "no lock is granted")
                .remedy(
                    "grant a role of the user the permission to read and write the prefix: \
                     `etcdctl role grant-permission ROLE readwrite --prefix=true PREFIX/`",
                )
        }
        Trouble::Failed(kind, _) => finding.remedy(remedy(kind)),
        Trouble::Unseen(_) => finding.remedy("grant the user the permission to read the whole prefix"),
        Trouble::Unwatched(_) => finding.remedy(
            "grant the user the permission to read the whole prefix, and let proxies pass streams on",
        ),
        Trouble::Unqueued => finding.remedy(
            "grant the user the permission to read and write the whole prefix, and let proxies pass streams on",
        ),
        Trouble::Unheard | Trouble::Uncounted => finding.remedy(
            "let the URL lead to the members themselves, or to proxies that pass streams on",
        ),
        _ => finding,
    })
}

fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotReady => {
            "wait until the cluster has a leader, and look for alarms: it may lack room or be overloaded"
        }
        ErrorKind::Timeout => {
            "look for slow disks at the members, and for members that stand still"
        }
        _ => "look for the cause at the members and in the network, and check again",
    }
}

#[cfg(test)]
mod tests {
    use lock_core::check::Severity::{Critical, Info, Unknown, Warning};
    use lock_core::check::{Outcome, Rehearsal};
    use lock_core::conformance::{FindingCase, enforce_findings};

    use super::*;
    use crate::link::{Survey, Told};

    fn healthy() -> Facts {
        let host = |name: &str| Host {
            name: name.to_owned(),
            told: Ok(Told {
                cluster: 0xc1,
                version: "3.6.1".to_owned(),
                has_leader: true,
                is_learner: false,
                size: 20_480,
                errors: Vec::new(),
            }),
        };
        Facts {
            store: "a:2379,b:2379/lock".to_owned(),
            survey: Survey { hosts: vec![host("a:2379"), host("b:2379")], voters: Some(3) },
            rehearsal: Some(Rehearsal::default()),
            allows_unsafe: true,
        }
    }

    fn first(facts: &mut Facts, change: impl FnOnce(&mut Told)) {
        change(facts.survey.hosts[0].told.as_mut().unwrap());
    }

    fn rehearsed(facts: &mut Facts, change: impl FnOnce(&mut Rehearsal)) {
        change(facts.rehearsal.as_mut().unwrap());
    }

    fn failed(facts: &mut Facts, kind: ErrorKind) {
        rehearsed(facts, |it| it.outcome = Outcome::Failed(kind, "no".to_owned()));
    }

    /// What makes each finding appear.
    const CASES: [FindingCase<Facts>; 25] = [
        ("unsafe-version", Critical, |it| first(it, |it| it.version = "3.5.12".to_owned())),
        ("unsafe-version", Critical, |it| {
            first(it, |it| it.version = "3.5.12".to_owned());
            it.survey.voters = None;
        }),
        ("unsafe-version-refused", Critical, |it| {
            first(it, |it| it.version = "3.4.30".to_owned());
            it.survey.voters = Some(1);
            it.allows_unsafe = false;
        }),
        ("unsafe-version-alone", Warning, |it| {
            first(it, |it| it.version = "3.4.30".to_owned());
            it.survey.voters = Some(1);
        }),
        ("old-version", Critical, |it| first(it, |it| it.version = "3.3.27".to_owned())),
        ("no-version", Critical, |it| first(it, |it| it.version = "a proxy".to_owned())),
        ("no-leader", Critical, |it| first(it, |it| it.has_leader = false)),
        ("learner", Warning, |it| first(it, |it| it.is_learner = true)),
        ("space-full", Critical, |it| {
            first(it, |it| it.errors = vec!["memberID:12 alarm:NOSPACE ".to_owned()]);
        }),
        ("data-corrupt", Critical, |it| {
            first(it, |it| it.errors = vec!["memberID:12 alarm:CORRUPT ".to_owned()]);
        }),
        ("clusters-many", Critical, |it| first(it, |it| it.cluster += 1)),
        ("member-silent", Warning, |it| it.survey.hosts[0].told = Err("no".to_owned())),
        ("members-unseen", Unknown, |it| it.survey.voters = None),
        ("one-member", Info, |it| it.survey.voters = Some(1)),
        ("two-members", Warning, |it| it.survey.voters = Some(2)),
        ("rights-missing", Critical, |it| failed(it, ErrorKind::Denied)),
        ("lock-refused", Critical, |it| failed(it, ErrorKind::NotReady)),
        ("lock-refused", Critical, |it| failed(it, ErrorKind::Timeout)),
        ("lock-vanished", Critical, |it| rehearsed(it, |it| it.outcome = Outcome::Vanished)),
        ("rehearsal-busy", Unknown, |it| rehearsed(it, |it| it.outcome = Outcome::Busy)),
        ("holders-unseen", Warning, |it| rehearsed(it, |it| it.unseen = Some("no".to_owned()))),
        ("watch-refused", Warning, |it| rehearsed(it, |it| it.unwatched = Some("no".to_owned()))),
        ("queue-refused", Warning, |it| rehearsed(it, |it| it.unqueued = true)),
        ("releases-unheard", Warning, |it| rehearsed(it, |it| it.unheard = true)),
        ("releases-unheard", Warning, |it| rehearsed(it, |it| it.uncounted = true)),
    ];

    #[test]
    fn a_healthy_cluster_is_shown() {
        let report = report(&healthy());
        assert!(report.to_string().starts_with("a:2379: version 3.6.1, cluster c1"), "{report}");
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
        // The last one follows from the limits, for every store.
        enforce_findings(include_str!("../mod.rs"), &["coarse-leases"], &CASES, |change| {
            let mut facts = healthy();
            change(&mut facts);
            report(&facts).findings
        });
    }

    /// A finding about one member names the member, and a finding about all of them names the store.
    #[test]
    fn a_finding_names_the_member_or_the_store() {
        let mut facts = healthy();
        first(&mut facts, |it| it.has_leader = false);
        facts.survey.voters = Some(2);
        let report = report(&facts);
        assert_eq!(report.with_code("no-leader").next().unwrap().server, "a:2379");
        assert_eq!(report.with_code("two-members").next().unwrap().server, facts.store);
    }
}
