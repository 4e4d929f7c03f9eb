//! The report about a quorum: about each node as a server, and about the votes.

use futures::future::join_all;
use lock_core::Error;
use lock_core::check::{Examined, Finding, Report, Severity};
use lock_redlock::{NodeStatus, Voting};

use crate::{Store, quorum};

/// Findings about data that a restart forgets. A node sits out after a restart.
const FORGETTING: [&str; 3] = ["no-persistence", "snapshots-only", "appendfsync-no"];

pub(super) async fn examine(url: &str) -> Result<Report, Error> {
    let mut servers = Vec::new();
    let mut findings = Vec::new();
    let nodes = quorum::nodes(url)?;
    let reports = join_all(nodes.iter().map(async |(_, url)| {
        let (store, url) = Store::of(url)?;
        super::of_one(store, &url).await
    }));
    for ((name, _), report) in nodes.iter().zip(reports.await) {
        match report {
            Ok(report) => {
                servers.extend(report.servers);
                findings.extend(report.findings.into_iter().map(of_node));
            }
            Err(error) => {
                servers.push(Examined::new(name));
                findings.push(silent(name, &error));
            }
        }
    }
    // No client can open a quorum of servers that do not answer: that is a finding. A URL that names no quorum is an
    // error.
    match quorum::connect(url, None).await {
        Ok(quorum) => {
            findings.extend(votes(&quorum.status().await));
            Ok(Report::new(servers, findings).promising("the quorum", &quorum::erased(quorum)))
        }
        Err(error) if error.kind() == lock_core::ErrorKind::InvalidConfig => Err(error),
        Err(error) => {
            findings.push(unopened(&error));
            Ok(Report::new(servers, findings))
        }
    }
}

/// A finding about one server, for a server that is a node.
fn of_node(mut finding: Finding) -> Finding {
    if FORGETTING.contains(&finding.code) {
        let what = finding.finding.clone();
        finding.severity = Severity::Info;
        return finding
            .because(
                what,
                "after a restart the node keeps out of votes until the forgotten leases are over",
            )
            .remedy(
                "nothing, if the other nodes suffice meanwhile; otherwise set `appendonly yes`",
            );
    }
    if finding.code == "unfit-as-node" {
        finding.severity = Severity::Warning;
    }
    finding
}

fn silent(name: &str, error: &Error) -> Finding {
    Finding::new(Severity::Warning, "node-silent", name)
        .because(
            format!("the node cannot be examined: {error}"),
            "a lock needs the votes of most nodes, and each node that is missing brings that nearer",
        )
        .remedy("start the node, or see to the network, the user and the password")
}

fn unopened(error: &Error) -> Finding {
    Finding::new(Severity::Critical, "quorum-lost", "the quorum")
        .because(format!("the quorum cannot be opened: {error}"), "no client can take a lock")
        .remedy("start the nodes that do not answer")
}

/// What follows from the number of nodes that vote.
fn votes(nodes: &[NodeStatus]) -> Vec<Finding> {
    let mut findings: Vec<_> = nodes.iter().filter_map(of_vote).collect();
    findings.extend(nodes.iter().filter(|node| node.missed_releases > 0).map(|node| {
        let missed = node.missed_releases;
        Finding::new(Severity::Info, "releases-missed", &node.name)
            .because(
                format!("the node has missed {missed} releases of this client"),
                "until they are repeated, the node grants no other claim on these keys",
            )
            .remedy("nothing: they are repeated in the background")
    }));
    let votes = |node: &&NodeStatus| matches!(node.voting, Voting::Yes | Voting::Unguarded);
    let (voting, all) = (nodes.iter().filter(votes).count(), nodes.len());
    let needed = all / 2 + 1;
    let (severity, code, reason) = if voting < needed {
        (Severity::Critical, "quorum-lost", "no lock can be acquired, and no lease is renewed")
    } else if voting == needed && all > needed {
        (Severity::Warning, "quorum-bare", "if one more node fails, no lock can be acquired")
    } else {
        return findings;
    };
    let what = format!("{voting} of {all} nodes vote, and a lock needs {needed}");
    let remedy =
        "see to the nodes that do not vote; if the quorum is new, call `lock_any::init` once";
    findings.push(Finding::new(severity, code, "the quorum").because(what, reason).remedy(remedy));
    findings
}

/// The finding about the vote of one node.
fn of_vote(node: &NodeStatus) -> Option<Finding> {
    let name = &node.name;
    let (severity, code, what, reason, remedy) = match node.voting {
        Voting::Yes => return None,
        Voting::Unguarded => (
            Severity::Warning,
            "node-unguarded",
            "the node votes, and cannot tell whether it has forgotten leases".to_owned(),
            "if it restarts without its data, a lock may be granted twice",
            "see the finding `unfit-as-node` of this server",
        ),
        Voting::KeptOut { at_least } => (
            Severity::Warning,
            "node-kept-out",
            format!(
                "the node may have forgotten leases, and keeps out of votes for {at_least:.0?} or longer"
            ),
            "the quorum can spare fewer nodes meanwhile",
            "wait; or, if the quorum is new and no client holds a lock, call `lock_any::init` once",
        ),
        Voting::Elsewhere => (
            Severity::Critical,
            "node-elsewhere",
            "the node is a member of a quorum of other nodes".to_owned(),
            "it votes for no client of this quorum: the clients do not agree on the nodes",
            "give all clients one list of nodes in one spelling; `Redlock::replace` replaces a node",
        ),
        // This arm also takes the reasons of later versions.
        _ => {
            let why = node.last_error.as_ref().map(|error| format!(": {error}"));
            (
                Severity::Warning,
                "node-absent",
                format!("the node does not vote{}", why.unwrap_or_default()),
                "the quorum can spare fewer nodes",
                "start the node; check that no two names lead to one server",
            )
        }
    };
    Some(Finding::new(severity, code, name).because(what, reason).remedy(remedy))
}
