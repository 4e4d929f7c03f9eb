//! One connection through a proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::Direction;
use super::delivery::Delivery;
use super::switches::{Arrival, Counters, Gate, Switches};
use crate::Random;

/// How much a direction holds back, in reads, before it stops reading.
const HELD_READS: usize = 1024;

/// A connection that was accepted. Dropping it resets the client.
pub(super) struct Connection {
    client: Socket,
    server: Option<Socket>,
    /// Whether the machine of the client has vanished.
    is_gone: bool,
    counters: Arc<Counters>,
    /// The number of connections that were accepted before.
    number: usize,
}

impl Connection {
    pub(super) fn new(client: TcpStream, counters: Arc<Counters>) -> Self {
        let number = counters.connected();
        Self { client: Socket::new(client), server: None, is_gone: false, counters, number }
    }

    /// Passes on bytes until both sides have ended, or one has failed, or the client vanishes.
    pub(super) fn run(
        mut self,
        target: SocketAddr,
        mut switches: watch::Receiver<Switches>,
    ) -> impl Future<Output = ()> {
        // Not at the first poll: the client may vanish before it.
        let before = switches.borrow().vanishings;
        async move {
            // A client that vanishes meanwhile does so once this connection is open: the server must not see it close.
            let Ok(server) = TcpStream::connect(target).await else { return };
            self.server = Some(Socket::new(server));
            let passing = switches.clone();
            tokio::select! {
                biased;
                Ok(_) = switches.wait_for(|it| it.vanishings > before) => {}
                () = self.pass(target, passing) => return,
            }
            self.vanish();
            std::future::pending().await
        }
    }

    fn vanish(&mut self) {
        // Without the filter the server gets answers, and the test of its keepalive fails.
        if let Some(Err(error)) = self.server.as_ref().map(|server| deafen(&server.stream)) {
            eprintln!("the kernel goes on answering: {error}");
        }
        self.is_gone = true;
        self.counters.vanished();
    }

    async fn pass(&mut self, target: SocketAddr, switches: watch::Receiver<Switches>) {
        let Some(server) = &mut self.server else { return };
        let gate = |direction| Gate::new(switches.clone(), direction);
        let counters = &self.counters;
        // The random choices follow from the number of the connection and the direction.
        let mut random = Random::from_seed(self.number as u64);
        let (from_client, to_client) = self.client.stream.split();
        let (from_server, to_server) = server.stream.split();
        let requests = Delivery::new(to_server, gate(Direction::ToServer), counters);
        let replies = Delivery::new(to_client, gate(Direction::ToClient), counters);
        let both = tokio::try_join!(
            pump(from_client, requests.repeatable(target), random.fork()),
            pump(from_server, replies, random.fork()),
        );
        if both.is_ok() {
            self.client.reset = false;
            server.reset = false;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.counters.disconnected(self.is_gone);
    }
}

/// A socket that is reset when dropped, unless it came to a proper end.
struct Socket {
    stream: TcpStream,
    reset: bool,
}

impl Socket {
    fn new(stream: TcpStream) -> Self {
        // Without it the proxy would add delays of its own. It fails only on a dead connection.
        _ = stream.set_nodelay(true);
        Self { stream, reset: true }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.reset {
            _ = self.stream.set_zero_linger();
        }
    }
}

/// Bytes that came in, or the end, and the time.
pub(super) type Incoming = (Arrival, What);

pub(super) enum What {
    Bytes(Vec<u8>),
    End,
    Failure(io::Error),
}

/// Has the kernel drop every packet for this socket before TCP sees the packet, so that it acknowledges nothing.
#[cfg(target_os = "linux")]
fn deafen(stream: &TcpStream) -> io::Result<()> {
    /// Accept so many bytes of the packet.
    const RETURN: u16 = 0x06;
    socket2::SockRef::from(stream).attach_filter(&[socket2::SockFilter::new(RETURN, 0, 0, 0)])
}

#[cfg(not(target_os = "linux"))]
fn deafen(_: &TcpStream) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// One direction. It reads on while the writing is held back, so a delay costs no throughput.
async fn pump(from: ReadHalf<'_>, to: Delivery<'_>, random: Random) -> io::Result<()> {
    let (queue, arrivals) = mpsc::channel(HELD_READS);
    tokio::try_join!(take_in(from, queue, random), to.run(arrivals))?;
    Ok(())
}

/// Never fails itself: a failed read is an arrival too.
async fn take_in(
    from: ReadHalf<'_>,
    queue: mpsc::Sender<Incoming>,
    mut random: Random,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let what = match read(&from, &mut buffer).await {
            Ok(0) => What::End,
            Ok(count) => What::Bytes(buffer[..count].to_vec()),
            Err(error) => What::Failure(error),
        };
        let last = !matches!(what, What::Bytes(_));
        let arrival = Arrival { at: Instant::now(), luck: random.draw() as u32 };
        if queue.send((arrival, what)).await.is_err() || last {
            return Ok(());
        }
    }
}

async fn read(from: &ReadHalf<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}
