//! Two nodes of a cluster, and a slot that is moved between them.

use lock_redis::{Builder, Notifications, Protocol, RedisBackend};
use lock_tests::{Port, RedisServer, eventually, resp::Value};

use super::relay::asking_before;

/// The time that a cluster needs to form, on a loaded machine too.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// A cluster of two nodes. At first the first node serves all slots.
pub(crate) struct Cluster {
    pub(crate) source: Node,
    pub(crate) target: Node,
    /// The slot that is moved.
    slot: String,
}

/// A node, and the port on which it talks to others.
pub(crate) struct Node {
    pub(crate) server: RedisServer,
    bus: Port,
}

impl Cluster {
    /// Starts the nodes. The slot of this key is moved later.
    pub(crate) fn start(key: &str) -> Self {
        let (source, target) = (Node::start(), Node::start());
        let slots = (0..16_384).map(|slot| slot.to_string());
        let command = ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter().chain(slots);
        assert_eq!(source.server.cli(&command.collect::<Vec<_>>()).text(), "OK");
        let [port, bus] = [target.server.port(), target.bus.number()].map(|it| it.to_string());
        source.ok(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        eventually("the nodes are one cluster", LIMIT, || {
            source.knows(&target) && target.knows(&source)
        });
        let slot = source.server.cli(&["CLUSTER", "KEYSLOT", key]).int().to_string();
        Self { source, target, slot }
    }

    /// Starts two clusters at once, because a new cluster serves only after two seconds.
    pub(crate) fn start_two(key: &str) -> [Self; 2] {
        std::thread::scope(|scope| {
            let starts = [(); 2].map(|()| scope.spawn(move || Self::start(key)));
            starts.map(|start| start.join().unwrap())
        })
    }

    /// Begins to move the slot.
    pub(crate) fn begin(&self) {
        let (source, target) = (self.source.id(), self.target.id());
        self.target.ok(&["CLUSTER", "SETSLOT", &self.slot, "IMPORTING", &source]);
        self.source.ok(&["CLUSTER", "SETSLOT", &self.slot, "MIGRATING", &target]);
    }

    /// Moves these keys, which must exist.
    pub(crate) fn move_keys(&self, keys: &[&str]) {
        let port = self.target.server.port().to_string();
        let command = ["MIGRATE", "127.0.0.1", &port, "", "0", "10000", "KEYS"];
        self.source.ok(&[&command[..], keys].concat());
    }

    /// Moves this key, unless it has gone meanwhile.
    pub(crate) fn move_if_there(&self, key: &str) {
        let port = self.target.server.port().to_string();
        let command = ["MIGRATE", "127.0.0.1", &port, key, "0", "10000"];
        let moved = self.source.server.cli(&command).text();
        assert!(matches!(&*moved, "OK" | "NOKEY"), "{moved}");
    }

    /// The keys of the slot that are still at the source.
    pub(crate) fn rest(&self) -> Vec<String> {
        let rest = self.source.server.cli(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "100"]);
        rest.array().iter().map(Value::text).collect()
    }

    /// Moves the remaining keys, and ends the move.
    pub(crate) fn finish(&self) {
        while let Some(key) = self.rest().first() {
            self.move_if_there(key);
        }
        let target = self.target.id();
        for node in [&self.target, &self.source] {
            node.ok(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &target]);
        }
    }

    /// Clients of the source.
    pub(crate) fn at_source(&self) -> Builder {
        plain(self.source.server.url())
    }

    /// Clients of the target that send `ASKING` before each script, like a client that was redirected.
    pub(crate) async fn at_target(&self) -> Builder {
        let relay = asking_before(self.target.server.addr()).await;
        plain(format!("redis://{relay}"))
    }

    /// One client of each node.
    pub(crate) async fn clients(&self) -> (RedisBackend, RedisBackend) {
        (self.at_source().build().unwrap(), self.at_target().await.build().unwrap())
    }
}

impl Node {
    fn start() -> Self {
        let bus = Port::reserve();
        let builder = RedisServer::builder().config("cluster-enabled", "yes");
        let server = builder.config("cluster-port", bus.number().to_string()).start();
        Self { server, bus }
    }

    fn ok(&self, command: &[&str]) {
        let answer = self.server.cli(command);
        assert!(matches!(&answer, Value::Text(text) if text == b"OK"), "{command:?}: {answer:?}");
    }

    fn id(&self) -> String {
        self.server.cli(&["CLUSTER", "MYID"]).text()
    }

    /// Whether this node serves, and knows the other one by its name.
    fn knows(&self, other: &Self) -> bool {
        let nodes = self.server.cli(&["CLUSTER", "NODES"]).text();
        let info = self.server.cli(&["CLUSTER", "INFO"]).text();
        nodes.contains(&other.id())
            && !nodes.contains("handshake")
            && ["cluster_state:ok", "cluster_slots_ok:16384"].iter().all(|it| info.contains(it))
    }

    /// Whether there is such a key here. Says nothing of other nodes.
    pub(crate) fn has(&self, key: &str) -> bool {
        // Only a command about the whole database reports a key of a slot that is served elsewhere.
        self.server.cli(&["KEYS", "*"]).array().iter().any(|it| it.text() == key)
    }

    /// How often the server answered that a slot is being moved.
    pub(crate) fn said_try_again(&self) -> u64 {
        let info = self.server.cli(&["INFO", "errorstats"]).text();
        let line = info.lines().find_map(|line| line.strip_prefix("errorstat_TRYAGAIN:count="));
        line.map_or(0, |count| count.trim().parse().unwrap())
    }
}

fn plain(url: String) -> Builder {
    RedisBackend::builder(url).protocol(Protocol::Resp2).notifications(Notifications::Off)
}
