//! Where a store runs.

use lock_tests::RedisServer;

/// The servers of one deployment, as the benches see them. They run as long as this value lives.
pub trait Site: Send + Sync {
    /// The URL at which clients find the store.
    fn url(&self) -> String;

    /// The URLs of the [meters](crate::Meter::at) of all servers.
    fn meters(&self) -> Vec<String>;
}

impl Site for RedisServer {
    fn url(&self) -> String {
        self.url()
    }

    fn meters(&self) -> Vec<String> {
        vec![self.url()]
    }
}
