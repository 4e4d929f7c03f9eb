//! `tokio::sync::RwLock`: the floor for everything inside one process.

use std::sync::Arc;

use tokio::sync::RwLock;

use crate::contestants::local::Shelf;
use crate::{Contestant, Failure};

/// `tokio::sync::RwLock`, one for each name.
#[derive(Debug, Default)]
pub struct Local {
    locks: Shelf<RwLock<()>>,
}

impl Contestant for Local {
    type Key = Arc<RwLock<()>>;

    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(self.locks.get(name, RwLock::default))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let guard = key.write().await;
        section.await;
        drop(guard);
        Ok(())
    }

    async fn shared<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let guard = key.read().await;
        section.await;
        drop(guard);
        Ok(())
    }
}
