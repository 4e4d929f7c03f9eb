//! A stale writer: its lease is over, it does not know, and the database refuses its write.
//!
//! The locks and the stock are in one PostgreSQL database. Each sale checks its fencing token in its own transaction.
//! Until that transaction ends, the database grants the lock to no other owner.
//!
//! ```text
//! cargo run --example stale_writer        # starts a PostgreSQL server of its own
//! DATABASE_URL=postgres://app:secret@db.example/shop cargo run --example stale_writer
//! ```

#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;

use lock_core::ErrorKind;
use lock_examples::{AnyError, exit, fresh};
use lock_postgres::{PostgresBackend, fence};
use lock_sync::{Lease, Locks, MutexGuard};
use lock_tests::PostgresServer;
use tokio_postgres::{Client, NoTls};

#[tokio::main]
async fn main() -> ExitCode {
    exit(match env::var("DATABASE_URL") {
        Ok(url) => run(&url).await,
        Err(_) => {
            let server = PostgresServer::start();
            run(&server.url(&server.database())).await
        }
    })
}

/// Two clients sell one apple each. The lock of the first client is taken away while it still believes in its lease.
async fn run(url: &str) -> Result<(), AnyError> {
    PostgresBackend::open(url)?.init().await?;
    let (mut app, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    app.batch_execute("CREATE TEMPORARY TABLE stock AS SELECT 3 AS apples").await?;

    let name = fresh("apples");
    let [first, second] = [url, url].map(PostgresBackend::open);
    let [first, second] = [Locks::new(first?), Locks::new(second?)];
    let (ours, theirs) = (first.mutex(name.as_str(), ())?, second.mutex(name.as_str(), ())?);

    let stale = ours.lock().await?;
    let stale_lease = MutexGuard::lease(&stale);
    // As if the machine of the first client had been suspended: the lock ends, and the lease cannot know that yet.
    second.force_release(name.as_str()).await?;
    let guard = theirs.lock().await?;
    let lease = MutexGuard::lease(&guard);

    sell(&mut app, &lease).await?;
    println!("token {}: sold", lease.fencing_token());
    match sell(&mut app, &stale_lease).await {
        Err(error) if error.kind() == ErrorKind::NotHeld => {
            println!("token {}: refused: {error}", stale_lease.fencing_token());
        }
        other => return Err(format!("a stale writer was not refused: {other:?}").into()),
    }
    let left: i32 = app.query_one("SELECT apples FROM stock", &[]).await?.get(0);
    println!("{left} apples are left");
    if left != 2 {
        return Err("one apple was to be sold".into());
    }
    MutexGuard::release(guard).await?;
    Ok(())
}

/// Sells an apple, if the lease still holds the lock.
async fn sell(app: &mut Client, lease: &Lease) -> Result<(), lock_core::Error> {
    let broken = |error| lock_core::Error::with_source(ErrorKind::Other, "no sale", error);
    let sale = app.transaction().await.map_err(broken)?;
    fence::check(&sale, lease.fencing_tokens()).await?;
    sale.execute("UPDATE stock SET apples = apples - 1", &[]).await.map_err(broken)?;
    sale.commit().await.map_err(broken)
}

#[cfg(test)]
mod tests {
    use lock_tests::PostgresServer;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_database_refuses_the_stale_writer() {
        let server = PostgresServer::start();
        super::run(&server.url(&server.database())).await.unwrap();
    }
}
