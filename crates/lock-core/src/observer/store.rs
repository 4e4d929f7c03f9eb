//! Requests, connections, and the nodes of a quorum.

use std::time::Duration;

use super::event;
use crate::Error;

event! {
    /// A request to the store is over.
    StoreAnswered<'a> {
        /// The server: host and port, or the path of a socket.
        server: &'a str,
        /// What was asked for, for example `acquire`. There are few verbs, so they can be a label.
        verb: &'static str,
        /// The error, if there was no useful answer. The store may have carried out the request.
        error: Option<&'a Error>,
        /// How long it took.
        took: Duration,
    }
}

event! {
    /// A connection to a server was opened.
    Connected<'a> {
        /// The server.
        server: &'a str,
        /// Whether an earlier connection of this client to the server, or to the server in its place, had ended.
        again: bool,
    }
}

event! {
    /// A connection to a server has ended, or could not be opened.
    Disconnected<'a> {
        /// The server.
        server: &'a str,
        /// Why it could not be opened. `None` for a connection that has ended.
        error: Option<&'a Error>,
    }
}

event! {
    /// A server has sent a request on to another server: a slot of a cluster has moved, or the server is not the primary
    /// any more.
    Redirected<'a> {
        /// The server that was asked.
        from: &'a str,
        /// The server to ask, if the first one named it.
        to: Option<&'a str>,
    }
}

event! {
    /// A node of a quorum does not take part.
    NodeKeptOut<'a> {
        /// The name of the node.
        node: &'a str,
        /// Why.
        why: WhyKeptOut<'a>,
    }
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

event! {
    /// A node of a quorum takes part again.
    NodeBack<'a> {
        /// The name of the node.
        node: &'a str,
        /// For how long it did not take part.
        after: Duration,
    }
}
