//! The replicas of the server.

use lock_core::check::{Findings, Severity};

use super::super::facts::Facts;
use super::super::info::Info;

/// A replica answers once in a second. So the lag, in whole seconds, is normally 0 or 1.
const LAG: u64 = 2;

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
    let Some(info) = facts.info.known().filter(|info| info.get("role") == Some("master")) else {
        return;
    };
    let wanted =
        facts.config.known().and_then(|it| it.min_replicas_to_write.as_deref()?.parse().ok());
    too_few(info, wanted, found);
    let count = info.number("connected_slaves").unwrap_or_default();
    let confirming = facts.wants.confirms.map(u64::from);
    if let Some(wished) = confirming.filter(|wished| *wished != count) {
        miscounted(count, wished, found);
    }
    if count == 0 {
        alone(facts, found);
        return;
    }
    // A confirmed grant counts only if all replicas have it. So a failover forgets none, and a primary that is cut off
    // grants nothing. Both hold only if all clients confirm their grants and only counted replicas are promoted.
    if confirming != Some(count) {
        forgets(info, count, wanted, facts, found);
    }
    lags(facts, info, found);
}

/// What a failover forgets, of grants that no replica confirms.
fn forgets(info: &Info, count: u64, wanted: Option<u64>, facts: &Facts, found: &mut Findings<'_>) {
    found.add(
        Severity::Warning,
        "failover-forgets",
        format!("the server has replicas: {}", names(info)),
        "replication is asynchronous: a replica that takes over may not know the latest grants, and gives those locks away again",
        "let the resource refuse lower fencing tokens, or use a quorum of servers without replicas",
    );
    // A server with this setting counts its good replicas.
    if wanted.is_none_or(|wanted| wanted == 0) && info.get("min_slaves_good_slaves").is_none() {
        found.add(
            Severity::Warning,
            "no-min-replicas",
            "`min-replicas-to-write` is off",
            "a master that is cut off from its replicas goes on granting locks while its successor grants them too",
            "set `min-replicas-to-write` to the number of replicas, and `min-replicas-max-lag` to 1 or 2 seconds; \
             scripts obey this from version 7 on",
        );
    }
    partly(facts, count, wanted, found);
}

/// A client whose grants are confirmed asks no replica unless exactly those are attached that count.
fn miscounted(count: u64, wished: u64, found: &mut Findings<'_>) {
    found.add(
        Severity::Critical,
        "replicas-miscounted",
        format!("{count} replicas are attached, and grants are confirmed by {wished}"),
        "no grant counts there, so no lock is acquired or renewed",
        "attach or detach replicas, or set their number in `confirm`",
    );
}

fn alone(facts: &Facts, found: &mut Findings<'_>) {
    if facts.wants.follows {
        found.add(
            Severity::Warning,
            "no-replica",
            "the primary has no replica that is connected",
            "no server can take over from it, so its locks are out of service while it is away",
            "add a replica, or bring it back",
        );
    }
}

/// A primary that loses its successor and keeps another replica has enough replicas to write.
fn partly(facts: &Facts, count: u64, wanted: Option<u64>, found: &mut Findings<'_>) {
    if let Some(wanted) = wanted.filter(|wanted| (1..count).contains(wanted))
        && facts.wants.follows
    {
        found.add(
            Severity::Info,
            "min-replicas-below-all",
            format!("`min-replicas-to-write` is {wanted}, and there are {count} replicas"),
            "a primary that is cut off together with so many replicas goes on granting locks while its successor grants \
             them too",
            "set `min-replicas-to-write` to the number of replicas, at the price that the loss of one stops all locks",
        );
    }
}

fn names(info: &Info) -> String {
    info.replicas().into_iter().map(|it| it.address).collect::<Vec<_>>().join(", ")
}

fn too_few(info: &Info, wanted: Option<u64>, found: &mut Findings<'_>) {
    let Some((good, wanted)) = info.number("min_slaves_good_slaves").zip(wanted) else { return };
    if good < wanted {
        found.add(
            Severity::Critical,
            "too-few-replicas",
            format!("{good} replicas are in step, and `min-replicas-to-write` is {wanted}"),
            "the server refuses writes, so it grants no lock; before version 7 it lets scripts write, \
             and so grants locks that no replica knows",
            "bring the replicas back, or lower `min-replicas-to-write`",
        );
    }
}

fn lags(facts: &Facts, info: &Info, found: &mut Findings<'_>) {
    let reason = if facts.wants.confirms.is_some() {
        "it confirms no grant in that time, so no lock is granted or renewed"
    } else {
        "if it takes over, it forgets every lock that was granted in that time"
    };
    for replica in info.replicas() {
        if replica.state != "online" {
            found.add(
                Severity::Warning,
                "replica-not-online",
                format!("the replica {} is not in step yet: {}", replica.address, replica.state),
                "it does not know the locks that are held",
                "wait until its state is online before you rely on it",
            );
        } else if let Some(lag) = replica.lag.filter(|lag| *lag > LAG) {
            found.add(
                Severity::Warning,
                "replica-lagging",
                format!("the replica {} has not answered for {lag} s", replica.address),
                reason,
                "find out why the replica or its network is slow, and do not promote it",
            );
        }
    }
}
