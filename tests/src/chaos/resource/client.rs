//! A task's connection to the resource.

use std::io;
use std::path::Path;

use lock_core::FencingToken;
use rustix::net::{SendFlags, send};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::desk::Guest;
use super::words::Word;

/// A task's connection to the resource. When it is dropped, the task is no longer inside. When the process is
/// killed, the task stays inside until its leases have ended.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the resource that listens at `path`.
    ///
    /// # Errors
    ///
    /// If no resource listens.
    pub async fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self { stream: BufReader::new(UnixStream::connect(path).await?) })
    }

    /// Enters as a holder of the lock, or reports the present way and end of the hold. Waits for nothing, unless
    /// the resource is slow to read.
    ///
    /// # Errors
    ///
    /// If the resource is gone.
    ///
    /// # Cancel safety
    ///
    /// None: this client is of no use afterwards.
    pub async fn enter(&mut self, key: &str, guest: Guest) -> io::Result<()> {
        self.say(Word::Enter { key: key.to_owned(), guest }).await
    }

    /// Writes, and returns whether the resource accepted it. By then the resource has read everything that came
    /// before.
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

    /// Leaves, and returns when the resource knows, so that no later holder meets this task. To be called before
    /// the release. If a task is dropped instead, its client must be dropped before its guard.
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

    #[cfg(test)]
    pub(super) async fn begin_to_say(&mut self, half: &str) {
        self.stream.write_all(half.as_bytes()).await.unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // After the present message. Not by the runtime, which may be what is dropped. A resource that has stopped
        // reading need not know.
        let bye = format!("\n{}\n", Word::Bye);
        _ = send(self.stream.get_ref(), bye.as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}
