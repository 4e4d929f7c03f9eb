//! A connection that only listens, for servers that speak RESP2.

use std::fmt;
use std::sync::Arc;

use lock_core::Error;
use redis::ProtocolVersion;
use redis::aio::PubSubSink;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::coop::unconstrained;

use super::Endpoint;
use super::capped::Capped;
use super::connection::{Driver, Push, names};
use super::failure::broken;
use super::gate::Gate;
use super::sent::Sent;

/// A connection that only listens.
#[derive(Clone)]
pub(crate) struct PubSub {
    sink: PubSubSink,
    endpoint: Arc<Endpoint>,
}

impl PubSub {
    /// Greets the server at the other end of a stream. The returned future hands on the messages,
    /// and ends with the connection; dropping the future ends the connection.
    pub(crate) async fn open<S>(
        stream: S,
        endpoint: &Arc<Endpoint>,
        on_push: impl Fn(Push<'_>) + Send + Sync + 'static,
    ) -> Result<(Self, Driver), Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let login = endpoint.login.clone().set_protocol(ProtocolVersion::RESP2);
        let gate = Arc::new(Gate::default());
        let opened = redis::aio::PubSub::new(&login, gate.before(Capped::new(stream))).await;
        let opened = opened.map_err(|error| broken(&Sent::login(endpoint), error).into_error())?;
        let (sink, mut messages) = opened.split();
        let driver = unconstrained(async move {
            while let Some(message) = gate.take(&mut messages).await {
                if let Ok(channel) = message.get_channel::<Vec<u8>>() {
                    let payload = message.get_payload_bytes();
                    on_push(Push::Message { channel: &channel, payload });
                }
            }
        });
        Ok((Self { sink, endpoint: Arc::clone(endpoint) }, Box::pin(driver)))
    }

    /// Subscribes, and returns once the server has confirmed every channel.
    pub(crate) async fn subscribe(&self, channels: &[Arc<[u8]>]) -> Result<(), Error> {
        let outcome = self.sink.clone().subscribe(names(channels)).await;
        outcome.map_err(|error| broken(&Sent::login(&self.endpoint), error).into_error())
    }

    /// Ends subscriptions.
    pub(crate) async fn unsubscribe(&self, channels: &[Arc<[u8]>]) -> Result<(), Error> {
        let outcome = self.sink.clone().unsubscribe(names(channels)).await;
        outcome.map_err(|error| broken(&Sent::login(&self.endpoint), error).into_error())
    }
}

impl fmt::Debug for PubSub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PubSub({})", self.endpoint)
    }
}
