//! What is compared.

use std::error::Error;

/// Why a contestant could not do what it was asked.
pub type Failure = Box<dyn Error + Send + Sync>;

/// One way to lock a key: a client of some library, connected.
pub trait Contestant: Send + Sync + 'static {
    /// What an app would keep for a key that it locks again and again.
    type Key: Send + Sync + 'static;

    /// The commands that its scripts call on the server, in lower case.
    ///
    /// The server counts them like those that came over the network, which are the ones of interest.
    const INNER: &'static [&'static str];

    /// Gets ready to lock the key of this name. Sends nothing.
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

    /// The same, beside others who do this at the same time: for a section that only reads.
    ///
    /// A lock that does not know the difference locks.
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

    /// Waits for what goes on although the future that asked for it was dropped.
    fn settled(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}
