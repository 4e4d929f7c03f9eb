//! The delivery in one direction of a connection: when, in which pieces, and how often.

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;
use tokio::sync::mpsc;

use super::connection::{Incoming, What};
use super::frames::request_len;
use super::switches::{Arrival, Counters, Gate};
use super::twin::{Introduction, Twin, can_be_repeated};

pub(super) struct Delivery<'a> {
    to: WriteHalf<'a>,
    gate: Gate,
    counters: &'a Counters,
    copies: Option<Copies>,
}

/// Requests on their way to a server, and the state for repeating them.
pub(super) struct Copies {
    server: SocketAddr,
    introduction: Introduction,
    twin: Option<Twin>,
    /// The request that is not complete yet.
    begun: Vec<u8>,
    /// How much of it has gone out.
    sent: usize,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(to: WriteHalf<'a>, gate: Gate, counters: &'a Counters) -> Self {
        Self { to, gate, counters, copies: None }
    }

    /// The same for requests, which may have to arrive twice.
    pub(super) fn repeatable(self, server: SocketAddr) -> Self {
        let introduction = Introduction::default();
        let copies = Copies { server, introduction, twin: None, begun: Vec::new(), sent: 0 };
        Self { copies: Some(copies), ..self }
    }

    /// Delivers what arrives, until the end, or a failure on either side.
    pub(super) async fn run(mut self, mut arrivals: mpsc::Receiver<Incoming>) -> io::Result<()> {
        while let Some((arrival, what)) = self.next(&mut arrivals).await {
            self.gate.opened(arrival).await;
            match what {
                What::End => return self.to.shutdown().await,
                What::Failure(error) => return Err(error),
                What::Bytes(bytes) if self.copies.is_some() => self.pass(arrival, &bytes).await?,
                What::Bytes(bytes) => self.write(arrival, &bytes).await?,
            }
        }
        Ok(())
    }

    /// Drops a second connection that is no longer needed, while nothing comes in.
    async fn next(&mut self, arrivals: &mut mpsc::Receiver<Incoming>) -> Option<Incoming> {
        loop {
            let Some(copies) = self.copies.as_mut().filter(|copies| copies.twin.is_some()) else {
                return arrivals.recv().await;
            };
            tokio::select! {
                biased;
                arrival = arrivals.recv() => return arrival,
                () = self.gate.changed() => {
                    if !self.gate.repeats() {
                        copies.twin = None;
                    }
                }
            }
        }
    }

    /// Delivers bytes of requests, the complete ones twice if the switch says so.
    async fn pass(&mut self, arrival: Arrival, bytes: &[u8]) -> io::Result<()> {
        let Some(mut copies) = self.copies.take() else { return Ok(()) };
        copies.begun.extend_from_slice(bytes);
        loop {
            match request_len(&copies.begun) {
                Ok(Some(len)) => {
                    let rest = copies.begun.split_off(len);
                    let request = std::mem::replace(&mut copies.begun, rest);
                    let sent = std::mem::take(&mut copies.sent);
                    if sent == 0 && self.gate.repeats() && can_be_repeated(&request) {
                        self.write_copy(arrival, &request, &mut copies).await;
                    }
                    copies.introduction.hear(&request);
                    self.write(arrival, &request[sent..]).await?;
                }
                Ok(None) => {
                    // A request that has begun to go out goes on, and so does one that is not to be
                    // repeated.
                    if copies.sent > 0 || !self.gate.repeats() {
                        self.write(arrival, &copies.begun[copies.sent..]).await?;
                        copies.sent = copies.begun.len();
                    }
                    self.copies = Some(copies);
                    return Ok(());
                }
                // Another protocol: without the end of a request there is nothing to repeat.
                Err(_) => return self.write(arrival, &copies.begun[copies.sent..]).await,
            }
        }
    }

    /// Delivers a request on the second connection, and waits until it was executed. If that fails the
    /// request arrives once.
    async fn write_copy(&mut self, arrival: Arrival, request: &[u8], copies: &mut Copies) {
        if copies.twin.is_none() {
            copies.twin = Twin::connect(copies.server, &copies.introduction).await.ok();
        }
        let Some(twin) = &mut copies.twin else { return };
        let written = write(&mut self.gate, arrival, &twin.stream, request, |_| ()).await;
        if written.is_err() || twin.reply().await.is_err() {
            copies.twin = None;
        }
    }

    async fn write(&mut self, arrival: Arrival, bytes: &[u8]) -> io::Result<()> {
        let direction = self.gate.direction;
        let count = |count| self.counters.add_bytes(direction, count);
        write(&mut self.gate, arrival, self.to.as_ref(), bytes, count).await
    }
}

async fn write(
    gate: &mut Gate,
    arrival: Arrival,
    to: &TcpStream,
    mut bytes: &[u8],
    count: impl Fn(usize),
) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        // Checked once more, with no await between the check and the write: the caller that closed the
        // gate may rely on it.
        if !gate.is_open(arrival) {
            gate.opened(arrival).await;
            continue;
        }
        if gate.cuts() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let dribble = gate.dribble();
        let piece = if dribble.is_some() { &bytes[..1] } else { bytes };
        match to.try_write(piece) {
            Ok(written) => {
                bytes = &bytes[written..];
                count(written);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        match dribble {
            Some(pause) if !pause.is_zero() => tokio::time::sleep(pause).await,
            Some(_) => tokio::task::yield_now().await,
            None => {}
        }
    }
    Ok(())
}
