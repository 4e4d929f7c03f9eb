//! A connection that sends the head of a request together with its message.
//!
//! hyper writes the head of a request first. It writes the message once the stream is open. Two packets wake the server
//! twice.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How many bytes wait for a flush, at most. One write may exceed this.
const MOST_UNSENT: usize = 64 * 1024;

/// Holds the heads of requests back until something else is written, or until the server says something. A flush does
/// not send them. The end of the connection does.
///
/// The message follows at once: each request of this client has one when it begins. A request that is dropped before its
/// message resets its stream, and the reset is a write. A server may give a new stream no room for a message. Then the
/// head goes out with the next PING.
pub(super) struct Joining<S> {
    stream: S,
    /// What was accepted, and is not sent yet.
    unsent: Vec<u8>,
    /// Whether a flush sends the unsent bytes.
    is_due: bool,
    /// `None` if the bytes are encrypted. Then nothing waits.
    frames: Option<Frames>,
}

impl<S: AsyncWrite + Unpin> Joining<S> {
    /// A connection whose client has written nothing yet.
    pub(super) fn new(stream: S) -> Self {
        Self { stream, unsent: Vec::new(), is_due: false, frames: Some(Frames::begin()) }
    }

    /// A connection that gets encrypted bytes. They go out as they come.
    pub(super) fn encrypted(stream: S) -> Self {
        Self { frames: None, ..Self::new(stream) }
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, &self.unsent))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.drain(..sent);
        }
        self.is_due = false;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Joining<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if !self.unsent.is_empty() {
            self.is_due = true;
            // This read keeps what it got. The next flush sends the rest, or reports the error.
            let _sent = self.poll_send(context);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Joining<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.frames.is_none() {
            return Pin::new(&mut self.stream).poll_write(context, bytes);
        }
        if self.unsent.len() >= MOST_UNSENT {
            ready!(self.poll_send(context))?;
        }
        let are_heads = self.frames.as_mut().is_some_and(|frames| frames.are_heads(bytes));
        self.is_due |= !are_heads;
        self.unsent.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.frames.is_none() {
            return Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        }
        self.poll_write(context, slices.iter().find(|it| !it.is_empty()).map_or(&[], |it| it))
    }

    fn is_write_vectored(&self) -> bool {
        self.frames.is_none() && self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_due {
            ready!(self.poll_send(context))?;
        }
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Where frames begin and end in what a client writes, by RFC 9113. Pure.
struct Frames {
    /// How many bytes are to come before the next frame begins.
    rest: u64,
}

impl Frames {
    /// The length of the bytes before the first frame of a client (section 3.4).
    const PREFACE: u64 = 24;
    /// The length of the head of a frame (section 4.1).
    const HEAD: usize = 9;
    /// The type of a frame with the head of a request (section 6.2).
    const HEADERS: u8 = 1;
    /// The flag of a request without a message (section 6.2).
    const END_STREAM: u8 = 1;
    /// It is not known where the next frame begins.
    const UNKNOWN: u64 = u64::MAX;

    fn begin() -> Self {
        Self { rest: Self::PREFACE }
    }

    /// Whether these bytes, the next of the connection, are whole frames, each with the head of a request whose message
    /// follows. After a frame whose own head comes in two writes, it is not known where frames begin.
    fn are_heads(&mut self, mut bytes: &[u8]) -> bool {
        let mut are_heads = self.rest == 0;
        loop {
            let part = usize::try_from(self.rest).map_or(bytes.len(), |rest| rest.min(bytes.len()));
            self.rest -= part as u64;
            bytes = &bytes[part..];
            if bytes.is_empty() {
                return are_heads && self.rest == 0;
            }
            let Some((head, after)) = bytes.split_first_chunk::<{ Self::HEAD }>() else {
                self.rest = Self::UNKNOWN;
                return false;
            };
            let [high, middle, low, kind, flags, ..] = *head;
            are_heads &= kind == Self::HEADERS && flags & Self::END_STREAM == 0;
            self.rest = u64::from(u32::from_be_bytes([0, high, middle, low]));
            bytes = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::time::timeout;

    use super::*;

    const PREFACE: [u8; 24] = [0; 24];
    const DATA: u8 = 0;
    const END: u8 = Frames::END_STREAM;

    fn frame(kind: u8, flags: u8, len: usize) -> Vec<u8> {
        let mut frame =
            vec![(len >> 16) as u8, (len >> 8) as u8, len as u8, kind, flags, 0, 0, 0, 1];
        frame.extend(vec![7; len]);
        frame
    }

    fn head(len: usize) -> Vec<u8> {
        frame(Frames::HEADERS, 4, len)
    }

    /// A connection on which the preface was sent.
    async fn begun(room: usize) -> (Joining<DuplexStream>, DuplexStream) {
        let (client, mut server) = tokio::io::duplex(room);
        let mut client = Joining::new(client);
        let mut heard = PREFACE;
        let ((), read) = tokio::join!(send(&mut client, &PREFACE), server.read_exact(&mut heard));
        assert_eq!(read.unwrap(), PREFACE.len());
        (client, server)
    }

    async fn send(client: &mut Joining<DuplexStream>, bytes: &[u8]) {
        client.write_all(bytes).await.unwrap();
        client.flush().await.unwrap();
    }

    /// What one read of the server hears.
    fn hears(server: &mut DuplexStream) -> Vec<u8> {
        let mut heard = vec![0; 4096];
        let len = server.read(&mut heard).now_or_never().map_or(0, Result::unwrap);
        heard.truncate(len);
        heard
    }

    #[test]
    fn only_whole_heads_of_requests_with_messages_wait() {
        let mut frames = Frames::begin();
        let mut wait = |parts: &[&[u8]]| frames.are_heads(&parts.concat());
        assert!(!wait(&[&PREFACE]));
        let (short, data) = (head(30), frame(DATA, END, 5));
        for len in [0, 30, 300, 70_000] {
            assert!(wait(&[&head(len)]) && wait(&[&short, &head(len)]), "{len}");
        }
        for kind in (0..10).filter(|kind| *kind != Frames::HEADERS) {
            assert!(!wait(&[&frame(kind, 0, 5)]) && !wait(&[&frame(kind, END, 0)]), "{kind}");
        }
        assert!(!wait(&[&short, &data]) && !wait(&[&data, &short]));
        assert!(!wait(&[&frame(Frames::HEADERS, 4 | END, 30)]));
        let (first, second) = short.split_at(20);
        assert!(!wait(&[first]) && !wait(&[second]) && wait(&[&short]));
        let (first, second) = short.split_at(8);
        assert!(!wait(&[first]) && !wait(&[second]) && !wait(&[&short]));
    }

    #[tokio::test]
    async fn a_head_and_its_message_arrive_together() {
        let (mut client, mut server) = begun(4096).await;
        let (head, data) = (head(30), frame(DATA, END, 2000));
        send(&mut client, &head).await;
        assert_eq!(hears(&mut server), []);
        // hyper writes the message in several parts, and flushes at the end.
        let (first, second) = data.split_at(1000);
        client.write_all(first).await.unwrap();
        send(&mut client, second).await;
        assert_eq!(hears(&mut server), [head, data].concat());
    }

    #[tokio::test]
    async fn a_head_waits_neither_for_the_server_nor_past_the_end() {
        let (mut client, mut server) = begun(4096).await;
        send(&mut client, &head(30)).await;
        assert_eq!(hears(&mut server), []);
        server.write_all(&[1]).await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), 1);
        assert_eq!(hears(&mut server), head(30));
        send(&mut client, &head(40)).await;
        client.shutdown().await.unwrap();
        assert_eq!(hears(&mut server), head(40));
    }

    #[tokio::test]
    async fn a_connection_that_takes_few_bytes_at_a_time_gets_all_in_order() {
        let (mut client, mut server) = begun(7).await;
        let data = frame(DATA, END, 50);
        let (first, second) = data.split_at(12);
        let (cut, rest) = data.split_at(5);
        let writes = [&head(30), &data, &[head(9), head(8)].concat(), first, second, cut, rest];
        let all = writes.concat();
        let sending = async {
            for write in writes {
                send(&mut client, write).await;
            }
        };
        let mut heard = vec![0; all.len()];
        let both = async { tokio::join!(sending, server.read_exact(&mut heard)).1.unwrap() };
        assert_eq!(timeout(Duration::from_secs(20), both).await.unwrap(), all.len());
        assert_eq!(heard, all);
    }

    #[tokio::test]
    async fn few_bytes_wait_for_a_flush() {
        let (mut client, mut server) = begun(7).await;
        let data = frame(DATA, 0, 16_000);
        for _ in 0..5 {
            client.write_all(&data).await.unwrap();
        }
        assert!(client.write_all(&data).now_or_never().is_none());
        let mut heard = vec![0; 6 * data.len()];
        let both =
            async { tokio::join!(send(&mut client, &data), server.read_exact(&mut heard)).1 };
        timeout(Duration::from_secs(20), both).await.unwrap().unwrap();
        assert_eq!(heard, data.repeat(6));
    }

    #[tokio::test]
    async fn an_encrypted_connection_holds_nothing_back() {
        let (client, mut server) = tokio::io::duplex(4096);
        let mut client = Joining::encrypted(client);
        for bytes in [&PREFACE[..], &head(30)] {
            client.write_all(bytes).await.unwrap();
            assert_eq!(hears(&mut server), bytes);
        }
    }
}
