//! Several servers.

use std::sync::Arc;
use std::time::Duration;

use lock_tests::{CommandStats, Direction, Proxy, RedisServer};

use crate::{ServerLoad, cpu};

/// Several servers, some of which may be gone.
#[derive(Debug)]
pub struct Fleet {
    servers: Vec<Arc<RedisServer>>,
    /// The proxies before the servers, if they are far away.
    proxies: Vec<Proxy>,
    /// How many servers are left. They are the first ones.
    living: usize,
    stopped: Vec<Arc<RedisServer>>,
}

/// The cost of an action besides time.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Cost {
    /// How many commands the living servers received over the network.
    pub commands: u64,
    /// The processor time of this process.
    pub client: Duration,
    /// The processor time of all living servers together.
    pub servers: Duration,
}

impl Fleet {
    /// This many new servers.
    ///
    /// # Panics
    ///
    /// If one does not start.
    pub fn start(servers: usize) -> Self {
        Self {
            servers: (0..servers).map(|_| Arc::new(RedisServer::start())).collect(),
            proxies: Vec::new(),
            living: servers,
            stopped: Vec::new(),
        }
    }

    /// This many new servers, so far away that a message takes this long in each direction, and a little more.
    ///
    /// # Panics
    ///
    /// If one does not start.
    pub fn far(servers: usize, distance: Duration) -> Self {
        let mut fleet = Self::start(servers);
        fleet.proxies = fleet.servers.iter().map(|server| Proxy::before(server)).collect();
        for proxy in &fleet.proxies {
            proxy.delay(Direction::ToServer, distance);
            proxy.delay(Direction::ToClient, distance);
        }
        fleet
    }

    /// The addresses of all servers.
    pub fn urls(&self) -> Vec<String> {
        if self.proxies.is_empty() {
            self.servers.iter().map(|server| server.url()).collect()
        } else {
            self.proxies.iter().map(Proxy::url).collect()
        }
    }

    /// The servers that are left.
    pub fn living(&self) -> &[Arc<RedisServer>] {
        &self.servers[..self.living]
    }

    /// Stops one more server. It keeps its connections but no longer answers.
    ///
    /// # Panics
    ///
    /// If none is left.
    pub fn stop_one(&mut self) {
        self.living -= 1;
        let server = &self.servers[self.living];
        server.stop();
        self.stopped.push(Arc::clone(server));
    }

    /// Lets the stopped servers go on. They do not count as living again.
    pub fn revive(&mut self) {
        self.stopped.drain(..).for_each(|server| server.cont());
    }

    /// Kills one more server.
    ///
    /// # Panics
    ///
    /// If none is left.
    pub fn kill_one(&mut self) {
        self.living -= 1;
        self.servers[self.living].kill();
    }

    /// Runs an action, and returns its cost. `sent` counts the commands that came over the network.
    pub fn cost<T>(
        &self,
        sent: impl Fn(&CommandStats) -> u64,
        work: impl FnOnce() -> T,
    ) -> (T, Cost) {
        let account = || self.living().iter().map(|it| (it.commandstats(), ServerLoad::of(it)));
        let before: Vec<_> = account().collect();
        let client = cpu::used();
        let done = work();
        let mut cost = Cost { client: cpu::used().saturating_sub(client), ..Cost::default() };
        for ((stats, load), (stats_before, load_before)) in account().zip(before) {
            cost.commands += sent(&stats.since(&stats_before));
            cost.servers += load.since(load_before).cpu;
        }
        (done, cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_are_counted() {
        let mut fleet = Fleet::start(3);
        fleet.stop_one();
        fleet.kill_one();
        let (living, cost) = fleet.cost(CommandStats::total, || {
            for server in fleet.living() {
                server.cli(&["SET", "a", "b"]);
            }
            fleet.living().len()
        });
        assert_eq!((living, cost.commands), (1, 1));
        assert_eq!(fleet.urls().len(), 3);
    }
}
