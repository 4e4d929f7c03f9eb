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
    /// What was asked for, for example `acquire`. There are few verbs, so they can be a label.
    pub verb: &'static str,
    /// The error, if there was no useful answer. The store may have carried out the request.
    pub error: Option<&'a Error>,
    /// How long it took.
    pub took: Duration,
}

/// A connection to a server was opened.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct Connected<'a> {
    /// The server.
    pub server: &'a str,
    /// Whether an earlier connection of this client to the server, or to the server in its place, had ended.
    pub again: bool,
}

/// A connection to a server has ended, or could not be opened.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct Disconnected<'a> {
    /// The server.
    pub server: &'a str,
    /// Why it could not be opened. `None` for a connection that has ended.
    pub error: Option<&'a Error>,
}

/// A server has sent a request on to another server: a slot of a cluster has moved, or the server is not the primary
/// any more.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct Redirected<'a> {
    /// The server that was asked.
    pub from: &'a str,
    /// The server to ask, if the first one named it.
    pub to: Option<&'a str>,
}

/// A node of a quorum does not take part.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct NodeKeptOut<'a> {
    /// The name of the node.
    pub node: &'a str,
    /// Why.
    pub why: WhyKeptOut<'a>,
}

/// Why a node of a quorum does not take part.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WhyKeptOut<'a> {
    /// The node may have forgotten leases, and gives no votes until they are over.
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
    /// For how long it did not take part.
    pub after: Duration,
}
