//! A proxy that understands the protocol.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::frames::{reply_len, request_len, words};
use super::twin::can_be_repeated;
use crate::service::Service;

/// The fate of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a proxy can do nothing else with a request")]
pub enum Fate {
    /// It goes to the server.
    Passes,
    /// It goes to the second server.
    Turns,
    /// No server sees it. The proxy answers with this error.
    IsRefused(&'static str),
}

type Rule = dyn Fn(&[&[u8]]) -> Fate + Send + Sync;

/// A TCP proxy that decides the fate of each request, like proxies that know the protocol: those refuse some
/// commands, or send some to a replica. It has a loopback port and a thread of its own.
///
/// A connection has one request under way at a time, so that replies keep the order of the requests.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_tests::{Fate, Mediator, RedisServer, resp};
///
/// let server = RedisServer::start();
/// let proxy = Mediator::start(&[server.addr()], |words| match words[0] {
///     b"GET" => Fate::IsRefused("ERR command 'GET' not allowed"),
///     _ => Fate::Passes,
/// });
/// let mut client = resp::Client::connect(proxy.addr(), Duration::from_secs(5))?;
/// assert_eq!(client.command(&["SET", "k", "v"])?.text(), "OK");
/// assert_eq!(client.command(&["GET", "k"])?.error(), "ERR command 'GET' not allowed");
/// assert_eq!(proxy.requests(), ["SET", "GET"]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Mediator {
    addr: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    /// The drop closes all connections, and waits until they are closed.
    _service: Service,
}

impl Mediator {
    /// A proxy in front of one server, or two.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub fn start(
        servers: &[SocketAddr],
        rule: impl Fn(&[&[u8]]) -> Fate + Send + Sync + 'static,
    ) -> Self {
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let shared = Shared {
            servers: servers.to_vec(),
            rule: Box::new(rule),
            requests: Arc::clone(&requests),
        };
        let listen = || {
            let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let addr = listener.local_addr()?;
            let begin = || Ok(serve(TcpListener::from_std(listener)?, Arc::new(shared)));
            Ok((addr, Service::start(format!("mediator on {addr}"), begin)?))
        };
        let (addr, service) =
            listen().unwrap_or_else(|error: io::Error| panic!("no proxy: {error}"));
        Self { addr, requests, _service: service }
    }

    /// Its address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL for a client without a name.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// The first words of all requests so far, in upper case.
    pub fn requests(&self) -> Vec<String> {
        lock(&self.requests).clone()
    }

    /// How many requests so far begin with this word.
    pub fn count(&self, word: &str) -> usize {
        lock(&self.requests).iter().filter(|it| *it == word).count()
    }
}

struct Shared {
    servers: Vec<SocketAddr>,
    rule: Box<Rule>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Shared {
    fn decide(&self, request: &[u8]) -> Fate {
        let words = words(request);
        let name = words.first().copied().unwrap_or_default();
        lock(&self.requests).push(String::from_utf8_lossy(name).to_ascii_uppercase());
        (self.rule)(&words)
    }
}

fn lock(requests: &Mutex<Vec<String>>) -> MutexGuard<'_, Vec<String>> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        tokio::spawn(talk(client, Arc::clone(&shared)));
    }
}

/// One connection, until either side ends it.
async fn talk(client: TcpStream, shared: Arc<Shared>) -> io::Result<()> {
    let mut client = End::new(client)?;
    let mut servers = Vec::new();
    for addr in &shared.servers {
        servers.push(End::new(TcpStream::connect(addr).await?)?);
    }
    let mut waits = false;
    loop {
        while !waits && let Some(request) = client.request()? {
            let number = match shared.decide(&request) {
                Fate::IsRefused(error) => {
                    client.stream.write_all(format!("-{error}\r\n").as_bytes()).await?;
                    continue;
                }
                Fate::Passes => 0,
                Fate::Turns => 1,
            };
            servers[number].stream.write_all(&request).await?;
            // Whether a reply confirms a subscription depends on the version of the protocol.
            waits = can_be_repeated(&request);
        }
        let (first, second) = servers.split_at_mut(1);
        tokio::select! {
            read = client.read() => read?,
            read = first[0].read() => {
                read?;
                waits &= !first[0].pass_on(&mut client).await?;
            }
            read = End::read_any(second.first_mut()) => {
                read?;
                waits &= !second[0].pass_on(&mut client).await?;
            }
        }
    }
}

/// One end of a connection, and the bytes from there.
struct End {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl End {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: Vec::new() })
    }

    /// # Cancel safety
    ///
    /// Nothing is lost.
    async fn read(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.bytes).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn read_any(end: Option<&mut Self>) -> io::Result<()> {
        match end {
            Some(end) => end.read().await,
            None => std::future::pending().await,
        }
    }

    /// The next request, if it is complete.
    fn request(&mut self) -> io::Result<Option<Vec<u8>>> {
        let len = request_len(&self.bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(len.map(|len| self.bytes.drain(..len).collect()))
    }

    /// Passes on all complete replies. Returns whether there was one.
    async fn pass_on(&mut self, client: &mut Self) -> io::Result<bool> {
        let mut has_replied = false;
        while let Some((len, is_reply)) =
            reply_len(&self.bytes).map_err(|_| io::ErrorKind::InvalidData)?
        {
            client.stream.write_all(&self.bytes[..len]).await?;
            self.bytes.drain(..len);
            has_replied |= is_reply;
        }
        Ok(has_replied)
    }
}
