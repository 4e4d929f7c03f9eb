//! The owner of a reentrant lock.

use std::fmt;

use lock_core::{Error, Mode, OwnerToken};

/// The owner that holds a [`ReentrantMutex`](crate::ReentrantMutex), and may lock it again.
///
/// An owner is a secret of 128 bits: a party that knows the secret can enter all locks that the owner holds. An
/// owner belongs to no task, thread or process. It is not `Clone`, and locking borrows it mutably. So one owner is
/// not in two places at once by accident.
///
/// # Handing it to another process
///
/// An owner can be in two places on purpose. [`pass`](Self::pass) makes a text for another process, where
/// [`Locks::owner`](crate::Locks::owner) turns the text into an owner. The process that receives the owner enters
/// the locks that the sender holds, without waiting for the sender. Each lock is free when both processes have given
/// it up. So a service that holds a lock can call another service that needs the lock. The text is a secret.
///
/// This needs a backend with [joint holders](lock_core::JointBackend). Over other backends, such as a quorum,
/// [`Locks::owner`](crate::Locks::owner) does not compile: there, an owner enters again in its own process only.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, Owner, OwnerGuard};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = MemoryBackend::new();
/// let ours = Locks::new(store.client()).reentrant_mutex("orders/42", ())?;
/// let mut owner = Owner::new()?;
/// let mut guard = ours.lock_as(&mut owner).await?;
/// let message = guard.split().1.pass().expose();
///
/// // In another process, which received the message:
/// let locks = Locks::new(store.client());
/// let theirs = locks.reentrant_mutex("orders/42", ())?;
/// let mut sender = locks.owner(&message.parse()?)?;
/// let entered = theirs.lock_as(&mut sender).await?;
/// let token = |guard| OwnerGuard::lease(guard).fencing_token();
/// assert_eq!(token(&entered), token(&guard));
/// # Ok(())
/// # }
/// ```
pub struct Owner {
    token: OwnerToken,
}

impl Owner {
    /// Generates a new owner.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Other`](lock_core::ErrorKind) if the operating system gives no random bytes.
    pub fn new() -> Result<Self, Error> {
        OwnerToken::generate().map(Self::from_token)
    }

    pub(super) fn from_token(token: OwnerToken) -> Self {
        Self { token }
    }

    pub(super) fn token(&self) -> OwnerToken {
        self.token
    }
}

/// The mode in which an owner with this token holds a lock.
pub(super) fn mode(token: OwnerToken) -> Mode {
    Mode::Joint { group: token }
}

/// Does not show the secret.
impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(redacted)")
    }
}
