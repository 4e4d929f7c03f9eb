//! Five stores, each of which can fail on its own.

use std::path::Path;
use std::sync::Arc;

use lock_core::QuorumNode;
use lock_core::memory::MemoryBackend;
use lock_redis::RedisBackend;
use lock_tests::{RedisServer, find_redis_server};

use crate::AnyError;

const COUNT: usize = 5;

/// A store of any kind.
pub(crate) type Node = Arc<dyn QuorumNode>;

pub(crate) enum Nodes {
    Redis(Vec<RedisServer>),
    Memory(Vec<MemoryBackend>),
}

impl Nodes {
    /// Starts servers if the program can be found, and otherwise makes stores in this process.
    pub(crate) fn start() -> Self {
        match find_redis_server() {
            Ok(program) => Self::of_redis(&program),
            Err(missing) => {
                println!("{missing}. It goes without.");
                Self::of_memory()
            }
        }
    }

    pub(crate) fn of_redis(program: &Path) -> Self {
        let start = |_| RedisServer::builder().program(program).start();
        Self::Redis((0..COUNT).map(start).collect())
    }

    pub(crate) fn of_memory() -> Self {
        Self::Memory((0..COUNT).map(|_| MemoryBackend::new()).collect())
    }

    pub(crate) fn description(&self) -> &'static str {
        match self {
            Self::Redis(_) => "redis-server processes, started for this",
            Self::Memory(_) => "stores inside this process",
        }
    }

    /// The nodes with their names, for one client.
    pub(crate) fn connect(&self) -> Result<Vec<(String, Node)>, AnyError> {
        let mut nodes = Vec::new();
        for number in 0..COUNT {
            let node: Node = match self {
                Self::Redis(servers) => Arc::new(RedisBackend::open(servers[number].url())?),
                Self::Memory(stores) => Arc::new(stores[number].clone()),
            };
            nodes.push(((number + 1).to_string(), node));
        }
        Ok(nodes)
    }

    pub(crate) fn kill(&self, node: usize) {
        match self {
            Self::Redis(servers) => servers[node].kill(),
            Self::Memory(stores) => stores[node].faults().cut(),
        }
    }

    pub(crate) fn restart_empty(&self, node: usize) {
        match self {
            Self::Redis(servers) => servers[node].restart(),
            Self::Memory(stores) => {
                stores[node].forget();
                stores[node].restart();
                stores[node].faults().heal();
            }
        }
    }
}
