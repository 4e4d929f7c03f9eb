//! A task's connection to the resource.

use std::io;
use std::path::Path;

use lock_core::{FencingToken, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::words::Word;
use crate::chaos::history::Way;

/// A task's connection to the resource. Its end is that of everything the task was in.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the resource that listens at `path`.
    ///
    /// # Errors
    ///
    /// If nobody does.
    pub async fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self { stream: BufReader::new(UnixStream::connect(path).await?) })
    }

    /// Comes in as somebody who holds the lock, or says in which way and until when it holds it now. Does not
    /// wait for anything, unless the resource is slow to listen.
    ///
    /// # Errors
    ///
    /// If the resource is gone.
    ///
    /// # Cancel safety
    ///
    /// None: this client is of no use afterwards.
    pub async fn enter(
        &mut self,
        key: &str,
        way: Way,
        token: FencingToken,
        valid_until: Instant,
    ) -> io::Result<()> {
        self.say(Word::Enter { key: key.to_owned(), way, token, valid_until }).await
    }

    /// Writes, and returns whether the resource took it. By then it has heard all that was said before.
    ///
    /// # Errors
    ///
    /// If the resource is gone.
    ///
    /// # Cancel safety
    ///
    /// None: this client is of no use afterwards.
    pub async fn write(&mut self, key: &str, token: FencingToken) -> io::Result<bool> {
        self.say(Word::Write { key: key.to_owned(), token }).await?;
        self.answer().await
    }

    /// Goes out, and returns when the resource has heard it, so that nobody is met who comes afterwards. To be
    /// said before the lock is let go. If a task is dropped instead, its client has to be dropped before its
    /// guard.
    ///
    /// # Errors
    ///
    /// If the resource is gone.
    ///
    /// # Cancel safety
    ///
    /// None: this client is of no use afterwards.
    pub async fn leave(&mut self, key: &str) -> io::Result<()> {
        self.say(Word::Leave { key: key.to_owned() }).await?;
        self.answer().await.map(drop)
    }

    async fn answer(&mut self) -> io::Result<bool> {
        let mut answer = String::new();
        self.stream.read_line(&mut answer).await?;
        answer.trim_end().parse().map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))
    }

    async fn say(&mut self, word: Word) -> io::Result<()> {
        self.stream.write_all(format!("{word}\n").as_bytes()).await
    }
}
