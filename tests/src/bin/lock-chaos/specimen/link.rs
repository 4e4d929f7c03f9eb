//! The connection to one server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, RedisError};

use super::flaw::Flaw;

/// A request failed: it is unknown whether it was executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed;

/// One connection to one server, and a new one when the old one is of no use. Requests on one connection
/// arrive in order.
pub(crate) struct Link {
    client: redis::Client,
    limit: Duration,
    flaw: Flaw,
    current: tokio::sync::Mutex<Current>,
    leaked: Mutex<Vec<MultiplexedConnection>>,
}

#[derive(Default)]
struct Current {
    connection: Option<MultiplexedConnection>,
    /// The number of connections so far.
    count: u64,
}

impl Link {
    /// To the server at `url`, which has this long to answer.
    pub(crate) fn new(url: &str, limit: Duration, flaw: Flaw) -> Result<Self, RedisError> {
        let client = redis::Client::open(url)?;
        Ok(Self { client, limit, flaw, current: Default::default(), leaked: Default::default() })
    }

    pub(crate) fn client(&self) -> &redis::Client {
        &self.client
    }

    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Runs a script.
    pub(crate) async fn call<T: FromRedisValue>(
        &self,
        script: &str,
        keys: &[String],
        args: &[String],
    ) -> Result<T, Failed> {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(keys.len()).arg(keys).arg(args);
        self.run(&command).await
    }

    /// Runs a command.
    pub(crate) async fn run<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Failed> {
        let (number, mut connection) = self.connection().await?;
        let reply: Result<T, _> = command.query_async(&mut connection).await;
        if let Err(error) = &reply
            // After an error as an answer, the connection is still good.
            && error.code().is_none()
        {
            let mut current = self.current.lock().await;
            if current.count == number {
                current.connection = None;
            }
        }
        reply.map_err(|_| Failed)
    }

    /// Opens a connection that no task uses or closes.
    pub(crate) async fn leak(&self) {
        if let Ok(connection) = self.connect().await {
            self.leaked.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), Failed> {
        let mut current = self.current.lock().await;
        if let Some(connection) = &current.connection {
            return Ok((current.count, connection.clone()));
        }
        if current.count > 0 && self.flaw == Flaw::NoReconnect {
            return Err(Failed);
        }
        let connection = self.connect().await?;
        current.connection = Some(connection.clone());
        current.count += 1;
        Ok((current.count, connection))
    }

    async fn connect(&self) -> Result<MultiplexedConnection, Failed> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.limit))
            .set_response_timeout(Some(self.limit));
        self.client.get_multiplexed_async_connection_with_config(&config).await.map_err(|_| Failed)
    }
}
