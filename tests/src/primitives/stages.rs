//! The stores over which the cases run.

use lock_core::Ttl;
use lock_core::memory::MemoryBackend;
use lock_redis::RedisBackend;
use lock_redlock::Redlock;

use super::{LONG, Stage};
use crate::RedisServer;

/// The reference store, in the memory of this process.
#[derive(Debug)]
pub struct Memory(MemoryBackend);

impl Stage for Memory {
    type Backend = MemoryBackend;

    async fn open() -> Self {
        Self(MemoryBackend::new())
    }

    async fn client(&self) -> MemoryBackend {
        self.0.client()
    }

    fn is_free(&self) -> bool {
        self.0.live_leases() == 0
    }
}

/// One server.
#[derive(Debug)]
pub struct OneServer(RedisServer);

impl Stage for OneServer {
    type Backend = RedisBackend;

    async fn open() -> Self {
        Self(RedisServer::start())
    }

    async fn client(&self) -> RedisBackend {
        RedisBackend::open(self.0.url()).unwrap()
    }

    fn is_free(&self) -> bool {
        is_free(&self.0)
    }
}

/// A quorum of three servers.
#[derive(Debug)]
pub struct QuorumOfThree([RedisServer; 3]);

impl Stage for QuorumOfThree {
    type Backend = Redlock<RedisBackend>;

    async fn open() -> Self {
        let stage = Self([(); 3].map(|()| RedisServer::start()));
        stage.client().await.init().await.unwrap();
        stage
    }

    async fn client(&self) -> Redlock<RedisBackend> {
        let nodes = self.0.iter().map(|server| RedisBackend::open(server.url()).unwrap());
        let quorum = Redlock::builder().nodes(nodes).max_ttl(Ttl::new(LONG).unwrap());
        quorum.build().await.unwrap()
    }

    fn is_free(&self) -> bool {
        self.0.iter().all(is_free)
    }
}

/// Whether no key on this server holds a lock. What a lock leaves behind has a name of its own.
fn is_free(server: &RedisServer) -> bool {
    let keys = server.keys("lock:{*");
    keys.iter().all(|key| [":state", ":limit", ":cell"].iter().any(|left| key.ends_with(left)))
}
