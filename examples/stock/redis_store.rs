//! The stock as a plain key on a Redis server.

use std::sync::LazyLock;

use lock_core::FencingToken;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Script};

use crate::AnyError;

/// Fencing at the resource, which checks the token and accesses the data in one step.
///
/// Tokens are compared as text, and a longer token is higher. A number in a script is a double,
/// which cannot represent every `u64`.
static FENCED: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "-- KEYS: what is left, the highest token. ARGV: the token; to write, what is left.
         -- Reply: what is left, or nil if the token is stale.
         local token = ARGV[1]
         local highest = redis.call('GET', KEYS[2]) or ''
         if #token < #highest or (#token == #highest and token < highest) then
           return nil
         end
         redis.call('SET', KEYS[2], token)
         if ARGV[2] then
           redis.call('SET', KEYS[1], ARGV[2])
         end
         return redis.call('GET', KEYS[1])",
    )
});

#[derive(Clone)]
pub(crate) struct RedisStore {
    connection: MultiplexedConnection,
    left: String,
    highest: String,
}

impl RedisStore {
    /// The store of one run of the example. Braces keep its keys together on a cluster.
    pub(crate) async fn connect(url: &str, run: &str) -> Result<Self, AnyError> {
        let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        let [left, highest] = ["left", "token"].map(|what| format!("{{{run}}}:{what}"));
        Ok(Self { connection, left, highest })
    }

    pub(crate) async fn fill(&self, stock: u32) -> Result<(), AnyError> {
        Ok(self.connection.clone().set(&self.left, stock).await?)
    }

    pub(crate) async fn clear(&self) -> Result<(), AnyError> {
        Ok(self.connection.clone().del(&[&self.left, &self.highest]).await?)
    }

    pub(crate) async fn read(&self, token: Option<FencingToken>) -> Result<Option<u32>, AnyError> {
        match token {
            Some(token) => self.fenced(token, None).await,
            None => Ok(Some(self.connection.clone().get(&self.left).await?)),
        }
    }

    pub(crate) async fn write(
        &self,
        left: u32,
        token: Option<FencingToken>,
    ) -> Result<bool, AnyError> {
        match token {
            Some(token) => Ok(self.fenced(token, Some(left)).await?.is_some()),
            None => Ok(self.connection.clone().set(&self.left, left).await?),
        }
    }

    async fn fenced(
        &self,
        token: FencingToken,
        write: Option<u32>,
    ) -> Result<Option<u32>, AnyError> {
        let mut access = FENCED.key(&self.left);
        access.key(&self.highest).arg(token.get());
        if let Some(left) = write {
            access.arg(left);
        }
        Ok(access.invoke_async(&mut self.connection.clone()).await?)
    }
}
