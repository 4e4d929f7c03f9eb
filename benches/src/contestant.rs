//! The contestants that the benches compare.

use std::error::Error;

/// The reason why a contestant failed.
pub type Failure = Box<dyn Error + Send + Sync>;

/// One way to lock a key: a client of some library, connected.
pub trait Contestant: Send + Sync + 'static {
    /// The value that an app would keep for a key that it locks again and again.
    type Key: Send + Sync + 'static;

    /// The commands that its scripts call on the server, in lower case.
    ///
    /// The server counts them like commands from the network, but the benches count only commands from the network.
    const INNER: &'static [&'static str];

    /// Prepares to lock the key of this name. Sends nothing.
    ///
    /// # Errors
    ///
    /// If the library refuses the name.
    fn key(&self, name: &str) -> Result<Self::Key, Failure>;

    /// Acquires the lock, waiting for it if it can, runs the section, and releases the lock.
    ///
    /// # Errors
    ///
    /// If the lock was not acquired, or a release that is awaited failed.
    ///
    /// # Cancel safety
    ///
    /// That of the library.
    fn locked<S>(
        &self,
        key: &Self::Key,
        section: S,
    ) -> impl Future<Output = Result<(), Failure>> + Send
    where
        S: Future<Output = ()> + Send + 'static;

    /// Acquires the lock for a section that only reads, which other readers may share, and releases it.
    ///
    /// A contestant without readers acquires the exclusive lock.
    ///
    /// # Errors
    ///
    /// As [`locked`](Self::locked).
    ///
    /// # Cancel safety
    ///
    /// That of the library.
    fn shared<S>(
        &self,
        key: &Self::Key,
        section: S,
    ) -> impl Future<Output = Result<(), Failure>> + Send
    where
        S: Future<Output = ()> + Send + 'static,
    {
        self.locked(key, section)
    }

    /// Waits for work that goes on although its future was dropped.
    fn settled(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}
