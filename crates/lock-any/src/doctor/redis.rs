//! The report of a server of Redis, as a report of any store.

use lock_core::Error;
use lock_redis::RedisBackend;
use lock_redis::check::{self, Role, Topology};

use super::report::{Examined, Finding, Report, Severity};

pub(super) async fn examine(backend: &RedisBackend) -> Result<Report, Error> {
    let report = backend.check().await?;
    let servers = report.servers.into_iter().map(examined).collect();
    Ok(Report::new(servers, report.findings.into_iter().map(finding).collect()))
}

fn examined(server: check::Server) -> Examined {
    let role = server.role.map(|role| match role {
        Role::Master => "master",
        Role::Replica => "replica",
        _ => "another role",
    });
    let topology = server.topology.map(|topology| match topology {
        Topology::Standalone => "standalone",
        Topology::Replicated => "replicated",
        Topology::Sentinel => "sentinel",
        Topology::Cluster => "cluster",
        _ => "another topology",
    });
    Examined::new(server.address)
        .with("version", server.version)
        .with("role", role)
        .with("topology", topology)
        .with("replicas", server.replicas)
        .with("eviction-policy", server.eviction_policy)
        .with("notify-keyspace-events", server.notifications.map(|flags| format!("{flags:?}")))
        .with("clock", server.clock)
}

fn finding(it: check::Finding) -> Finding {
    let severity = match it.severity {
        check::Severity::Info => Severity::Info,
        check::Severity::Unknown => Severity::Unknown,
        check::Severity::Warning => Severity::Warning,
        // A severity that this crate does not know is no reason to be calm.
        _ => Severity::Critical,
    };
    Finding::new(severity, it.code, it.server).because(it.finding, it.reason).remedy(it.remedy)
}
