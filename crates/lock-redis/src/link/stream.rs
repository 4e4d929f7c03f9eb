//! Sockets.

use std::io;
use std::time::Duration;

use lock_core::{Error, ErrorKind};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use super::settings::{STRIKES, Settings};
use crate::wire::{Address, Endpoint};

/// An open stream to a server.
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// Opens a stream to a server.
pub(crate) async fn dial(settings: &Settings, endpoint: &Endpoint) -> Result<Stream, Error> {
    let address = &endpoint.address;
    let failed = |error| {
        Error::with_source(ErrorKind::Unreachable, format!("cannot connect to {address}"), error)
    };
    match address {
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(failed)?;
            tune(&stream, settings.command_timeout).map_err(failed)?;
            #[cfg(feature = "tls")]
            if endpoint.tls {
                let stream = settings.tls.connect(host, stream, address).await?;
                return Ok(Stream::Tls(Box::new(stream)));
            }
            Ok(Stream::Tcp(stream))
        }
        #[cfg(unix)]
        Address::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix).map_err(failed),
        #[cfg(not(unix))]
        Address::Unix(_) => {
            Err(Error::new(ErrorKind::InvalidConfig, "this system has no unix sockets"))
        }
    }
}

/// Sends small packets at once, and notices a peer that vanished without closing the connection.
fn tune(stream: &TcpStream, command_timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(Duration::from_secs(10))
            .with_interval(Duration::from_secs(5))
            .with_retries(3),
    )?;
    #[cfg(any(target_os = "android", target_os = "linux"))]
    socket.set_tcp_user_timeout(Some(command_timeout * STRIKES))?;
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    let _ = command_timeout;
    Ok(())
}
