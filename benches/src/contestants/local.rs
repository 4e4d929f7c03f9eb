//! `tokio::sync::Mutex`: the floor for everything inside one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Contestant, Failure};

/// `tokio::sync::Mutex`, one for each name.
#[derive(Debug, Default)]
pub struct Local {
    mutexes: Shelf<tokio::sync::Mutex<()>>,
}

impl Contestant for Local {
    type Key = Arc<tokio::sync::Mutex<()>>;

    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(self.mutexes.get(name, tokio::sync::Mutex::default))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let guard = key.lock().await;
        section.await;
        drop(guard);
        Ok(())
    }
}

/// A lock for each name.
#[derive(Debug)]
pub(super) struct Shelf<L>(Mutex<HashMap<String, Arc<L>>>);

impl<L> Shelf<L> {
    /// The lock of this name, made now if there is none.
    pub(super) fn get(&self, name: &str, make: impl FnOnce() -> L) -> Arc<L> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(locks.entry(name.to_owned()).or_insert_with(|| Arc::new(make())))
    }
}

impl<L> Default for Shelf<L> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
