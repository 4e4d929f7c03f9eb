//! Sockets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use lock_core::{Error, ErrorKind};
use socket2::{SockRef, TcpKeepalive};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::sleep;

use super::settings::{STRIKES, Settings};
use crate::wire::{Address, Endpoint};

/// How long an address of a host may take to answer before the next address is tried, too.
const HEAD_START: Duration = Duration::from_millis(250);

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
            let addresses = lookup_host((host.as_str(), *port)).await.map_err(failed)?;
            let stream = connect(addresses).await.map_err(failed)?;
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

/// Connects to the first of these addresses that answers. An address that does not answer delays the next address by
/// [`HEAD_START`] only, as in [RFC 8305](https://www.rfc-editor.org/rfc/rfc8305#section-5).
async fn connect(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut addresses = addresses.peekable();
    let (mut attempts, mut failure) = (FuturesUnordered::new(), None);
    loop {
        attempts.extend(addresses.next().map(TcpStream::connect));
        tokio::select! {
            attempt = attempts.next() => match attempt {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => failure = Some(error),
                None => {
                    let nothing = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                    return Err(failure.unwrap_or_else(nothing));
                }
            },
            () = sleep(HEAD_START), if addresses.peek().is_some() => {}
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    #[cfg(target_os = "linux")]
    use socket2::{Domain, Socket, Type};
    use tokio::net::TcpListener;
    #[cfg(target_os = "linux")]
    use tokio::time::timeout;

    use super::*;

    /// A listener that accepts no connection, and has no room for another one: the system drops the next packets.
    #[cfg(target_os = "linux")]
    async fn mute() -> (Socket, Vec<tokio::task::JoinHandle<io::Result<TcpStream>>>, SocketAddr) {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let mut filling = Vec::new();
        while timeout(HEAD_START, TcpStream::connect(address)).await.is_ok() {
            filling.push(tokio::spawn(TcpStream::connect(address)));
        }
        (listener, filling, address)
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_address_that_does_not_answer_does_not_hide_the_next() {
        let (_listener, _filling, mute) = mute().await;
        let answers = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = answers.local_addr().unwrap();
        let limit = Duration::from_secs(20);
        let stream = timeout(limit, connect([mute, mute, address].into_iter())).await.unwrap();
        assert_eq!(stream.unwrap().peer_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn the_error_of_an_address_that_refuses_is_told() {
        let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
        let error = connect([gone, gone].into_iter()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let error = connect(std::iter::empty()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
