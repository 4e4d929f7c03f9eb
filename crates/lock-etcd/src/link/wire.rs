//! One connection to one member.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::Stream;
use lock_core::Error;
use lock_core::observer::{Telling, Told};
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::encoded::Encoded;
use super::endpoints::name;
use super::messages::{Credentials, Nothing, Status as Member, Token};
use super::once::Once;
use super::silence::Silence;
use super::untold;
use super::version;
use crate::failure;

/// Pages of a list are the longest answers.
const LONGEST_ANSWER: usize = 64 << 20;

/// A connection to a member that can serve.
pub(crate) struct Wire {
    channel: Channel,
    /// Proves who the client is, if the cluster asks for that.
    token: Option<AsciiMetadataValue>,
    /// Some of the bits [`BROKEN`] and [`TOLD`].
    state: AtomicU8,
    /// The silence towards all calls.
    silence: Mutex<Silence>,
    /// The silence towards the calls on which the members have to agree. A member whose disk stands still answers the
    /// other calls.
    disagreement: Mutex<Silence>,
    /// Host and port of the member.
    member: String,
    told: OnceLock<Arc<Told>>,
}

/// The connection is of no more use.
const BROKEN: u8 = 1;
/// Observers have heard of the opening.
const TOLD: u8 = 2;

/// A call on a connection. If this value is dropped before there is an answer, the connection was silent in the
/// meantime.
pub(super) struct Asking<'a> {
    wire: &'a Wire,
    sent: Instant,
    /// Whether the members have to agree on the call.
    is_agreed: bool,
}

impl Asking<'_> {
    /// The call was answered.
    pub(super) fn end(self) {
        self.wire.heard();
        if self.is_agreed {
            self.wire.disagreement().end(Instant::now());
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let is_mute = self.wire.silence().add(self.sent, now);
        let is_stuck = self.is_agreed && self.wire.disagreement().add(self.sent, now);
        if is_mute || is_stuck {
            // The member may be stopped, and another one may serve.
            self.wire.give_up();
        }
    }
}

/// Observers hear of the end of the connection.
impl Drop for Wire {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Wire {
    /// Connects to a member, authenticates, and checks that the member can serve.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        user: Option<&(String, String)>,
        any_version: bool,
        limit: Duration,
    ) -> Result<Self, Error> {
        let opening = async {
            let wire = Self::dial(endpoint, user).await?;
            let member = wire.status().await?;
            version::check(&member.version, any_version)?;
            if member.leader == 0 {
                return Err(failure::of(Status::unavailable("etcdserver: no leader")));
            }
            Ok(wire)
        };
        tokio::time::timeout(limit, opening).await.unwrap_or_else(|_| Err(failure::timeout()))
    }

    fn over(channel: Channel, member: String) -> Self {
        let state = AtomicU8::new(0);
        let [silence, disagreement] = [(); 2].map(|()| Mutex::new(Silence::new(Instant::now())));
        Self { channel, token: None, state, silence, disagreement, member, told: OnceLock::new() }
    }

    /// Connects to a member, and authenticates.
    pub(super) async fn dial(
        endpoint: &Endpoint,
        user: Option<&(String, String)>,
    ) -> Result<Self, Error> {
        let channel = endpoint.connect_with_connector(Once::new(endpoint)).await;
        let channel = channel.map_err(|error| failure::connecting(error, endpoint.uri()))?;
        let member = name(endpoint);
        let mut wire = Self::over(channel, member);
        if let Some((name, password)) = user {
            wire.authenticate(name, password).await?;
        }
        Ok(wire)
    }

    /// What the member says about itself.
    pub(super) async fn status(&self) -> Result<Member, Error> {
        let status = self.unary("/etcdserverpb.Maintenance/Status", &Nothing {}).await;
        status.map_err(failure::of)
    }

    async fn authenticate(&mut self, name: &str, password: &str) -> Result<(), Error> {
        let credentials = Credentials { name: name.to_owned(), password: password.to_owned() };
        let answer = self.unary("/etcdserverpb.Auth/Authenticate", &credentials).await;
        let Token { token } = match answer {
            Ok(token) => token,
            // The cluster has no users.
            Err(status)
                if status.code() == Code::FailedPrecondition
                    && status.message().contains("not enabled") =>
            {
                return Ok(());
            }
            Err(status) => return Err(failure::of(status)),
        };
        let token = token.parse().map_err(|_| failure::protocol("a token of a user"))?;
        self.token = Some(token);
        Ok(())
    }

    /// Whether a refusal means that the cluster has got users since the client connected without a login.
    pub(super) fn lacks_login(&self, status: &Status) -> bool {
        self.token.is_none() && failure::wants_user(status)
    }

    /// Whether it is of no more use.
    pub(crate) fn is_broken(&self) -> bool {
        self.state.load(Ordering::Relaxed) & BROKEN != 0
    }

    /// It is of no more use. Observers hear of this once, and after its opening.
    pub(crate) fn give_up(&self) {
        let before = self.state.fetch_or(BROKEN, Ordering::AcqRel);
        self.tell_end(before, TOLD);
    }

    /// Tells the observers of the opening. Another task may have given the connection up meanwhile.
    pub(crate) fn tell(&self, telling: &Telling) {
        if let Some(told) = telling.connected(&self.member) {
            let _first = self.told.set(Arc::new(told));
        }
        let before = self.state.fetch_or(TOLD, Ordering::AcqRel);
        self.tell_end(before, BROKEN);
    }

    /// Tells the observers of the end, if the state before the last bit was set was this one.
    fn tell_end(&self, before: u8, only: u8) {
        if let Some(told) = self.told.get().filter(|_| before == only).cloned() {
            untold::tell(move || told.disconnected());
        }
    }

    /// Host and port of the member.
    pub(crate) fn member(&self) -> &str {
        &self.member
    }

    fn silence(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn disagreement(&self) -> MutexGuard<'_, Silence> {
        self.disagreement.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The member has sent something.
    pub(super) fn heard(&self) {
        self.silence().end(Instant::now());
    }

    /// A call is sent now. The members may have to agree on it.
    pub(super) fn asking(&self, is_agreed: bool) -> Asking<'_> {
        Asking { wire: self, sent: Instant::now(), is_agreed }
    }

    fn grpc(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(LONGEST_ANSWER)
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    /// A call with one message. The message is borrowed, because the caller may send it once more on another connection.
    pub(crate) async fn unary<B>(
        &self,
        path: &'static str,
        message: &impl prost::Message,
    ) -> Result<B, Status>
    where
        B: prost::Message + Default + 'static,
    {
        let mut grpc = self.grpc();
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = PathAndQuery::from_static(path);
        let request = self.request(message.encode_to_vec());
        let answer = grpc.unary(request, path, Encoded::<B>::default()).await;
        answer.map(tonic::Response::into_inner)
    }

    /// A call with streams in both directions, which a member that loses its leader ends.
    pub(crate) async fn stream<A, B>(
        &self,
        path: &'static str,
        messages: impl Stream<Item = A> + Send + 'static,
    ) -> Result<Streaming<B>, Status>
    where
        A: prost::Message + 'static,
        B: prost::Message + Default + 'static,
    {
        let mut grpc = self.grpc();
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<A, B>::default();
        let mut request = self.request(messages);
        request.metadata_mut().insert("hasleader", AsciiMetadataValue::from_static("true"));
        let path = PathAndQuery::from_static(path);
        grpc.streaming(request, path, codec).await.map(tonic::Response::into_inner)
    }
}

#[cfg(test)]
impl Wire {
    /// A connection that is not made yet.
    pub(super) fn idle() -> Self {
        let endpoint = Endpoint::from_static("http://127.0.0.1:9");
        Self::over(endpoint.connect_lazy(), name(&endpoint))
    }
}
