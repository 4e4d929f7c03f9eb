//! A store that can only read and swap rows. The tests of `lock-sync` use it, too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::document::{DocumentStore, Row};
use lock_core::{Clock, Key, Result};

/// Rows whose versions are the rows themselves.
#[derive(Clone, Default)]
pub(crate) struct Table(pub(crate) Arc<Mutex<HashMap<Key, Vec<u8>>>>);

#[async_trait]
impl DocumentStore for Table {
    type Version = Option<Vec<u8>>;

    async fn read(&self, key: &Key) -> Result<Row<Self::Version>> {
        let bytes = self.0.lock().expect("no test panics here").get(key).cloned();
        tokio::task::yield_now().await;
        Ok(Row { version: bytes.clone(), bytes, time: self.clock().now() })
    }

    async fn swap(&self, key: &Key, seen: &Self::Version, row: Vec<u8>) -> Result<bool> {
        tokio::task::yield_now().await;
        let mut rows = self.0.lock().expect("no test panics here");
        let is_as_seen = rows.get(key) == seen.as_ref();
        if is_as_seen {
            rows.insert(key.clone(), row);
        }
        Ok(is_as_seen)
    }

    async fn rest(&self) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }
}
