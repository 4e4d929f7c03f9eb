//! The database of the shop as plain keys on a Redis server.

use std::sync::LazyLock;

use lock_core::FencingToken;
use lock_examples::AnyError;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Script};

/// Fencing at the resource, which checks the token and writes in one step.
///
/// Tokens are compared as text, and a longer token is higher. A number in a script is a double,
/// which cannot represent every `u64`.
static FENCED: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "-- KEYS: what is left, the highest token. ARGV: what is left, the token. Reply: 0 if the token is stale, else 1.
         local highest = redis.call('GET', KEYS[2]) or ''
         if #ARGV[2] < #highest or (#ARGV[2] == #highest and ARGV[2] < highest) then
           return 0
         end
         redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[2])
         return 1",
    )
});

#[derive(Clone)]
pub(crate) struct RedisStore {
    connection: MultiplexedConnection,
    left: String,
    highest: String,
}

impl RedisStore {
    /// The database of one run of the example. Braces keep its keys together on a cluster.
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

    pub(crate) async fn read(&self) -> Result<u32, AnyError> {
        Ok(self.connection.clone().get(&self.left).await?)
    }

    pub(crate) async fn write(
        &self,
        left: u32,
        token: Option<FencingToken>,
    ) -> Result<bool, AnyError> {
        let mut connection = self.connection.clone();
        let Some(token) = token else {
            return Ok(connection.set(&self.left, left).await?);
        };
        let mut write = FENCED.key(&self.left);
        write.key(&self.highest).arg(left).arg(token.get());
        Ok(write.invoke_async(&mut connection).await?)
    }
}
