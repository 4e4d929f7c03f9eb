//! `tokio::sync::Semaphore`: the floor for everything inside one process.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::contestants::local::Shelf;
use crate::{Contestant, Failure};

/// `tokio::sync::Semaphore`, one for each name.
#[derive(Debug)]
pub struct Local {
    permits: u32,
    semaphores: Shelf<Semaphore>,
}

impl Local {
    /// The number of permits of each semaphore.
    pub fn new(permits: u32) -> Self {
        Self { permits, semaphores: Shelf::default() }
    }
}

impl Contestant for Local {
    type Key = Arc<Semaphore>;

    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(self.semaphores.get(name, || Semaphore::new(self.permits as usize)))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let permit = key.acquire().await?;
        section.await;
        drop(permit);
        Ok(())
    }
}
