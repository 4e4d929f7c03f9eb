//! What the server is: a master, a replica, a node of a cluster, a Sentinel.

use lock_core::check::{Findings, Severity};

use super::super::facts::Facts;

/// Whether the server keeps data, so that there is more to say of it.
pub(super) fn is_store(facts: &Facts, found: &mut Findings<'_>) -> bool {
    let is_sentinel = facts.info.known().is_some_and(|info| info.mode() == Some("sentinel"));
    if is_sentinel {
        found.add(
            Severity::Critical,
            "sentinel-process",
            "the server is a Sentinel",
            "a Sentinel keeps no data",
            "connect to the master that the Sentinel names",
        );
    }
    !is_sentinel
}

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
    let mode = facts.info.known().and_then(|info| info.mode());
    if facts.differs {
        found.add(
            Severity::Critical,
            "connections-differ",
            "another connection to the address led to another server",
            "a proxy or a name leads to several servers, so a lock that is held at one of them is free at the next; or the \
             server restarted during the check",
            "connect to one server by an address of its own, or use a URL redis+cluster:// or redis+sentinel://",
        );
    }
    if facts.is_replica() == Some(true) {
        found.add(
            Severity::Critical,
            "replica",
            "the server is a replica",
            "a replica takes no writes, so it grants no lock, and its data are older than those of its master",
            "connect to the master",
        );
    }
    if mode == Some("cluster") && !facts.wants.follows {
        found.add(
            Severity::Warning,
            "cluster-node",
            "the server is a node of a cluster",
            "it serves the locks of some slots only, and a failover to a replica forgets the latest grants",
            "connect as a client of the cluster, or use a server that is in no cluster",
        );
    }
    unfit_as_node(facts, mode, found);
}

/// The server cannot be quarantined in a quorum after it forgot leases.
fn unfit_as_node(facts: &Facts, mode: Option<&str>, found: &mut Findings<'_>) {
    let (why, remedy) = match (facts.info.refusal(), mode) {
        (Some(why), _) => (format!("this user may not run INFO: {why}"), "grant `+info`"),
        (None, Some("cluster")) => {
            ("it is a node of a cluster".to_owned(), "use servers that are in no cluster as nodes")
        }
        _ => return,
    };
    found.add(
        Severity::Info,
        "unfit-as-node",
        format!("as a node of a quorum the server cannot be quarantined: {why}"),
        "a node that has forgotten leases must not vote until those leases are over",
        format!("for a quorum: {remedy}"),
    );
}
