//! A quorum of real servers is a backend, and keeps the laws of one.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook};
use lock_core::{Error, Ttl};
use lock_tests::Proxy;

use crate::support::{Nodes, Quorum, builder};

/// Some servers, and for each client a proxy of its own before each of them.
struct Cluster {
    nodes: Nodes,
    /// By the name of the client's first node, which is the port of its proxy.
    ways: Mutex<HashMap<String, Vec<Proxy>>>,
}

impl Cluster {
    async fn of(count: usize) -> Self {
        let nodes = Nodes::shared(count).await;
        nodes.warm_up().await;
        Self { nodes, ways: Mutex::default() }
    }

    fn with_ways(&self, client: &Quorum, act: impl Fn(&Proxy)) {
        self.ways.lock().unwrap()[&first_way(client)].iter().for_each(act);
    }
}

/// The way of a client to its first node, which no other client has.
fn first_way(client: &Quorum) -> String {
    let (_, first) = client.nodes().next().unwrap();
    format!("{first:?}")
}

#[async_trait]
impl Harness for Cluster {
    type Client = Quorum;

    async fn client(&self) -> Result<Quorum, Error> {
        let ways: Vec<_> = self.nodes.servers().iter().map(Proxy::before).collect();
        let client = builder(&self.nodes, &ways).build().await?;
        self.ways.lock().unwrap().insert(first_way(&client), ways);
        Ok(client)
    }

    async fn cut(&self, client: &Quorum) -> Hook {
        self.with_ways(client, |way| {
            way.refuse();
            way.cut();
        });
        Hook::Done
    }

    async fn heal(&self, client: &Quorum) {
        self.with_ways(client, Proxy::pass);
    }

    /// The tests of other laws share the processors with this one.
    fn ttl(&self) -> Ttl {
        Ttl::new(Duration::from_millis(1_000)).unwrap()
    }

    /// As after losing everything and beginning anew.
    async fn forget(&self) -> Hook {
        self.nodes.forget();
        self.nodes.init().await;
        Hook::Done
    }
}

mod of_three {
    use super::Cluster;
    lock_core::conformance_tests!(
        Cluster::of(3).await,
        capabilities: [shared, cell, inspect]
    );
}

mod of_five_on_many_threads {
    use super::Cluster;
    lock_core::conformance_tests!(
        Cluster::of(5).await,
        capabilities: [shared, cell, inspect],
        flavor = "multi_thread",
        worker_threads = 2
    );
}
