//! `tokio::sync::Mutex`: the floor for everything inside one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Contestant, Failure};

/// `tokio::sync::Mutex`, one for each name.
#[derive(Debug, Default)]
pub struct Local {
    mutexes: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Contestant for Local {
    type Key = Arc<tokio::sync::Mutex<()>>;

    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        let mut mutexes = self.mutexes.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(mutexes.entry(name.to_owned()).or_default()))
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
