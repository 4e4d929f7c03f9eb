//! The unit of the figures: the cheapest request to the store.

use std::io;
use std::time::Duration;

use lock_core::{AnyBackend, Error, InspectBackend, Key};
use redis::{Client, Cmd, ConnectionAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Failure;

/// How long the server may take to answer the bare client.
const LIMIT: Duration = Duration::from_secs(5);

/// A client that sends a request which does nothing.
pub(super) enum Unit {
    /// `PING`, to one server of Redis, on a bare socket: a client library would add time of its own.
    Ping(TcpStream),
    /// An inspection of a free lock, for all other stores.
    Look(AnyBackend, Key),
}

impl Unit {
    /// The unit of the store that the URL names. The bare client can ask one server. It knows no TLS, no quorum, no
    /// cluster and no sentinels.
    pub(super) async fn of(url: &str, store: AnyBackend, free: Key) -> Result<Self, Error> {
        let is_one_server = ["redis://", "valkey://"].iter().any(|it| url.starts_with(it));
        if is_one_server && let Ok(Ok(socket)) = tokio::time::timeout(LIMIT, connect(url)).await {
            return Ok(Self::Ping(socket));
        }
        store.inspect(&free).await?;
        Ok(Self::Look(store, free))
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
            Self::Ping(socket) => {
                ask(socket, &redis::cmd("PING")).await.map_err(|it| Failure::Ping(it.to_string()))
            }
            Self::Look(store, free) => Ok(store.inspect(free).await.map(drop)?),
        }
    }
}

/// Connects to one server, and logs in.
async fn connect(url: &str) -> io::Result<TcpStream> {
    let client = Client::open(url).map_err(io::Error::other)?;
    let info = client.get_connection_info();
    let ConnectionAddr::Tcp(host, port) = info.addr() else {
        return Err(io::Error::other("no bare socket"));
    };
    let mut socket = TcpStream::connect((host.as_str(), *port)).await?;
    socket.set_nodelay(true)?;
    if let Some(password) = info.redis_settings().password() {
        let mut login = redis::cmd("AUTH");
        info.redis_settings().username().into_iter().for_each(|user| _ = login.arg(user));
        ask(&mut socket, login.arg(password)).await?;
    }
    ask(&mut socket, &redis::cmd("PING")).await?;
    Ok(socket)
}

/// Sends a command whose answer is one line, and reads the line.
async fn ask(socket: &mut TcpStream, command: &Cmd) -> io::Result<()> {
    socket.write_all(&command.get_packed_command()).await?;
    let (mut room, mut length) = ([0; 256], 0);
    while !room[..length].ends_with(b"\r\n") {
        match socket.read(&mut room[length..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => length += more,
        }
    }
    if room[0] == b'+' {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&room[..length]).trim_end().to_owned()))
}
