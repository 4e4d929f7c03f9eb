//! Requests, connections, and the nodes of a quorum.

use std::time::Duration;

use crate::Error;

/// A request to the store is over.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct StoreAnswered<'a> {
    /// The server: host and port, or the path of a socket.
    pub server: &'a str,
    /// The verb, for example `acquire`. There are few verbs, so a metric can have the verb as a
    /// label.
    pub verb: &'static str,
    /// The error, if there was no useful answer. The store may have carried the request out all the
    /// same.
    pub error: Option<&'a Error>,
    /// How long the request took.
    pub took: Duration,
}

/// A connection to a server was opened.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct Connected<'a> {
    /// The server.
    pub server: &'a str,
    /// Whether this connection replaces one that ended: a connection of this client to this server, or to a server that
    /// it replaced.
    pub again: bool,
}

/// A connection to a server has ended, or could not be opened.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct Disconnected<'a> {
    /// The server.
    pub server: &'a str,
    /// Why the connection could not be opened. `None` for a connection that has ended.
    pub error: Option<&'a Error>,
}

/// A server has redirected a request to another server: a slot of a cluster has moved, or the server is not the
/// primary any more.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct Redirected<'a> {
    /// The server that was asked.
    pub from: &'a str,
    /// The other server, if the first server named it.
    pub to: Option<&'a str>,
}

/// A node of a quorum does not take part.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct NodeKeptOut<'a> {
    /// The name of the node.
    pub node: &'a str,
    /// The reason.
    pub why: WhyKeptOut<'a>,
}

/// Why a node of a quorum does not take part.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WhyKeptOut<'a> {
    /// The node may have forgotten leases, and gives no votes until these leases are over.
    Quarantine,
    /// The node does not answer, or answers with an error.
    Failed(&'a Error),
}

impl WhyKeptOut<'_> {
    /// The reason in one word, for a label: `quarantine` or `failed`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Quarantine => "quarantine",
            Self::Failed(_) => "failed",
        }
    }
}

/// A node of a quorum takes part again.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct NodeBack<'a> {
    /// The name of the node.
    pub node: &'a str,
    /// How long the node did not take part.
    pub after: Duration,
}
