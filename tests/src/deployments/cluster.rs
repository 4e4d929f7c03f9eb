//! A Redis Cluster for one test, or for one suite.

use std::time::{Duration, Instant};

use super::{LIMIT, is_ok, ok, says};
use crate::resp::Value;
use crate::{Port, RedisServer, RedisServerBuilder, eventually};

const SLOTS: usize = 16_384;

/// A cluster on free loopback ports. Its servers die with this value.
///
/// The first servers are the primaries, which share the slots evenly. The replicas follow: the first replica is that of
/// the first primary, and so on.
///
/// # Examples
///
/// ```
/// use lock_tests::RedisCluster;
///
/// let cluster = RedisCluster::start(3, 0);
/// assert!(cluster.url().starts_with("redis+cluster://127.0.0.1:"));
/// assert_eq!(cluster.owner_of("foo"), cluster.owner_of("{foo}.bar"));
/// ```
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<ClusterNode>,
}

/// A server of a cluster.
#[derive(Debug)]
pub struct ClusterNode {
    server: RedisServer,
    /// The port on which the servers talk to one another.
    bus: Port,
}

impl RedisCluster {
    /// Starts so many primaries, and so many replicas for all of them together. Returns once the cluster serves.
    ///
    /// # Panics
    ///
    /// If the cluster does not form.
    pub fn start(primaries: usize, replicas: usize) -> Self {
        Self::of(primaries, replicas, |server| server)
    }

    /// As [`start`](Self::start), of servers with more options.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn of(
        primaries: usize,
        replicas: usize,
        set_up: impl Fn(RedisServerBuilder) -> RedisServerBuilder,
    ) -> Self {
        let buses: Vec<_> = (0..primaries + replicas).map(|_| Port::reserve()).collect();
        let options = buses.iter().map(|bus| set_up(ClusterNode::options(bus, replicas > 0)));
        let servers = RedisServer::start_all(options.collect());
        let nodes = servers.into_iter().zip(buses);
        let nodes = nodes.map(|(server, bus)| ClusterNode { server, bus }).collect();
        let cluster = Self { nodes };
        for (index, node) in cluster.nodes.iter().enumerate() {
            let epoch = (index + 1).to_string();
            ok(&node.server, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]);
            if index < primaries {
                node.add_slots(SLOTS * index / primaries..SLOTS * (index + 1) / primaries);
            }
            cluster.nodes[..index].iter().for_each(|other| node.meet(other));
        }
        let count = cluster.nodes.len();
        eventually("the servers know one another", LIMIT, || {
            cluster.nodes.iter().all(|node| node.knows(count))
        });
        for (index, replica) in cluster.nodes[primaries..].iter().enumerate() {
            replica.replicate(&cluster.nodes[index % primaries]);
        }
        eventually("the cluster serves", LIMIT, || {
            let (primaries, replicas) = cluster.nodes.split_at(primaries);
            let is_up =
                |node: &ClusterNode| says(&node.server, "replication", "master_link_status:up");
            primaries.iter().chain(replicas).all(ClusterNode::serves) && replicas.iter().all(is_up)
        });
        cluster
    }

    /// The URL of the cluster, with all servers.
    pub fn url(&self) -> String {
        self.url_as("")
    }

    /// The URL for a user: `user:password@`.
    pub fn url_as(&self, login: &str) -> String {
        let hosts: Vec<_> = self.nodes.iter().map(|node| node.server.addr().to_string()).collect();
        format!("redis+cluster://{login}{}", hosts.join(","))
    }

    /// The servers, the primaries first, as they were at the start.
    pub fn nodes(&self) -> &[ClusterNode] {
        &self.nodes
    }

    /// The server that serves the slot of a key now, by its place among [`nodes`](Self::nodes). It is what most of the
    /// servers say that run.
    ///
    /// # Panics
    ///
    /// If no server serves the slot.
    #[track_caller]
    pub fn owner_of(&self, key: &str) -> usize {
        let slot = self.slot_of(key);
        let owners = self.nodes.iter().enumerate().filter(|(_, node)| node.owns(slot));
        owners.map(|(index, _)| index).next_back().expect("no server serves the slot")
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &str) -> u16 {
        let asked = self.nodes.iter().filter_map(|node| {
            node.server.try_cli(&["CLUSTER", "KEYSLOT", key]).ok().map(|slot| slot.int() as u16)
        });
        asked.into_iter().next().expect("no server runs")
    }

    /// Moves the slot of a key to this server, with all keys.
    pub fn move_slot(&self, key: &str, to: usize) {
        let moving = self.begin_move(key, to);
        while moving.step() > 0 {}
        moving.finish();
    }

    /// Moves the slot of a key to this server in one step, as Valkey 9 can. `false` if the server cannot.
    ///
    /// # Panics
    ///
    /// If the move fails, or does not end, or if Valkey 9 or later does not know the command.
    pub fn move_slot_at_once(&self, key: &str, to: usize) -> bool {
        let source = self.nodes[self.owner_of(key)].server();
        let (slot, target) = (self.slot_of(key), &self.nodes[to]);
        let words = slot.to_string();
        let command =
            ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &words, &words, "NODE", &target.id()];
        match source.cli(&command) {
            Value::Error(error) if error.contains("unknown subcommand") => {
                assert!(!moves_at_once(source), "the server ought to know the command: {error}");
                return false;
            }
            answer => assert!(is_ok(&answer), "{answer:?}"),
        }
        eventually("the slot has moved", LIMIT, || target.owns(slot));
        true
    }

    /// Begins to move the slot of a key to this server.
    pub fn begin_move(&self, key: &str, to: usize) -> Moving<'_> {
        let source = &self.nodes[self.owner_of(key)];
        let (target, slot) = (&self.nodes[to], self.slot_of(key).to_string());
        ok(&target.server, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source.id()]);
        ok(&source.server, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target.id()]);
        Moving { cluster: self, source, target, slot }
    }

    /// Makes a replica a primary. If it is not `forced`, its primary agrees. Returns once the replica serves.
    ///
    /// # Panics
    ///
    /// If that does not happen.
    pub fn fail_over_to(&self, replica: usize, forced: bool) {
        /// After this time, the replica has given up a failover. That happens on a busy machine.
        const GIVEN_UP: Duration = Duration::from_secs(6);
        let replica = &self.nodes[replica].server;
        let command = ["CLUSTER", "FAILOVER", "FORCE"];
        let command = &command[..if forced { 3 } else { 2 }];
        let mut begun: Option<Instant> = None;
        eventually("the replica is a primary", LIMIT, || {
            if says(replica, "replication", "role:master") {
                return true;
            }
            if begun.is_none_or(|begun| begun.elapsed() > GIVEN_UP) {
                begun = is_ok(&replica.cli(command)).then(Instant::now);
            }
            false
        });
    }
}

/// A slot that is being moved.
#[derive(Debug)]
pub struct Moving<'a> {
    cluster: &'a RedisCluster,
    source: &'a ClusterNode,
    target: &'a ClusterNode,
    slot: String,
}

impl Moving<'_> {
    /// Moves one key. Returns how many keys there were.
    pub fn step(&self) -> usize {
        let rest = self.source.server.cli(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "100"]);
        let keys: Vec<String> = rest.array().iter().map(Value::text).collect();
        if let Some(key) = keys.first() {
            let port = self.target.server.port().to_string();
            let command = ["MIGRATE", "127.0.0.1", &port, key, "0", "10000"];
            let moved = self.source.server.cli(&command).text();
            assert!(matches!(&*moved, "OK" | "NOKEY"), "{moved}");
        }
        keys.len()
    }

    /// Names the new owner of the slot, which has to have all keys: to the owner first, and then to the other primaries,
    /// as `redis-cli` does.
    ///
    /// # Panics
    ///
    /// If the new owner does not hear of the latest epoch of the cluster. It would take an epoch that another server
    /// has already. Then the former owner may get the slot back, and the new owner deletes all keys.
    pub fn finish(&self) {
        let id = self.target.id();
        let nodes = &self.cluster.nodes;
        eventually("the new owner knows the latest epoch", LIMIT, || {
            let latest = nodes.iter().filter_map(|node| node.epoch("cluster_my_epoch")).max();
            self.target.epoch("cluster_current_epoch") >= latest
        });
        let is_primary = |node: &&ClusterNode| says(&node.server, "replication", "role:master");
        let others = nodes.iter().filter(is_primary);
        let others = others.filter(|node| !std::ptr::eq(*node, self.target));
        for node in std::iter::once(self.target).chain(others) {
            ok(&node.server, &["CLUSTER", "SETSLOT", &self.slot, "NODE", &id]);
        }
    }
}

impl ClusterNode {
    fn options(bus: &Port, fails_over: bool) -> RedisServerBuilder {
        // On a busy machine a server may be silent for a while, and not every test wants a failover.
        let timeout = if fails_over { "1000" } else { "60000" };
        RedisServer::builder()
            .config("cluster-enabled", "yes")
            .config("cluster-port", bus.number().to_string())
            .config("cluster-node-timeout", timeout)
            .config("cluster-replica-validity-factor", "0")
            .config("cluster-require-full-coverage", "no")
            .config("repl-ping-replica-period", "1")
            .config("repl-diskless-sync-delay", "0")
    }

    /// The server itself.
    pub fn server(&self) -> &RedisServer {
        &self.server
    }

    fn id(&self) -> String {
        self.server.cli(&["CLUSTER", "MYID"]).text()
    }

    fn add_slots(&self, slots: std::ops::Range<usize>) {
        let slots = slots.map(|slot| slot.to_string());
        let command = ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter().chain(slots);
        let answer = self.server.cli(&command.collect::<Vec<_>>());
        assert!(is_ok(&answer), "{answer:?}");
    }

    fn meet(&self, other: &Self) {
        let [port, bus] = [other.server.port(), other.bus.number()].map(|it| it.to_string());
        ok(&self.server, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    }

    fn knows(&self, count: usize) -> bool {
        let nodes = self.server.cli(&["CLUSTER", "NODES"]).text();
        nodes.lines().count() == count && !nodes.contains("handshake") && !nodes.contains("fail")
    }

    /// Becomes a replica. The server refuses while it does not know that the other one is a primary.
    fn replicate(&self, primary: &Self) {
        let id = primary.id();
        eventually("a server becomes a replica", LIMIT, || {
            is_ok(&self.server.cli(&["CLUSTER", "REPLICATE", &id]))
        });
    }

    /// Whether this server says that all slots are served.
    pub fn serves(&self) -> bool {
        let says = |field, value: &str| self.info(field).is_some_and(|it| it == value);
        says("cluster_state", "ok") && says("cluster_slots_ok", "16384")
    }

    /// A field of what this server says about the cluster, if it runs.
    fn info(&self, field: &str) -> Option<String> {
        let Ok(Value::Text(info)) = self.server.try_cli(&["CLUSTER", "INFO"]) else { return None };
        let info = String::from_utf8_lossy(&info).into_owned();
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| *name == field).map(|(_, value)| value.to_owned())
    }

    fn epoch(&self, field: &str) -> Option<u64> {
        self.info(field)?.parse().ok()
    }

    /// Whether this server runs, is a primary and says that it serves the slot.
    fn owns(&self, slot: u16) -> bool {
        let Ok(Value::Text(nodes)) = self.server.try_cli(&["CLUSTER", "NODES"]) else {
            return false;
        };
        let nodes = String::from_utf8_lossy(&nodes).into_owned();
        let own = nodes.lines().find(|line| line.contains("myself,master"));
        own.is_some_and(|line| line.split(' ').skip(8).any(|range| has(range, slot)))
    }
}

/// Whether the server is one that can move a slot in one step: Valkey from version 9 on.
fn moves_at_once(server: &RedisServer) -> bool {
    let info = server.cli(&["INFO", "server"]).text();
    let version = info.lines().find_map(|line| line.strip_prefix("valkey_version:"));
    let major = version.and_then(|it| it.split('.').next()?.parse::<u32>().ok());
    major.is_some_and(|major| major >= 9)
}

/// Whether `first-last`, or one number, contains a slot.
fn has(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) => (first..=last).contains(&slot),
        _ => false,
    }
}
