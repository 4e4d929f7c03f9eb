//! What a link is told when it is made.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tls")]
use super::tls::Tls;
use crate::options::Protocol;
use crate::wire::{Endpoint, Push};

/// After so many unanswered requests in a row a connection is replaced.
pub(super) const STRIKES: u32 = 3;

/// How to reach the server.
pub(crate) struct Settings {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) protocol: Protocol,
    pub(crate) command_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    #[cfg(feature = "tls")]
    pub(crate) tls: Tls,
}

/// What hears the messages that come on a connection, on the thread that reads them.
pub(crate) type Hear = Arc<dyn Fn(Push<'_>) + Send + Sync>;
