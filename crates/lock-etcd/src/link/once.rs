//! A connector that connects once.
//!
//! The channel of tonic connects again by itself when its connection has ended. The data of the server may be others
//! then, and no request would notice. So this connector refuses, and [`Link`](super::Link) opens another connection,
//! which it counts.

use std::future::ready;
use std::io;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::codegen::http::Uri;
use tonic::codegen::{BoxFuture, Context, Poll, Service, StdError};
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use super::joining::Joining;

/// What the connector answers the second time.
const ENDED: &str = "the connection has ended";

/// Connects to a member once.
pub(super) struct Once {
    connector: HttpConnector,
    is_used: bool,
}

impl Once {
    /// A connector with the settings of this endpoint.
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(endpoint.get_tcp_nodelay());
        connector.set_connect_timeout(endpoint.get_connect_timeout());
        Self { connector, is_used: false }
    }
}

impl Service<Uri> for Once {
    type Response = TokioIo<Joining<TcpStream>>;
    type Error = StdError;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.connector.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, member: Uri) -> Self::Future {
        if std::mem::replace(&mut self.is_used, true) {
            return Box::pin(ready(Err(io::Error::other(ENDED).into())));
        }
        let is_plain = member.scheme_str() == Some("http");
        let connecting = self.connector.call(member);
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            // tonic encrypts the bytes before they come here, so no frame can be seen.
            let joining = if is_plain { Joining::new } else { Joining::encrypted };
            Ok(TokioIo::new(joining(stream)))
        })
    }
}

/// Whether a request failed because its connection had ended before, so that nothing was sent.
pub(super) fn had_ended(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.message() == ENDED
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWrite;
    use tokio::net::TcpListener;

    use super::*;

    /// Only a connection that passes all bytes on takes several slices in one write.
    #[tokio::test]
    async fn a_connection_connects_once_and_holds_back_what_it_can_read() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for (scheme, is_passed_on) in [("http", false), ("https", true)] {
            let endpoint = format!("{scheme}://{}", server.local_addr().unwrap());
            let endpoint = Endpoint::from_shared(endpoint).unwrap();
            let mut once = Once::new(&endpoint);
            let stream = once.call(endpoint.uri().clone()).await.unwrap();
            assert_eq!(stream.inner().is_write_vectored(), is_passed_on, "{scheme}");
            let again = once.call(endpoint.uri().clone()).await.err();
            assert_eq!(again.map(|error| error.to_string()).as_deref(), Some(ENDED));
        }
    }
}
