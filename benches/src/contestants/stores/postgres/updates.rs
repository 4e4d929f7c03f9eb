//! The least that a lock in a table must do.

use std::collections::HashSet;
use std::fmt;

use tokio::sync::Mutex;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::connect;
use crate::{Contestant, Failure};

/// Each row has room for its next version beside it, as the rows of lock-postgres have.
const TABLE: &str = "CREATE TABLE floor (name text PRIMARY KEY, owner text) WITH (fillfactor = 50)";
const ROW: &str = "INSERT INTO floor (name) VALUES ($1) ON CONFLICT DO NOTHING";
const TAKE: &str = "UPDATE floor SET owner = $2 WHERE name = $1";
const LEAVE: &str = "UPDATE floor SET owner = NULL WHERE name = $1";

/// Two UPDATE statements for one row, each a transaction that waits for the disk, on one connection.
///
/// The statements have no names, as those of lock-postgres, which have to work behind a pooler. This is no lock:
/// nothing looks at the owner.
pub(super) struct Updates {
    client: Client,
    /// The rows that exist.
    rows: Mutex<HashSet<String>>,
}

/// Creates the table.
pub(super) async fn init(url: &str) -> Result<(), Failure> {
    Ok(connect(&url.parse()?).await?.batch_execute(TABLE).await?)
}

impl Updates {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self { client: connect(&url.parse()?).await?, rows: Mutex::default() })
    }

    async fn prepare(&self, name: &str) -> Result<(), Failure> {
        let mut rows = self.rows.lock().await;
        if !rows.contains(name) {
            self.client.execute_typed(ROW, &[(&name, Type::TEXT)]).await?;
            rows.insert(name.to_owned());
        }
        Ok(())
    }
}

impl fmt::Debug for Updates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Updates").finish_non_exhaustive()
    }
}

impl Contestant for Updates {
    type Key = String;

    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(name.to_owned())
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        self.prepare(key).await?;
        let owner = "0123456789abcdef0123456789abcdef";
        let values: [(&(dyn ToSql + Sync), Type); 2] = [(key, Type::TEXT), (&owner, Type::TEXT)];
        if self.client.execute_typed(TAKE, &values).await? != 1 {
            return Err("there is no such row".into());
        }
        section.await;
        match self.client.execute_typed(LEAVE, &[(key, Type::TEXT)]).await? {
            1 => Ok(()),
            _ => Err("the row is gone".into()),
        }
    }
}
