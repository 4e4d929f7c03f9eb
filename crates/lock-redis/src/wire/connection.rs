//! One connection for many requests.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use lock_core::Error;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ProtocolVersion, PushInfo, PushKind, RedisResult, RedisWrite as _,
    Value,
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::capped::Capped;
use super::command::{Number, Prefix};
use super::ended::ENDED;
use super::failure::{astray, broken, gone_wrong, no_greeting, refused};
use super::refusal::not_loaded;
use super::script::Script;
use super::sent::Sent;
use super::{By, Call, Command, Endpoint, Failure, Reply};

/// The most requests in line for the socket. A further request waits for room.
const QUEUE: usize = 4096;

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Resp2,
    Resp3,
}

/// The future that moves the bytes of a connection. It ends with the connection.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A push: the server sends it without a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Push<'a> {
    /// A message on a channel.
    Message { channel: &'a [u8], payload: &'a [u8] },
    /// The server has lost the slot of a channel, and so ended the subscription.
    Ended { channel: &'a [u8] },
    /// A key that a [tracked](Call::tracked) call has read may have another value.
    Invalid { key: &'a [u8] },
    /// All keys may have other values, and none is tracked any more.
    AllInvalid,
}

/// A connection for many requests. Once broken it stays broken.
#[derive(Clone)]
pub(crate) struct Connection {
    inner: MultiplexedConnection,
    endpoint: Arc<Endpoint>,
    version: Version,
}

impl Connection {
    /// Greets the server at the other end of a stream.
    ///
    /// With RESP3, the `redis` crate calls `on_push` with every push. `on_push` must not block.
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
        // Deadlines are the caller's task: a timer for each request costs more than the rest of the request.
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

    /// Sends a command and waits for its reply, without a time limit.
    ///
    /// # Cancel safety
    ///
    /// A command that was not written yet is not sent. One that was written runs.
    pub(crate) async fn call(&self, command: &Command) -> Result<Reply, Failure> {
        let value = self.send(&command.0).await;
        match value.map_err(|error| broken(&Sent::command(&self.endpoint, &command.0), error))? {
            Value::ServerError(error) => {
                Err(refused(&Sent::command(&self.endpoint, &command.0), &error))
            }
            value => Ok(Reply::from_value(value)),
        }
    }

    /// Calls a script in this way, under this number, and waits for the reply that names the number, without a
    /// time limit.
    ///
    /// # Errors
    ///
    /// [`Failure::Astray`] if the reply belongs to something else.
    ///
    /// # Cancel safety
    ///
    /// A call that was not written yet is not sent. One that was written runs.
    pub(crate) async fn run(
        &self,
        call: &mut Call,
        by: By,
        number: Number,
    ) -> Result<Reply, Failure> {
        call.name(by, number);
        let sent = || Sent::command(&self.endpoint, &call.command);
        let value = if let Some(prefix) = call.prefix() {
            match self.send_after(prefix, &call.command).await {
                // The script ran even so.
                Ok([Value::ServerError(error), _]) => {
                    return Err(refused(&sent(), &error).of_one_that_ran());
                }
                Ok([Value::Okay, answer]) => Ok(answer),
                // This reply answers no request.
                Ok(_) => Ok(Value::Nil),
                Err(error) => Err(error),
            }
        } else {
            self.send(&call.command).await
        };
        let value = value.map_err(|error| broken(&sent(), error))?;
        answer(number, value, sent).map_err(|failure| failure.of_keys(call.keys()))
    }

    /// Calls a script by its digest, and sends a command right behind it: no other request of this connection comes
    /// between them. Waits for both replies, without a time limit.
    ///
    /// # Errors
    ///
    /// As those of [`run`](Self::run) and [`call`](Self::call). The command may have run although the script did not.
    pub(crate) async fn run_before(
        &self,
        call: &mut Call,
        number: Number,
        then: &Command,
    ) -> Result<[Reply; 2], Failure> {
        call.name(By::Digest, number);
        let mut pipeline = redis::pipe();
        let prefix = call.prefix().map(|prefix| Command::words(prefix.words()));
        let at = usize::from(prefix.is_some());
        if let Some(command) = prefix {
            pipeline.add_command(command.0);
        }
        pipeline.add_command(call.command.clone()).add_command(then.0.clone());
        let sent = || Sent::command(&self.endpoint, &call.command);
        let replies = self.inner.clone().send_packed_commands(&pipeline, 0, at + 2).await;
        let replies = replies.map_err(|error| broken(&sent(), error))?;
        let [ran, told] = <[Value; 2]>::try_from(replies.into_iter().skip(at).collect::<Vec<_>>())
            .map_err(|_| astray(&self.endpoint.address))?;
        let reply = answer(number, ran, sent).map_err(|failure| failure.of_keys(call.keys()))?;
        match told {
            Value::ServerError(error) => {
                Err(refused(&Sent::command(&self.endpoint, &then.0), &error))
            }
            told => Ok([reply, Reply::from_value(told)]),
        }
    }

    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        self.inner.clone().send_packed_command(command).await
    }

    /// Sent together: the first command concerns the next command of this connection.
    async fn send_after(&self, prefix: Prefix, command: &Cmd) -> RedisResult<[Value; 2]> {
        let mut pair = redis::pipe();
        pair.add_command(Command::words(prefix.words()).0).add_command(command.clone());
        let replies = self.inner.clone().send_packed_commands(&pair, 0, 2).await?;
        Ok(<[Value; 2]>::try_from(replies).unwrap_or([Value::Nil, Value::Nil]))
    }

    /// Has the server load a script. A loaded script stays; a script that was only run may not stay.
    ///
    /// # Errors
    ///
    /// [`Failure::Astray`] if the reply belongs to something else, [`Failure::NoCommand`] if the server loads
    /// no scripts.
    pub(crate) async fn load(&self, script: &Script) -> Result<(), Failure> {
        let command = Command::load(script).0;
        let sent = || Sent::command(&self.endpoint, &command);
        let value = self.send(&command).await.map_err(|error| broken(&sent(), error))?;
        if let Value::ServerError(error) = &value {
            return Err(not_loaded(&sent(), error));
        }
        match Reply::from_value(value) {
            Reply::Text(digest) if digest.eq_ignore_ascii_case(script.digest().as_bytes()) => {
                Ok(())
            }
            _ => Err(astray(&self.endpoint.address)),
        }
    }

    /// Has the server load a script, but does not wait for it.
    pub(crate) async fn preload(&self, script: &Script) {
        let mut command = Command::load(script);
        command.0.set_no_response(true);
        // A server that refuses does so again when the script is needed.
        let _ = self.call(&command).await;
    }

    /// Subscribes, and returns once the server has confirmed every channel. RESP3 only.
    pub(crate) async fn subscribe(&self, channels: &[Arc<[u8]>]) -> Result<(), Error> {
        let outcome = self.inner.clone().subscribe(names(channels)).await;
        outcome.map_err(|error| broken(&Sent::login(&self.endpoint), error).into_error())
    }

    /// Subscribes to a channel of a slot, and returns once the server has confirmed it. RESP3 only.
    ///
    /// # Errors
    ///
    /// [`Failure::Moved`] if another server has the slot, [`Failure::NoCommand`] if the server knows no such channels.
    pub(crate) async fn subscribe_in_slot(&self, channel: &[u8]) -> Result<(), Failure> {
        let mut command = Command::words(&["SSUBSCRIBE"]).0;
        command.write_arg(channel);
        let sent = || Sent::command(&self.endpoint, &command);
        match self.send(&command).await.map_err(|error| broken(&sent(), error))? {
            Value::Push { kind: PushKind::SSubscribe, data } if matches!(&data[..], [Value::BulkString(it), ..] if it == channel) => {
                Ok(())
            }
            Value::ServerError(error) => Err(refused(&sent(), &error)),
            _ => Err(astray(&self.endpoint.address)),
        }
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

/// The reply to the call of this number.
fn answer<'a>(number: Number, value: Value, sent: impl Fn() -> Sent<'a>) -> Result<Reply, Failure> {
    let read = match value {
        Value::BulkString(text) => told(number, text),
        Value::Array(parts) => match <[Value; 2]>::try_from(parts) {
            Ok([Value::BulkString(named), result]) if number.rest(&named) == Some(b"") => {
                if let Value::ServerError(error) = result {
                    return Err(gone_wrong(&sent(), &error));
                }
                Some(Reply::from_value(result))
            }
            _ => None,
        },
        Value::ServerError(error) => return Err(refused(&sent(), &error)),
        _ => None,
    };
    read.ok_or_else(|| astray(sent().address))
}

/// Reads `number text`, `number:integer`, or only the number, which stands for an empty text.
fn told(number: Number, mut text: Vec<u8>) -> Option<Reply> {
    let at = text.len() - number.rest(&text)?.len();
    match text.get(at) {
        None => Some(Reply::Text(Vec::new())),
        Some(b' ') => {
            text.drain(..=at);
            Some(Reply::Text(text))
        }
        Some(b':') => Some(Reply::Int(std::str::from_utf8(&text[at + 1..]).ok()?.parse().ok()?)),
        _ => None,
    }
}

pub(super) fn names(channels: &[Arc<[u8]>]) -> Vec<&[u8]> {
    channels.iter().map(|channel| &**channel).collect()
}

fn deliver(push: &PushInfo, on_push: &impl Fn(Push<'_>)) {
    match (&push.kind, push.data.as_slice()) {
        (
            PushKind::Message | PushKind::SMessage,
            [Value::BulkString(channel), Value::BulkString(payload)],
        ) => on_push(Push::Message { channel, payload }),
        (PushKind::Other(kind), [Value::BulkString(channel), ..]) if kind == ENDED => {
            on_push(Push::Ended { channel });
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

    use lock_core::ErrorKind;
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Numbers, garbage};

    fn named(number: Number) -> Value {
        Value::BulkString(number.to_text().into_bytes())
    }

    fn said(number: Number, value: Value) -> Result<Reply, Failure> {
        let address = crate::wire::Address::Tcp { host: "redis.example".into(), port: 6379 };
        answer(number, value, || Sent::to(&address))
    }

    fn is_astray(outcome: &Result<Reply, Failure>) -> bool {
        matches!(outcome, Err(Failure::Astray(error)) if error.kind() == ErrorKind::Protocol)
    }

    #[test]
    fn an_error_of_a_script_names_the_request_and_one_of_the_server_does_not() {
        let number = Numbers::new().unwrap().next();
        let within = |line| Value::Array(vec![named(number), garbage::refusal(line)]);
        for line in ["LOCKQUEUE 7 wait", "WRONGTYPE no"] {
            assert!(is_astray(&said(number, garbage::refusal(line))), "{line}");
            assert!(matches!(said(number, within(line)), Err(Failure::Error(_))), "{line}");
        }
        // The script did not run, and is run again.
        let line = "NOSCRIPT no";
        assert!(matches!(said(number, garbage::refusal(line)), Err(Failure::NoScript(_))));
        assert!(matches!(said(number, within(line)), Err(Failure::Error(_))));
        let line = "READONLY no";
        for value in [garbage::refusal(line), within(line)] {
            assert!(matches!(said(number, value), Err(Failure::Demoted(_))));
        }
    }

    proptest! {
        /// A reply that does not name the request is no answer to it.
        #[test]
        fn an_answer_names_its_request(value in garbage::values(), wrong in any::<i64>()) {
            let number = Numbers::new().unwrap().next();
            let own = |name: Value, more: usize| {
                let mut parts = vec![name];
                parts.extend(std::iter::repeat_n(value.clone(), more));
                said(number, Value::Array(parts))
            };
            let text = |text: String| said(number, Value::BulkString(text.into_bytes()));
            if number.to_text() != wrong.to_string() {
                prop_assert!(is_astray(&own(Value::BulkString(wrong.to_string().into()), 1)));
                for said in [" 7 9", ":0"] {
                    prop_assert!(is_astray(&text(wrong.to_string() + said)));
                }
            }
            prop_assert_eq!(text(format!("{} 7 9", number.to_text())).unwrap(), Reply::Text(b"7 9".to_vec()));
            prop_assert_eq!(text(format!("{}:{}", number.to_text(), wrong)).unwrap(), Reply::Int(wrong));
            prop_assert!(is_astray(&text(number.to_text() + ":x")));
            prop_assert!(is_astray(&own(named(number), 0)) && is_astray(&own(named(number), 2)));
            match own(named(number), 1) {
                Ok(reply) => prop_assert_eq!(reply, Reply::from_value(value.clone())),
                Err(failure) => prop_assert!(matches!((&value, failure), (Value::ServerError(_), Failure::Error(_)))),
            }
            prop_assert!(said(number, value).is_err());
        }

        /// Whatever is pushed, only messages of two strings, ends of subscriptions, and keys, are handed on.
        #[test]
        fn of_pushes_only_messages_ends_and_invalid_keys_are_heard(push in garbage::pushes()) {
            let heard = RefCell::new(Vec::new());
            deliver(&push, &|push: Push<'_>| heard.borrow_mut().push(format!("{push:?}")));
            let meant: Vec<String> = match (&push.kind, &push.data[..]) {
                (
                    PushKind::Message | PushKind::SMessage,
                    [Value::BulkString(channel), Value::BulkString(payload)],
                ) => vec![format!("{:?}", Push::Message { channel, payload })],
                (PushKind::Other(kind), [Value::BulkString(channel), ..]) if kind == ENDED => {
                    vec![format!("{:?}", Push::Ended { channel })]
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
