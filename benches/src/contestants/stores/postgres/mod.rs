//! One PostgreSQL server: as it is by default, and on a disk that takes no time.

mod advisory;
mod updates;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use lock_core::AnyBackend;
use lock_postgres::PostgresBackend;
use lock_tests::PostgresServer;
use tokio_postgres::{Client, NoTls};

use self::advisory::Advisory;
use self::updates::Updates;
use super::{Deployment, Reach, Rival, Store, set_up};
use crate::{Entrant, Failure, Meter, Site};

pub(super) const STORE: Store = Store {
    name: "PostgreSQL",
    reach: Reach::Machines,
    has_fast_disk: false,
    rivals: &[updates("two UPDATEs"), advisory("advisory locks")],
    start: || start(PostgresServer::durable()),
    open,
};

/// The same on a disk that answers at once, for which the server without `fsync` stands. What is left is the work of
/// the processors.
pub(super) const FAST_DISK: Store = Store {
    name: "PostgreSQL, fast disk",
    reach: Reach::Machines,
    has_fast_disk: true,
    rivals: &[updates("two UPDATEs, fast disk")],
    start: || start(PostgresServer::with(&["fsync=off"])),
    open,
};

/// Two statements that change one row and wait for the disk.
const fn updates(name: &'static str) -> Rival {
    Rival {
        name,
        is_floor: true,
        waits: false,
        most: usize::MAX,
        open: |name, url, clients| {
            async move { Ok(entrants!(name, clients, Updates::connect(&url).await?)) }.boxed()
        },
    }
}

/// What most libraries for PostgreSQL do.
const fn advisory(name: &'static str) -> Rival {
    Rival {
        name,
        is_floor: false,
        waits: true,
        // Each caller has a connection, and the server of the kit allows 400.
        most: 128,
        open: |name, url, clients| {
            async move { Ok(entrants!(name, clients, Advisory::open(&url)?)) }.boxed()
        },
    }
}

fn start(server: PostgresServer) -> Result<Arc<dyn Site>, Failure> {
    let url = server.url("postgres");
    set_up(async {
        PostgresBackend::open(&url)?.init().await?;
        updates::init(&url).await
    })?;
    let meters = vec![Meter::of_process(server.pid())];
    Ok(Arc::new(Deployment { url, meters, _servers: server }))
}

fn open(url: String) -> BoxFuture<'static, Result<AnyBackend, Failure>> {
    async move { Ok(AnyBackend::new(PostgresBackend::open(url)?)) }.boxed()
}

/// A connection. It works on the present runtime, until the client is dropped.
async fn connect(config: &tokio_postgres::Config) -> Result<Client, Failure> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(async move {
        // An error reaches each statement that fails by it.
        _ = connection.await;
    });
    Ok(client)
}
