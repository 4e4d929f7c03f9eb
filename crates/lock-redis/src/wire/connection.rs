//! One connection that many requests share.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use lock_core::Error;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind, Value};
use tokio::io::{AsyncRead, AsyncWrite};

use super::capped::Capped;
use super::failure::{broken, no_greeting, refused};
use super::sent::Sent;
use super::{Command, Endpoint, Failure, Reply};
use crate::scripts::Script;

/// How many requests may stand before the socket. Beyond that a request waits for room.
const QUEUE: usize = 4096;

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Resp2,
    Resp3,
}

/// The future that moves the bytes of a connection. It ends with the connection.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a server says without being asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Push<'a> {
    /// A message on a channel.
    Message { channel: &'a [u8], payload: &'a [u8] },
    /// A key that was read with [`Connection::read_tracked`] may have another value.
    Invalid { key: &'a [u8] },
    /// All keys may, and none is tracked any more.
    AllInvalid,
}

/// A connection that many requests share. Once broken it stays broken.
#[derive(Clone)]
pub(crate) struct Connection {
    inner: MultiplexedConnection,
    endpoint: Arc<Endpoint>,
    version: Version,
}

impl Connection {
    /// Introduces itself to the server at the other end of a stream.
    ///
    /// With RESP3, `on_push` is called with everything that the server says without being asked. It
    /// must not block.
    pub(crate) async fn open<S>(
        stream: S,
        endpoint: &Arc<Endpoint>,
        version: Version,
        on_push: impl Fn(Push<'_>) + Send + Sync + 'static,
    ) -> Result<(Self, Driver), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let login = endpoint
            .login
            .clone()
            .set_lib_name("lock-redis", env!("CARGO_PKG_VERSION"))
            .set_protocol(match version {
                Version::Resp2 => ProtocolVersion::RESP2,
                Version::Resp3 => ProtocolVersion::RESP3,
            });
        // Deadlines are the caller's: a timer for each request costs more than the rest of it.
        let mut config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        if version == Version::Resp3 {
            config = config.set_push_sender(move |push: PushInfo| {
                deliver(&push, &on_push);
                Ok::<(), std::convert::Infallible>(())
            });
        }
        let stream = Capped::new(stream);
        let opened = MultiplexedConnection::new_with_config(&login, stream, config).await;
        let (inner, driver) = opened.map_err(|error| match version {
            Version::Resp2 => broken(&Sent::login(endpoint), error),
            Version::Resp3 => no_greeting(&Sent::login(endpoint), error),
        })?;
        Ok((Self { inner, endpoint: Arc::clone(endpoint), version }, Box::pin(driver)))
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Sends a command and waits for its reply, however long that takes.
    ///
    /// # Cancel safety
    ///
    /// A command that was not written yet is not sent. One that was written runs.
    pub(crate) async fn call(&self, command: &Command) -> Result<Reply, Failure> {
        let mut inner = self.inner.clone();
        match inner.send_packed_command(&command.0).await {
            Ok(Value::ServerError(error)) => {
                Err(refused(&Sent::command(&self.endpoint, command), &error))
            }
            Ok(value) => Ok(Reply::from_value(value)),
            Err(error) => Err(broken(&Sent::command(&self.endpoint, command), error)),
        }
    }

    /// Reads a key, and has the server say once when it may have another value. RESP3 only, and only
    /// once the connection tracks what it opts for.
    pub(crate) async fn read_tracked(&self, key: &[u8]) -> Result<Reply, Failure> {
        // Together, since it is the next command of this connection that is opted for.
        let mut pair = redis::pipe();
        pair.cmd("CLIENT").arg("CACHING").arg("YES").ignore().cmd("GET").arg(key);
        let replies = self.inner.clone().send_packed_commands(&pair, 0, 2).await;
        let mut replies = replies.map_err(|error| broken(&Sent::login(&self.endpoint), error))?;
        match (replies.pop(), replies.pop()) {
            (_, Some(Value::ServerError(error))) | (Some(Value::ServerError(error)), _) => {
                Err(refused(&Sent::login(&self.endpoint), &error))
            }
            (Some(value), _) => Ok(Reply::from_value(value)),
            (None, _) => Ok(Reply::Other),
        }
    }

    /// Has the server load a script. A script that was loaded stays, one that was only run may not.
    pub(crate) async fn load(&self, script: &Script) -> Result<(), Failure> {
        self.call(&Command::load(script)).await.map(drop)
    }

    /// Has the server load a script, but does not wait for it.
    pub(crate) async fn preload(&self, script: &Script) {
        let mut command = Command::load(script);
        command.0.set_no_response(true);
        // A server that refuses says so again when the script is needed.
        let _ = self.call(&command).await;
    }

    /// Subscribes, and returns once the server has confirmed every channel. RESP3 only.
    pub(crate) async fn subscribe(&self, channels: &[Arc<[u8]>]) -> Result<(), Error> {
        let outcome = self.inner.clone().subscribe(names(channels)).await;
        outcome.map_err(|error| broken(&Sent::login(&self.endpoint), error).into_error())
    }

    /// Ends subscriptions. RESP3 only.
    pub(crate) async fn unsubscribe(&self, channels: &[Arc<[u8]>]) -> Result<(), Error> {
        let outcome = self.inner.clone().unsubscribe(names(channels)).await;
        outcome.map_err(|error| broken(&Sent::login(&self.endpoint), error).into_error())
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({}, {:?})", self.endpoint, self.version)
    }
}

pub(super) fn names(channels: &[Arc<[u8]>]) -> Vec<&[u8]> {
    channels.iter().map(|channel| &**channel).collect()
}

fn deliver(push: &PushInfo, on_push: &impl Fn(Push<'_>)) {
    match (&push.kind, push.data.as_slice()) {
        (PushKind::Message, [Value::BulkString(channel), Value::BulkString(payload)]) => {
            on_push(Push::Message { channel, payload });
        }
        (PushKind::Invalidate, [Value::Array(keys)]) => {
            for key in keys {
                if let Value::BulkString(key) = key {
                    on_push(Push::Invalid { key });
                }
            }
        }
        (PushKind::Invalidate, [Value::Nil]) => on_push(Push::AllInvalid),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    proptest! {
        /// Whatever is pushed, what is handed on are messages of two strings, and keys.
        #[test]
        fn of_pushes_only_messages_and_invalid_keys_are_heard(push in garbage::pushes()) {
            let heard = RefCell::new(Vec::new());
            deliver(&push, &|push: Push<'_>| heard.borrow_mut().push(format!("{push:?}")));
            let meant: Vec<String> = match (&push.kind, &push.data[..]) {
                (PushKind::Message, [Value::BulkString(channel), Value::BulkString(payload)]) => {
                    vec![format!("{:?}", Push::Message { channel, payload })]
                }
                (PushKind::Invalidate, [Value::Nil]) => vec![format!("{:?}", Push::AllInvalid)],
                (PushKind::Invalidate, [Value::Array(keys)]) => {
                    let texts = keys.iter().filter_map(|key| match key {
                        Value::BulkString(key) => Some(format!("{:?}", Push::Invalid { key })),
                        _ => None,
                    });
                    texts.collect()
                }
                _ => Vec::new(),
            };
            prop_assert_eq!(heard.into_inner(), meant);
        }
    }
}
