//! The database of the shop: in this process, or on a Redis server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::FencingToken;
use lock_examples::AnyError;

use crate::redis_store::RedisStore;

/// How many pieces are left, as the customers see it. A read is atomic and so is a write, but not both together.
///
/// The holder of the lock sends the fencing token of its guard with each write, and the database remembers the highest
/// token. Once a holder has written, no earlier holder can.
#[derive(Clone)]
pub(crate) enum Store {
    Memory(Arc<Mutex<Shelf>>),
    Redis(RedisStore),
}

pub(crate) struct Shelf {
    left: u32,
    highest: FencingToken,
}

impl Store {
    pub(crate) fn in_memory(stock: u32) -> Self {
        let shelf = Shelf { left: stock, highest: FencingToken::new(0) };
        Self::Memory(Arc::new(Mutex::new(shelf)))
    }

    /// The pieces that are left.
    pub(crate) async fn read(&self) -> Result<u32, AnyError> {
        match self {
            Self::Memory(shelf) => Ok(open(shelf).left),
            Self::Redis(store) => store.read().await,
        }
    }

    /// Sets the number of pieces that are left. Returns `false`, and sets nothing, if the token is stale.
    pub(crate) async fn write(
        &self,
        left: u32,
        token: Option<FencingToken>,
    ) -> Result<bool, AnyError> {
        match self {
            Self::Memory(shelf) => Ok(open(shelf).write(left, token)),
            Self::Redis(store) => store.write(left, token).await,
        }
    }
}

impl Shelf {
    fn write(&mut self, left: u32, token: Option<FencingToken>) -> bool {
        let token = token.unwrap_or(self.highest);
        let is_current = token >= self.highest;
        if is_current {
            (self.left, self.highest) = (left, token);
        }
        is_current
    }
}

fn open(shelf: &Mutex<Shelf>) -> MutexGuard<'_, Shelf> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use lock_tests::RedisServer;

    use super::*;

    async fn refuses_stale_tokens(store: Store) {
        let token = |number| Some(FencingToken::new(number));
        assert_eq!(store.read().await.unwrap(), 5);
        assert!(store.write(4, token(7)).await.unwrap());
        assert!(store.write(3, token(10)).await.unwrap());
        for stale in [7, 9] {
            assert!(!store.write(8, token(stale)).await.unwrap());
        }
        assert!(store.write(2, token(10)).await.unwrap());
        assert_eq!(store.read().await.unwrap(), 2);
        assert!(store.write(9, None).await.unwrap());
        assert_eq!(store.read().await.unwrap(), 9);
        assert!(!store.write(8, token(9)).await.unwrap());
    }

    #[tokio::test]
    async fn the_store_in_memory_refuses_stale_tokens() {
        refuses_stale_tokens(Store::in_memory(5)).await;
    }

    #[tokio::test]
    async fn the_store_on_redis_refuses_stale_tokens() {
        let server = RedisServer::start();
        let store = RedisStore::connect(&server.url(), "test").await.unwrap();
        store.fill(5).await.unwrap();
        refuses_stale_tokens(Store::Redis(store.clone())).await;
        store.clear().await.unwrap();
        assert!(server.keys("*").is_empty());
    }
}
