//! From facts to findings, without I/O.

mod clock;
mod deployment;
mod listening;
mod lock;
mod memory;
mod persistence;
mod replication;
mod rights;
mod role;
mod scripts;
mod sentinels;
#[cfg(test)]
mod tests;
mod unknown;
mod version;

use lock_core::check::{Finding, Findings};

use super::facts::{Deployment, Facts};
use super::info::Info;
use super::report::{Report, Role, Server, Topology};

/// What the facts mean for locks.
pub(super) fn report(deployment: &Deployment) -> Report {
    let servers = &deployment.servers;
    let mut all = deployment::findings(deployment);
    let mut watchers = Findings::at(&deployment.name);
    sentinels::find(&deployment.sentinels, &mut watchers);
    all.extend(watchers.into_list());
    all.extend(servers.iter().flat_map(findings));
    Report::new(servers.iter().map(server).collect(), all)
}

fn findings(facts: &Facts) -> Vec<Finding> {
    let mut found = Findings::at(&facts.server);
    if role::is_store(facts, &mut found) && scripts::is_ready(facts, &mut found) {
        for find in [
            role::find,
            lock::find,
            scripts::find,
            memory::find,
            clock::find,
            persistence::find,
            replication::find,
            listening::find,
            rights::find,
            version::find,
            unknown::find,
        ] {
            find(facts, &mut found);
        }
    }
    found.into_list()
}

fn server(facts: &Facts) -> Server {
    let info = facts.info.known();
    let text = |value: Option<&str>| value.map(str::to_owned);
    let role = |is_replica| if is_replica { Role::Replica } else { Role::Master };
    Server {
        address: facts.server.clone(),
        version: text(info.and_then(Info::version)),
        role: facts.is_replica().map(role),
        topology: info.and_then(|info| topology(info, facts.sentinels.known().copied())),
        replicas: info.and_then(|info| info.number("connected_slaves")),
        eviction_policy: text(info.and_then(|info| info.get("maxmemory_policy"))),
        notifications: facts.notifications.known().cloned(),
        clock: facts.offset(),
    }
}

/// `None` if it is unknown whether Sentinels monitor the server.
fn topology(info: &Info, sentinels: Option<u64>) -> Option<Topology> {
    let is_alone = info.get("role") == Some("master") && info.number("connected_slaves") == Some(0);
    match (info.mode()?, sentinels) {
        ("cluster", _) => Some(Topology::Cluster),
        ("standalone", _) if is_alone => Some(Topology::Standalone),
        ("standalone", Some(0)) => Some(Topology::Replicated),
        ("standalone", Some(_)) => Some(Topology::Sentinel),
        _ => None,
    }
}
