//! The source of the locks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, Fixed};
use lock_sync::{Mutex, RwLock, Semaphore};

use super::kind::Kind;
use super::lock::Lock;
use super::store::Store;

/// The locks, and the mutexes whose lease may be kept between two holders.
pub(crate) struct Shelf {
    store: Store,
    cache: Option<Duration>,
    /// A kept lease goes with its mutex. Without kept leases the list is empty.
    mutexes: HashMap<String, Arc<Mutex<()>>>,
}

impl Shelf {
    pub(crate) fn new(store: Store, cache: Option<Duration>) -> Self {
        Self { store, cache, mutexes: HashMap::new() }
    }

    pub(crate) fn lock(&mut self, key: &str, kind: Kind) -> Result<Lock, Error> {
        Ok(match kind {
            Kind::Mutex => Lock::Mutex(self.mutex(key)?),
            Kind::Read => Lock::Read(self.rwlock(key)?),
            Kind::Write => Lock::Write(self.rwlock(key)?),
            Kind::Upgradable => Lock::Upgradable(self.rwlock(key)?),
            Kind::Permits(count, of) => Lock::Permits(self.semaphore(key, of)?, count),
            Kind::As(passed) => {
                let (mutex, owner) = self.store.reentrant_mutex(key, &passed)?;
                Lock::Owned(mutex, Some(owner))
            }
        })
    }

    pub(crate) fn mutex(&mut self, key: &str) -> Result<Arc<Mutex<()>>, Error> {
        if let Some(mutex) = self.mutexes.get(key) {
            return Ok(Arc::clone(mutex));
        }
        let mutex = self.store.mutex(key)?;
        let Some(idle) = self.cache else { return Ok(Arc::new(mutex)) };
        let mutex = Arc::new(mutex.with_cache(idle));
        self.mutexes.insert(key.to_owned(), Arc::clone(&mutex));
        Ok(mutex)
    }

    pub(crate) fn rwlock(&self, key: &str) -> Result<RwLock<()>, Error> {
        self.store.rwlock(key)
    }

    pub(crate) fn fixed_rwlock(&self, key: &str) -> Result<RwLock<(), Fixed>, Error> {
        self.store.fixed_rwlock(key)
    }

    pub(crate) fn semaphore(&self, key: &str, of: u32) -> Result<Semaphore, Error> {
        self.store.semaphore(key, of)
    }

    /// Whether a lease is kept while the lock is free.
    pub(crate) fn is_cached(&self, key: &str) -> bool {
        self.mutexes.get(key).is_some_and(|mutex| mutex.is_cached())
    }
}
