//! The settings of a link.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::observer::Telling;

use super::recall::Quarantine;
#[cfg(feature = "tls")]
use super::tls::Tls;
use crate::options::Protocol;
use crate::topology::Service;
use crate::wire::{Endpoint, Push};

/// A connection is replaced after callers have waited for so many time limits without an answer.
pub(super) const STRIKES: u32 = 3;

/// The way to the server, and its limits.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) origin: Origin,
    pub(crate) protocol: Protocol,
    pub(crate) command_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) telling: Telling,
    /// Whether grants name the term of the server.
    pub(crate) terms: bool,
    /// How a server sits out that lost its data, if it does.
    pub(crate) quarantine: Option<Quarantine>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Arc<Tls>,
}

impl Settings {
    /// These settings, for the server that is there.
    pub(crate) fn at(&self, origin: Origin) -> Self {
        Self { origin, telling: self.telling.of_another(), ..self.clone() }
    }
}

/// Where the server is.
#[derive(Clone)]
pub(crate) enum Origin {
    Server(Arc<Endpoint>),
    /// Where the sentinels say that the primary is.
    Service(Arc<Service>),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(endpoint) => write!(f, "{}", endpoint.address),
            Self::Service(service) => write!(f, "{service}"),
        }
    }
}

/// Called with the messages of a connection, on the thread that reads them.
pub(crate) type Hear = Arc<dyn Fn(Push<'_>) + Send + Sync>;
