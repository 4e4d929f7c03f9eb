//! The store of the stock: in this process, or on a Redis server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::FencingToken;

use crate::AnyError;
use crate::redis_store::RedisStore;

/// A count that can be read and written. A read is atomic and so is a write, but not both together.
///
/// The holder of the lock sends the fencing token of its guard, with reads too, and the store
/// remembers the highest token. Once the store has answered a holder, no earlier holder can change the count.
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

    /// The pieces that are left; `None` if the token is stale.
    pub(crate) async fn read(&self, token: Option<FencingToken>) -> Result<Option<u32>, AnyError> {
        match self {
            Self::Memory(shelf) => Ok(open(shelf).read(token)),
            Self::Redis(store) => store.read(token).await,
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
    fn read(&mut self, token: Option<FencingToken>) -> Option<u32> {
        self.admit(token).then_some(self.left)
    }

    fn write(&mut self, left: u32, token: Option<FencingToken>) -> bool {
        let admitted = self.admit(token);
        if admitted {
            self.left = left;
        }
        admitted
    }

    fn admit(&mut self, token: Option<FencingToken>) -> bool {
        let token = token.unwrap_or(self.highest);
        self.highest = self.highest.max(token);
        token == self.highest
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
        assert_eq!(store.read(token(7)).await.unwrap(), Some(5));
        assert!(store.write(4, token(7)).await.unwrap());
        // The next holder has only read, and yet the store refuses the one before.
        assert_eq!(store.read(token(10)).await.unwrap(), Some(4));
        assert!(!store.write(3, token(7)).await.unwrap());
        assert_eq!(store.read(token(9)).await.unwrap(), None);
        assert!(store.write(3, token(10)).await.unwrap());
        assert_eq!(store.read(None).await.unwrap(), Some(3));
        assert!(store.write(9, None).await.unwrap());
        assert_eq!(store.read(token(10)).await.unwrap(), Some(9));
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
