//! What the server does not tell this user.

use lock_core::check::{Findings, Severity};

use super::super::facts::Facts;
use crate::options::Notifications;

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
    of_info(facts, found);
    of_config(facts, found);
    if let Some(why) = facts.sentinels.refusal() {
        refused(
            found,
            "sentinel-unknown",
            &["whether Sentinels monitor it"],
            why,
            "`+pubsub|numsub`",
        );
    }
    if let Some(why) = facts.clock.refusal() {
        refused(found, "clock-unknown", &["its clock"], why, "`+time`");
    }
    for replica in &facts.replicas {
        if let Some(why) = replica.clock.refusal() {
            let what = format!("the clock of the replica {}", replica.address);
            let remedy = "give the user to the replicas, too, and let this machine reach them";
            add(found, "replica-clock-unknown", &[&what], why, remedy.to_owned());
        }
    }
    // Whatever hinders scripts is another finding. Some rights are tried on further connections.
    if let Some(why) = facts.refused.refusal() {
        let remedy = "remove what hinders scripts or further connections, and check again";
        add(found, "rights-unknown", &["the rights of this user"], why, remedy.into());
    }
}

fn of_info(facts: &Facts, found: &mut Findings<'_>) {
    if let Some(why) = facts.info.refusal() {
        let mut what = vec![
            "its version",
            "whether it evicts keys",
            "what a restart forgets",
            "whether it is a node of a cluster",
            "its replicas",
            "whether scripts are slow",
        ];
        if facts.is_replica().is_none() {
            what.push("whether it is a replica");
        }
        refused(found, "info-refused", &what, why, "`+info`");
    }
}

fn of_config(facts: &Facts, found: &mut Findings<'_>) {
    if let Some(why) = facts.config.refusal() {
        let mut what = vec!["`appendfsync`", "`save`", "`min-replicas-to-write`"];
        if facts.wants.notifications != Notifications::Off {
            what.push("`notify-keyspace-events`");
        }
        refused(found, "config-refused", &what, why, "`+config|get`");
    }
}

fn refused(found: &mut Findings<'_>, code: &'static str, what: &[&str], why: &str, right: &str) {
    let remedy =
        format!("grant {right} to the user of the check, or ask the operator of the server");
    add(found, code, what, why, remedy);
}

fn add(found: &mut Findings<'_>, code: &'static str, what: &[&str], why: &str, remedy: String) {
    found.add(
        Severity::Unknown,
        code,
        format!("the server does not tell: {} ({why})", what.join(", ")),
        "the check does not guess, so there may be findings here that it cannot report",
        remedy,
    );
}
