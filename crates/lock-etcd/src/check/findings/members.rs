//! Findings about the members of the cluster.

use std::collections::BTreeSet;

use lock_core::check::{Finding, Findings, Severity};

use super::super::facts::Facts;
use crate::link::{Host, Judgement, Told, judge};

/// What is wrong with one member.
pub(super) fn each(facts: &Facts) -> Vec<Finding> {
    let is_alone = facts.survey.voters == Some(1);
    let is_refused = is_alone && !facts.allows_unsafe;
    let of_host = |host: &Host| {
        let mut found = Findings::at(&host.name);
        match &host.told {
            Ok(told) => {
                version(told, is_alone, is_refused, &mut found);
                role(told, &mut found);
                alarms(told, &mut found);
            }
            Err(why) => found.add(
                Severity::Warning,
                "member-silent",
                format!("the member does not answer: {why}"),
                "the cluster can spare fewer members, and clients lose time when they try this one",
                "start the member, or correct the URL",
            ),
        }
        found.into_list()
    };
    facts.survey.hosts.iter().flat_map(of_host).collect()
}

fn version(told: &Told, is_alone: bool, is_refused: bool, found: &mut Findings<'_>) {
    let version = &told.version;
    match judge(version) {
        Judgement::Safe => {}
        Judgement::Unsafe if is_refused => found.add(
            Severity::Critical,
            "unsafe-version-refused",
            format!("the only member has version {version}, and this client refuses it"),
            "no lock works, although the version does no harm in a cluster of one member",
            "add `?allow_unsafe_version=true` to the URL, or run etcd 3.4.31, 3.5.13, 3.6 or newer",
        ),
        Judgement::Unsafe if is_alone => found.add(
            Severity::Warning,
            "unsafe-version-alone",
            format!("the only member has version {version}, which may end renewed leases in a larger cluster"),
            "a second member would make this version dangerous",
            "run etcd 3.4.31, 3.5.13, 3.6 or newer before the cluster gets more members",
        ),
        Judgement::Unsafe => found.add(
            Severity::Critical,
            "unsafe-version",
            format!("the member has version {version}"),
            "a leader whose disk has stalled may end leases that a later leader has renewed (etcd #15247): a lock then has two holders",
            "run etcd 3.4.31, 3.5.13, 3.6 or newer",
        ),
        Judgement::Old => found.add(
            Severity::Critical,
            "old-version",
            format!("the member has version {version}"),
            "the locks need etcd 3.4",
            "run etcd 3.4.31, 3.5.13, 3.6 or newer",
        ),
        Judgement::Odd => found.add(
            Severity::Critical,
            "no-version",
            format!("the member calls its version {version:?}"),
            "clients refuse a server that may be no etcd",
            "let the URL lead to members of etcd, past every proxy",
        ),
    }
}

fn role(told: &Told, found: &mut Findings<'_>) {
    if !told.has_leader {
        found.add(
            Severity::Critical,
            "no-leader",
            "the member knows of no leader",
            "the member grants and renews no lock",
            "start members until a majority runs, and let them reach one another",
        );
    }
    if told.is_learner {
        found.add(
            Severity::Warning,
            "learner",
            "the member is a learner",
            "a learner serves no lock, and clients lose time when they try it",
            "promote the member, or take it out of the URL",
        );
    }
}

fn alarms(told: &Told, found: &mut Findings<'_>) {
    let says = |alarm: &str| told.errors.iter().any(|error| error.contains(alarm));
    if says("NOSPACE") {
        found.add(
            Severity::Critical,
            "space-full",
            "the cluster has raised the alarm NOSPACE",
            "a member has no room for its data, so no lock is granted or handed over",
            "compact and defragment the data, or raise `--quota-backend-bytes`; then run `etcdctl alarm disarm`",
        );
    }
    if says("CORRUPT") {
        found.add(
            Severity::Critical,
            "data-corrupt",
            "the cluster has raised the alarm CORRUPT",
            "members have different data, so two holders can be inside at once",
            "replace the members whose data differ; then run `etcdctl alarm disarm`",
        );
    }
}

/// What is wrong with the cluster as a whole.
pub(super) fn together(facts: &Facts, found: &mut Findings<'_>) {
    let told = facts.survey.hosts.iter().filter_map(|host| host.told.as_ref().ok());
    let clusters: BTreeSet<_> = told.map(|told| told.cluster).collect();
    if clusters.len() > 1 {
        found.add(
            Severity::Critical,
            "clusters-many",
            format!("the hosts of the URL belong to {} clusters", clusters.len()),
            "a client uses one host at a time, so each cluster grants the lock to a client of its own",
            "name the members of one cluster in the URL",
        );
    }
    match facts.survey.voters {
        None => found.add(
            Severity::Unknown,
            "members-unseen",
            "no member tells how many members the cluster has",
            "a cluster of one or two members stops when one of them fails",
            "run `etcdctl member list` as a user who may",
        ),
        Some(1) => found.add(
            Severity::Info,
            "one-member",
            "no other member has the data",
            "while the member is away, no lock is granted or renewed",
            "nothing, if the app can wait; otherwise run three members",
        ),
        Some(2) => found.add(
            Severity::Warning,
            "two-members",
            "two members vote",
            "a majority of two is both, so no lock is granted or renewed when either of them is away",
            "run three members",
        ),
        Some(_) => {}
    }
}
