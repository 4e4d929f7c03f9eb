//! One of the processes.

use std::env;

use lock_examples::AnyError;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::wire;
use crate::buyer;
use crate::redis_store::RedisStore;
use crate::store::Store;

/// The orders of a child. They travel in the environment, where a password in the URL does not show
/// up in the list of processes.
pub(super) struct Orders {
    /// The store of the locks.
    pub(super) url: String,
    /// The server of the database.
    pub(super) store: String,
    pub(super) run: String,
    pub(super) stock: u32,
    pub(super) buyer: String,
    pub(super) wanted: u32,
    pub(super) lock: bool,
}

impl Orders {
    pub(super) fn give(&self, command: &mut Command) {
        command
            .env(lock_any::ENV, &self.url)
            .env("STOCK_STORE", &self.store)
            .env("STOCK_RUN", &self.run)
            .env("STOCK_SIZE", self.stock.to_string())
            .env("STOCK_BUYER", &self.buyer)
            .env("STOCK_WANTED", self.wanted.to_string())
            .env("STOCK_LOCK", self.lock.to_string());
    }

    fn receive() -> Result<Self, AnyError> {
        Ok(Self {
            url: var(lock_any::ENV)?,
            store: var("STOCK_STORE")?,
            run: var("STOCK_RUN")?,
            stock: var("STOCK_SIZE")?.parse()?,
            buyer: var("STOCK_BUYER")?,
            wanted: var("STOCK_WANTED")?.parse()?,
            lock: var("STOCK_LOCK")?.parse()?,
        })
    }
}

fn var(name: &str) -> Result<String, AnyError> {
    env::var(name).map_err(|error| format!("{name}: {error}; this is not for people to run").into())
}

/// Buys as a child of the process that gave the orders.
pub(crate) async fn buy() -> Result<(), AnyError> {
    let orders = Orders::receive()?;
    let store = Store::Redis(RedisStore::connect(&orders.store, &orders.run).await?);
    let locks = lock_any::connect(&orders.url).await?;
    let stock = orders.lock.then(|| locks.stored_mutex(orders.run.as_str(), orders.stock));
    let stock = stock.transpose()?;

    println!("ready");
    let mut stdin = BufReader::new(tokio::io::stdin()).lines();
    if stdin.next_line().await?.as_deref() != Some("go") {
        return Err("this is not for people to run".into());
    }
    let visits = buyer::shop(&orders.buyer, orders.wanted, &store, stock.as_ref()).await?;
    // The last guard was released by being dropped. Wait until that release has been sent.
    locks.shutdown().await;
    visits.iter().for_each(|visit| println!("{}", wire::line(visit)));
    Ok(())
}
