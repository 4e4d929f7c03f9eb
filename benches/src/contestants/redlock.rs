//! The crate `redlock`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redlock::RedLock;
use tokio::runtime::Handle;
use tokio::sync::RwLock;
use tokio::task::spawn_blocking;

use super::LEASE;
use crate::{Contestant, Failure};

/// `redlock`, which blocks: each pass has a thread of `spawn_blocking`. It opens two connections to each
/// server for each pass, asks one after another, does not renew, and tries again after up to 200 ms.
pub struct Redlock {
    manager: Arc<RedLock>,
    /// Read while a thread is at work.
    at_work: Arc<RwLock<()>>,
}

impl Redlock {
    /// Connects whenever it is used.
    ///
    /// # Panics
    ///
    /// If the URL makes no sense: the library does.
    pub fn connect(url: &str) -> Self {
        Self::quorum(&[url.to_owned()])
    }

    /// Connects to several servers whenever it is used.
    ///
    /// # Panics
    ///
    /// If a URL makes no sense: the library does.
    pub fn quorum(urls: &[String]) -> Self {
        Self { manager: Arc::new(RedLock::new(urls.to_vec())), at_work: Arc::default() }
    }

    /// Tries again without a delay.
    #[must_use]
    pub fn impatient(mut self) -> Self {
        let mut manager = RedLock::clone(&self.manager);
        // A random delay below one millisecond, in whole milliseconds. A limit of zero would panic.
        manager.set_retry(3, 1);
        self.manager = Arc::new(manager);
        self
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock").finish_non_exhaustive()
    }
}

impl Contestant for Redlock {
    type Key = String;

    const INNER: &'static [&'static str] = &["get", "del"];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(format!("redlock:{name}"))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let manager = Arc::clone(&self.manager);
        let at_work = Arc::clone(&self.at_work).read_owned().await;
        let end = Abandoned::default();
        let (key, abandoned, runtime) = (key.clone(), Arc::clone(&end.0), Handle::current());
        spawn_blocking(move || {
            let _at_work = at_work;
            // Like `acquire`, but it stops once no task waits for it any more.
            while !abandoned.load(Ordering::Relaxed) {
                if let Some(lock) = manager.lock(key.as_bytes(), LEASE.as_millis() as usize)? {
                    runtime.block_on(section);
                    manager.unlock(&lock);
                    break;
                }
            }
            Ok(())
        })
        .await?
    }

    async fn settled(&self) {
        drop(self.at_work.write().await);
    }
}

/// Tells the thread that no task waits for it any more.
#[derive(Default)]
struct Abandoned(Arc<AtomicBool>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
