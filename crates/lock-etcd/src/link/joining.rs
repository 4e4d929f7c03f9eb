//! A connection that sends the head of a request together with its message.
//!
//! hyper writes the head of a request, and the message when the stream is open. In two packets they wake the server
//! twice.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The length of the bytes before the first frame of a client: RFC 9113, section 3.4.
const PREFACE: usize = 24;

/// The length of the head of a frame, the type of a frame with the head of a request, and the flag of a request without
/// a message: RFC 9113, sections 4.1 and 6.2.
const FRAME_HEAD: usize = 9;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;

/// Holds the head of a request back until the next write.
///
/// Each request of this client has a message. If the caller drops the request before its message, HTTP/2 resets the
/// stream, and the head goes out with the reset.
pub(super) struct Joining<S> {
    stream: S,
    /// What was accepted, and is not sent yet.
    unsent: Vec<u8>,
    /// Whether the unsent bytes go out now.
    is_due: bool,
    frames: Frames,
}

impl<S: AsyncWrite + Unpin> Joining<S> {
    /// A connection that a client begins.
    pub(super) fn new(stream: S) -> Self {
        Self::with(stream, PREFACE)
    }

    /// A connection whose bytes are encrypted already. It holds nothing back.
    pub(super) fn encrypted(stream: S) -> Self {
        Self::with(stream, Frames::UNKNOWN)
    }

    fn with(stream: S, rest: usize) -> Self {
        Self { stream, unsent: Vec::new(), is_due: false, frames: Frames { rest } }
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

impl<S: AsyncRead + Unpin> AsyncRead for Joining<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Joining<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_due {
            ready!(self.poll_send(context))?;
        }
        self.unsent.extend_from_slice(bytes);
        self.is_due = !self.frames.are_heads(bytes);
        if self.is_due
            && let Poll::Ready(Err(error)) = self.poll_send(context)
        {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(bytes.len()))
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

/// Where frames begin and end in what a client writes. Pure.
struct Frames {
    /// How many bytes are to come before the next frame begins.
    rest: usize,
}

impl Frames {
    /// No frame begins within the life of a connection.
    const UNKNOWN: usize = usize::MAX;

    /// Whether these bytes, the next of the connection, are whole frames, each with the head of a request whose message
    /// follows. A frame whose own head comes in two writes ends the knowledge where frames begin.
    fn are_heads(&mut self, mut bytes: &[u8]) -> bool {
        let mut are_heads = self.rest == 0;
        loop {
            let part = self.rest.min(bytes.len());
            self.rest -= part;
            bytes = &bytes[part..];
            if bytes.is_empty() {
                return are_heads && self.rest == 0;
            }
            let Some((head, after)) = bytes.split_first_chunk::<FRAME_HEAD>() else {
                self.rest = Self::UNKNOWN;
                return false;
            };
            let [high, middle, low, kind, flags, ..] = *head;
            are_heads &= kind == HEADERS && flags & END_STREAM == 0;
            self.rest = u32::from_be_bytes([0, high, middle, low]) as usize;
            bytes = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const DATA: u8 = 0;

    fn frame(kind: u8, flags: u8, len: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, len, kind, flags, 0, 0, 0, 1];
        frame.extend(vec![7; usize::from(len)]);
        frame
    }

    fn begun() -> Frames {
        let mut frames = Frames { rest: PREFACE };
        assert!(!frames.are_heads(&[0; PREFACE]));
        frames
    }

    #[test]
    fn only_whole_heads_of_requests_with_messages_wait() {
        let (head, data) = (frame(HEADERS, 4, 30), frame(DATA, END_STREAM, 5));
        let mut frames = begun();
        assert!(
            frames.are_heads(&head) && frames.are_heads(&[head.clone(), head.clone()].concat())
        );
        assert!(!frames.are_heads(&data) && frames.are_heads(&head));
        assert!(!frames.are_heads(&[head.clone(), data.clone()].concat()));
        assert!(!frames.are_heads(&[data, head.clone()].concat()));
        assert!(!frames.are_heads(&frame(HEADERS, 4 | END_STREAM, 30)));
        let (first, second) = head.split_at(20);
        assert!(!frames.are_heads(first) && !frames.are_heads(second) && frames.are_heads(&head));
        let (first, second) = head.split_at(8);
        assert!(!frames.are_heads(first) && !frames.are_heads(second) && !frames.are_heads(&head));
    }

    #[tokio::test]
    async fn a_head_and_its_message_arrive_together() {
        let (client, mut server) = tokio::io::duplex(1024);
        let mut client = Joining::new(client);
        let (head, data) = (frame(HEADERS, 4, 30), frame(DATA, END_STREAM, 5));
        let mut heard = [0; 1024];
        client.write_all(&[0; PREFACE]).await.unwrap();
        assert_eq!(server.read(&mut heard).await.unwrap(), PREFACE);
        client.write_all(&head).await.unwrap();
        client.flush().await.unwrap();
        assert!(server.read(&mut heard).now_or_never().is_none());
        client.write_all(&data).await.unwrap();
        let together = [head.clone(), data].concat();
        assert_eq!(server.read(&mut heard).await.unwrap(), together.len());
        assert_eq!(heard[..together.len()], together);
        client.write_all(&head).await.unwrap();
        client.shutdown().await.unwrap();
        let mut last = Vec::new();
        server.read_to_end(&mut last).await.unwrap();
        assert_eq!(last, head, "the end of the connection holds nothing back");
    }

    #[tokio::test]
    async fn a_connection_that_takes_few_bytes_at_a_time_gets_all_in_order() {
        let (client, mut server) = tokio::io::duplex(7);
        let mut client = Joining::new(client);
        let mut all = vec![0; PREFACE];
        (0..9)
            .for_each(|len| all.extend([frame(HEADERS, 4, len), frame(DATA, 0, 3 * len)].concat()));
        let sending = async {
            // Frames in one write, in two writes, and frames whose head is in two writes.
            for part in all.chunks(41) {
                client.write_all(part).await.unwrap();
            }
            client.flush().await.unwrap();
            client.shutdown().await.unwrap();
        };
        let mut heard = Vec::new();
        let ((), read) = tokio::join!(sending, server.read_to_end(&mut heard));
        assert_eq!((read.unwrap(), heard), (all.len(), all));
    }

    #[tokio::test]
    async fn an_encrypted_connection_holds_nothing_back() {
        let (client, mut server) = tokio::io::duplex(1024);
        let mut client = Joining::encrypted(client);
        client.write_all(&[0; PREFACE]).await.unwrap();
        client.write_all(&frame(HEADERS, 4, 30)).await.unwrap();
        let mut heard = [0; 1024];
        assert_eq!(server.read(&mut heard).await.unwrap(), PREFACE + FRAME_HEAD + 30);
    }
}
