//! Advisory locks, by which most libraries for PostgreSQL lock.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config};

use super::connect;
use crate::{Contestant, Failure};

/// The way of DistributedLock and other libraries: a session for each holder and for each waiter, in which
/// `pg_advisory_lock` waits for as long as it takes.
///
/// Sessions come from a pool. A session whose pass did not end properly is closed, and its lock with it. Such a lock
/// has no lease and no fencing token.
pub(super) struct Advisory {
    config: Config,
    idle: Mutex<Vec<Client>>,
}

impl Advisory {
    pub(super) fn open(url: &str) -> Result<Self, Failure> {
        Ok(Self { config: url.parse()?, idle: Mutex::default() })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn session(&self) -> Result<Client, Failure> {
        let idle = self.idle().pop();
        match idle {
            Some(client) => Ok(client),
            None => connect(&self.config).await,
        }
    }
}

impl fmt::Debug for Advisory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Advisory").finish_non_exhaustive()
    }
}

impl Contestant for Advisory {
    /// An advisory lock has a number instead of a name.
    type Key = i64;

    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        // Equal in all processes of one program.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Ok(hasher.finish().cast_signed())
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let client = self.session().await?;
        client.query_typed("SELECT pg_advisory_lock($1)", &[(key, Type::INT8)]).await?;
        section.await;
        let rows =
            client.query_typed("SELECT pg_advisory_unlock($1)", &[(key, Type::INT8)]).await?;
        let was_held = rows.first().ok_or("no answer")?.try_get(0)?;
        self.idle().push(client);
        if was_held { Ok(()) } else { Err("the lock was not held any more".into()) }
    }
}
