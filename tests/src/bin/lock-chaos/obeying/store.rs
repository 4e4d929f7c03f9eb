//! The store of the locks: one of any kind, or a quorum of several servers.

use lock_core::{Error, ErrorKind, Fixed};
use lock_redis::RedisBackend;
use lock_redlock::Redlock;
use lock_sync::{Locks, Mutex, Owner, PassedOwner, ReentrantMutex, RwLock, Semaphore};

pub(crate) enum Store {
    /// A store that serves every kind of lock.
    Server(Locks),
    Quorum(Locks<Redlock<RedisBackend>>),
}

impl Store {
    pub(crate) fn mutex(&self, key: &str) -> Result<Mutex<()>, Error> {
        match self {
            Self::Server(locks) => locks.mutex(key, ()),
            Self::Quorum(locks) => locks.mutex(key, ()),
        }
    }

    /// A lock whose readers can become writers.
    pub(crate) fn rwlock(&self, key: &str) -> Result<RwLock<()>, Error> {
        match self {
            Self::Server(locks) => locks.rwlock(key, ()),
            Self::Quorum(_) => Err(lacking("a quorum does not convert leases")),
        }
    }

    /// The plain lock, as every store has one.
    pub(crate) fn fixed_rwlock(&self, key: &str) -> Result<RwLock<(), Fixed>, Error> {
        match self {
            Self::Server(locks) => Ok(locks.rwlock(key, ())?.without_upgrades()),
            Self::Quorum(locks) => locks.rwlock(key, ()),
        }
    }

    /// A mutex, and the owner that enters it.
    pub(crate) fn reentrant_mutex(
        &self,
        key: &str,
        passed: &PassedOwner,
    ) -> Result<(ReentrantMutex<()>, Owner), Error> {
        match self {
            Self::Server(locks) => Ok((locks.reentrant_mutex(key, ())?, locks.owner(passed)?)),
            Self::Quorum(_) => Err(lacking("a quorum has no joint holders")),
        }
    }

    pub(crate) fn semaphore(&self, key: &str, of: u32) -> Result<Semaphore, Error> {
        match self {
            Self::Server(locks) => locks.semaphore(key, of as usize),
            Self::Quorum(_) => Err(lacking("a quorum has no semaphore that counts")),
        }
    }
}

fn lacking(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, what.to_owned())
}
