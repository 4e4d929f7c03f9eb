//! The unit of the figures: the cheapest request to the store.

use std::time::Duration;

use lock_core::{AnyBackend, Error, InspectBackend, Key};
use redis::aio::MultiplexedConnection;

use super::Failure;

/// A client that sends a request which does nothing.
pub(super) enum Unit {
    /// `PING`, to one server of Redis.
    Ping(MultiplexedConnection),
    /// A look at a lock that is free, to any other store.
    Look(AnyBackend, Key),
}

impl Unit {
    /// The unit of the store that the URL names. A bare client can ask one server; it knows no quorum, no cluster and no
    /// sentinels.
    pub(super) async fn of(url: &str, store: AnyBackend, free: Key) -> Result<Self, Error> {
        let limit = Duration::from_secs(5);
        let connect = async {
            let client = redis::Client::open(url).ok()?;
            client.get_multiplexed_async_connection().await.ok()
        };
        let is_one_server =
            ["redis://", "valkey://", "unix://"].iter().any(|it| url.starts_with(it));
        let connection = if is_one_server {
            tokio::time::timeout(limit, connect).await.ok().flatten()
        } else {
            None
        };
        match connection {
            Some(connection) => Ok(Self::Ping(connection)),
            None => {
                store.inspect(&free).await?;
                Ok(Self::Look(store, free))
            }
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ping(_) => "PING",
            Self::Look(..) => "inspect",
        }
    }

    /// Sends one request, and waits for the answer.
    pub(super) async fn send(&mut self) -> Result<(), Failure> {
        match self {
            Self::Ping(connection) => {
                let pong: Result<String, _> = redis::cmd("PING").query_async(connection).await;
                pong.map(drop).map_err(|error| Failure::Ping(error.to_string()))
            }
            Self::Look(store, free) => Ok(store.inspect(free).await.map(drop)?),
        }
    }
}
