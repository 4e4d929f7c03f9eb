//! Servers whose clocks can be set.

use std::cell::Cell;
use std::time::Duration;

use lock_tests::{RedisServerBuilder, ServerClock, eventually};

use super::{Nodes, SOON};

/// An hour, in milliseconds.
const HOUR: i64 = 3_600_000;

/// Servers, and a clock of each.
pub(crate) struct Clocks {
    pub(crate) nodes: Nodes,
    clocks: Vec<ServerClock>,
}

impl Clocks {
    pub(crate) async fn of(count: usize, max_ttl: Duration) -> Self {
        let clocks: Vec<_> = (0..count).map(|_| ServerClock::new()).collect();
        let number = Cell::new(0);
        let options =
            |server: RedisServerBuilder| clocks[number.replace(number.get() + 1)].options(server);
        let nodes = Nodes::with(count, max_ttl, options).await;
        Self { nodes, clocks }
    }

    /// Sets a clock forward by an hour from what it was at first, or back. Returns once its server tells that.
    pub(crate) fn set(&self, number: usize, forward: bool) {
        let (clock, server) = (&self.clocks[number], &self.nodes.servers()[number]);
        let millis = if forward { HOUR } else { -HOUR };
        clock.jump(server, millis - clock.ahead() / 1_000);
        eventually("the server has looked at its clock", SOON, || clock.is_told_by(server));
    }
}
