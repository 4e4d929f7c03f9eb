//! One connection through a proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::Direction;
use super::switches::{Counters, Gate, Switches};

/// How much a direction holds back, in reads, before it stops reading.
const HELD_READS: usize = 1024;

/// A connection that was accepted. Dropping it resets the client.
pub(super) struct Connection {
    client: Socket,
    counters: Arc<Counters>,
}

impl Connection {
    pub(super) fn new(client: TcpStream, counters: Arc<Counters>) -> Self {
        counters.connected();
        Self { client: Socket::new(client), counters }
    }

    /// Passes on bytes until both sides have ended, or one has failed.
    pub(super) async fn run(mut self, target: SocketAddr, switches: watch::Receiver<Switches>) {
        let Ok(server) = TcpStream::connect(target).await else { return };
        let mut server = Socket::new(server);
        let gate = |direction| Gate { switches: switches.clone(), direction };
        let (from_client, to_client) = self.client.stream.split();
        let (from_server, to_server) = server.stream.split();
        let both = tokio::try_join!(
            pump(from_client, to_server, gate(Direction::ToServer), &self.counters),
            pump(from_server, to_client, gate(Direction::ToClient), &self.counters),
        );
        if both.is_ok() {
            self.client.reset = false;
            server.reset = false;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.counters.disconnected();
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

/// Something that came in.
struct Arrival {
    at: Instant,
    what: What,
}

enum What {
    Bytes(Vec<u8>),
    End,
    Failure(io::Error),
}

/// One direction. Reading goes on while writing is held back, so that a delay costs no throughput.
async fn pump(
    from: ReadHalf<'_>,
    to: WriteHalf<'_>,
    gate: Gate,
    counters: &Counters,
) -> io::Result<()> {
    let (queue, arrivals) = mpsc::channel(HELD_READS);
    tokio::try_join!(take_in(from, queue), deliver(arrivals, to, gate, counters))?;
    Ok(())
}

/// Never fails by itself: a failure to read is something that came in.
async fn take_in(from: ReadHalf<'_>, queue: mpsc::Sender<Arrival>) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let what = match read(&from, &mut buffer).await {
            Ok(0) => What::End,
            Ok(count) => What::Bytes(buffer[..count].to_vec()),
            Err(error) => What::Failure(error),
        };
        let last = !matches!(what, What::Bytes(_));
        if queue.send(Arrival { at: Instant::now(), what }).await.is_err() || last {
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

async fn deliver(
    mut arrivals: mpsc::Receiver<Arrival>,
    mut to: WriteHalf<'_>,
    mut gate: Gate,
    counters: &Counters,
) -> io::Result<()> {
    while let Some(Arrival { at, what }) = arrivals.recv().await {
        gate.opened(at).await;
        match what {
            What::End => return to.shutdown().await,
            What::Failure(error) => return Err(error),
            What::Bytes(bytes) => {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    to.writable().await?;
                    // Looked at once more, with no await between the look and the write: whoever
                    // has closed the gate may rely on it.
                    if !gate.is_open(at) {
                        gate.opened(at).await;
                        continue;
                    }
                    match to.try_write(rest) {
                        Ok(count) => {
                            rest = &rest[count..];
                            counters.add_bytes(gate.direction, count);
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }
    Ok(())
}
