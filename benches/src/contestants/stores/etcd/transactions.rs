//! The least that a lock in etcd must do.

use super::wire::{Bare, Compare, Operation, Transaction};
use crate::{Contestant, Failure};

/// Two transactions for one key over one connection, with one lease for all keys: put the key if it is not there, and
/// delete the key if it is there.
#[derive(Debug)]
pub(super) struct Transactions {
    client: Bare,
    lease: i64,
}

impl Transactions {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let client = Bare::connect(url).await?;
        let lease = client.lease().await?;
        Ok(Self { client, lease })
    }
}

impl Contestant for Transactions {
    type Key = String;

    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(format!("floor/{name}"))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let name = key.as_bytes();
        let change = |was_there, change| {
            let (compare, success) = (vec![Compare::is_there(name, was_there)], vec![change]);
            self.client.transact(Transaction { compare, success, failure: Vec::new() })
        };
        change(false, Operation::put(name, &[7; 16], self.lease)).await?;
        section.await;
        change(true, Operation::delete(name)).await.map(drop)
    }
}
