//! A stream that is read no faster than its messages are taken.
//!
//! The crate puts the messages of a connection that only listens into a queue without a bound. The queue
//! would grow if a server sends messages faster than the client takes them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use futures::Stream;
use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, ReadBuf};

use super::through::writes_through;

/// At most this many bytes are read before all messages are taken. The rest waits in the server when the
/// socket is full.
const READ_AHEAD: usize = 64 << 10;

/// The place where the reader of a stream waits for the taker of its messages.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// The bytes that were read since the taker last found no message.
    read: AtomicUsize,
    reader: AtomicWaker,
    taker: AtomicWaker,
}

impl Gate {
    /// A stream whose reader waits at the gate.
    pub(super) fn before<S>(self: &Arc<Self>, stream: S) -> Gated<S> {
        Gated { stream, gate: Arc::clone(self) }
    }

    /// Takes the next message, and opens the gate when there is none. The task that polls must be
    /// unconstrained: a pause for its budget would look as if there were no message.
    pub(super) async fn take<M>(
        &self,
        messages: &mut (impl Stream<Item = M> + Unpin),
    ) -> Option<M> {
        std::future::poll_fn(|context| {
            // The reader closes the gate before it wakes the taker, and the taker is registered by then.
            self.taker.register(context.waker());
            let next = Pin::new(&mut *messages).poll_next(context);
            if next.is_pending() {
                self.read.store(0, Ordering::Release);
                self.reader.wake();
            }
            next
        })
        .await
    }

    fn is_closed(&self) -> bool {
        self.read.load(Ordering::Acquire) >= READ_AHEAD
    }

    fn poll_open(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_closed() {
            self.reader.register(context.waker());
            if self.is_closed() {
                // The bytes may be the beginning of a message, for which nothing else wakes the taker.
                self.taker.wake();
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }
}

/// A stream behind a gate.
pub(super) struct Gated<S> {
    stream: S,
    gate: Arc<Gate>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Gated<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.gate.poll_open(context));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.gate.read.fetch_add(buffer.filled().len() - before, Ordering::AcqRel);
        Poll::Ready(Ok(()))
    }
}

writes_through!(Gated);

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::sync::mpsc;
    use tokio::task::coop::unconstrained;

    use super::*;

    /// Reads everything that comes, into a queue without a bound.
    fn queue(mut stream: Gated<tokio::io::DuplexStream>) -> mpsc::UnboundedReceiver<usize> {
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut buffer = vec![0; 8 << 10];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                let _ = sender.send(count);
            }
        });
        receiver
    }

    #[tokio::test]
    async fn no_more_is_read_than_is_taken() {
        let (mut server, client) = tokio::io::duplex(1 << 10);
        let gate = Arc::new(Gate::default());
        let mut queue = queue(gate.before(client));
        let total = 16 * READ_AHEAD;
        let sending = tokio::spawn(async move {
            for _ in 0..total >> 10 {
                server.write_all(&[0; 1 << 10]).await.unwrap();
            }
            server
        });
        while gate.read.load(Ordering::SeqCst) < READ_AHEAD {
            tokio::task::yield_now().await;
        }
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let is_in_queue = queue.len() * (1 << 10);
        assert!(!sending.is_finished() && is_in_queue < 2 * READ_AHEAD, "{is_in_queue}");
        let mut messages = futures::stream::poll_fn(|context| queue.poll_recv(context)).boxed();
        let taking = unconstrained(async {
            let mut taken = 0;
            while taken < total {
                taken += gate.take(&mut messages).await.unwrap();
            }
            taken
        });
        assert_eq!(taking.await, total);
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn a_message_that_is_longer_than_what_is_read_at_once_comes_through() {
        let (mut server, client) = tokio::io::duplex(1 << 10);
        let gate = Arc::new(Gate::default());
        let (mut stream, total) = (gate.before(client), 4 * READ_AHEAD);
        let (sender, mut receiver) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut message = vec![0; total];
            stream.read_exact(&mut message).await.unwrap();
            let _ = sender.send(message.len());
            std::future::pending::<()>().await;
        });
        tokio::spawn(async move {
            server.write_all(&vec![0; total]).await.unwrap();
            std::future::pending::<()>().await;
        });
        let mut messages = futures::stream::poll_fn(|context| receiver.poll_recv(context)).boxed();
        assert_eq!(unconstrained(gate.take(&mut messages)).await, Some(total));
    }
}
