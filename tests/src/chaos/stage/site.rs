//! The servers of a deployment in which another server takes over from one that fails.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Link;
use super::rights::{self, rules};
use crate::chaos::Deployment;
use crate::resp::Value;
use crate::{ClusterNode, RedisCluster, RedisServer, RedisServerBuilder, Sentinels, eventually};

/// How long a takeover may last on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// How long the sentinels wait for a silent primary.
const PATIENCE: Duration = Duration::from_millis(500);
/// The rights that a client needs here in addition.
const MORE: &str = "+role +cluster|slots +asking +ssubscribe +spublish +wait";
/// The replicas of a service.
const REPLICAS: usize = 2;

/// The servers of such a deployment.
#[derive(Debug)]
pub struct Site {
    kind: Kind,
    /// Whether all replicas confirm every grant.
    confirms: bool,
    away: Mutex<Away>,
    /// Held during a takeover: one begins when the last one is over.
    turn: Mutex<()>,
}

#[derive(Debug)]
enum Kind {
    Cluster(RedisCluster),
    Service(Sentinels),
}

/// The servers that cannot be asked, by their numbers.
#[derive(Debug, Default)]
struct Away {
    dead: BTreeSet<usize>,
    stopped: BTreeSet<usize>,
}

impl Site {
    /// Starts it; `None` if no server takes over in this deployment.
    pub(super) fn start(deployment: Deployment, all_rights: bool) -> Option<Self> {
        let set_up = |server: RedisServerBuilder| {
            let rules = format!("{} {MORE}", rules(all_rights, &[]));
            server.config("notify-keyspace-events", "Kgxe").user(rights::USER, rules)
        };
        let kind = match deployment {
            Deployment::Cluster => Kind::Cluster(RedisCluster::of(3, 3, set_up)),
            it if it.is_watched() => Kind::Service(Sentinels::of(REPLICAS, 3, PATIENCE, set_up)),
            _ => return None,
        };
        let confirms = deployment == Deployment::Confirmed;
        let site = Self { kind, confirms, away: Mutex::default(), turn: Mutex::default() };
        site.settle();
        Some(site)
    }

    /// Waits until no other takeover is under way.
    pub(in crate::chaos) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The servers that the links of a worker lead to: the sentinels. The servers of a cluster name one another.
    pub(super) fn linked(&self) -> &[RedisServer] {
        match &self.kind {
            Kind::Cluster(_) => &[],
            Kind::Service(service) => service.sentinels(),
        }
    }

    /// The URL of a worker with these links.
    pub(super) fn url(&self, links: &[Link]) -> String {
        let login = rights::login();
        match &self.kind {
            Kind::Cluster(cluster) => cluster.url_as(&login),
            Kind::Service(service) => {
                let url = service.url_as(&login);
                let addrs = |of: Vec<SocketAddr>| {
                    of.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",")
                };
                let direct = addrs(service.sentinels().iter().map(RedisServer::addr).collect());
                url.replace(&direct, &addrs(links.iter().map(|it| it.proxy().addr()).collect()))
            }
        }
    }

    /// The servers that have data, whether they run or not.
    fn servers(&self) -> Vec<&RedisServer> {
        match &self.kind {
            Kind::Cluster(cluster) => cluster.nodes().iter().map(ClusterNode::server).collect(),
            Kind::Service(service) => service.servers().iter().collect(),
        }
    }

    /// The numbers of the servers that answer, with the servers.
    fn present(&self) -> Vec<(usize, &RedisServer)> {
        let away = self.away();
        let is_here = |(at, _): &(usize, _)| !away.dead.contains(at) && !away.stopped.contains(at);
        self.servers().into_iter().enumerate().filter(is_here).collect()
    }

    /// The processes that run.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.servers().into_iter().filter_map(RedisServer::running_pid).collect()
    }

    /// The primaries that answer.
    pub(in crate::chaos) fn primaries(&self) -> Vec<usize> {
        match &self.kind {
            Kind::Cluster(_) => {
                let present = self.present().into_iter();
                present.filter(|(_, it)| role(it) == "master").map(|(at, _)| at).collect()
            }
            Kind::Service(service) => vec![service.primary()],
        }
    }

    /// The primary with this number, and a replica that can take over from it.
    pub(in crate::chaos) fn victim(&self, number: usize) -> Option<(usize, usize)> {
        let primaries = self.primaries();
        let primary = *primaries.get(number % primaries.len().max(1))?;
        let port = self.servers()[primary].port();
        let follows = |(_, server): &(usize, &RedisServer)| is_replica_of(server, port);
        let (replica, _) = self.present().into_iter().find(follows)?;
        Some((primary, replica))
    }

    /// Has a replica take over, as an operator does. Returns once it has.
    pub(in crate::chaos) fn promote(&self, replica: usize) {
        match &self.kind {
            Kind::Cluster(cluster) => cluster.fail_over_to(replica, false),
            Kind::Service(service) => service.fail_over(),
        }
    }

    /// Keeps replicas from a server, or ends that.
    pub(in crate::chaos) fn keep_cut(&self, server: usize, cut: bool) {
        self.servers()[server].keep_from_replicas(cut);
    }

    /// Waits until a lock is held at a server, and by no owner, or another one, at the other server. Gives up after a
    /// while: with confirmation no grant counts.
    pub(in crate::chaos) fn differ(&self, here: usize, there: usize, others: bool) {
        const PATIENCE: Duration = Duration::from_secs(3);
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && !self.differ_now(here, there, others) {}
    }

    /// Whether a lock is held at both servers by `others`, or otherwise at the first server alone.
    fn differ_now(&self, here: usize, there: usize, others: bool) -> bool {
        let [here, there] = [here, there].map(|at| self.servers()[at]);
        let locks = here.keys("lock:{*}").into_iter().filter(|it| it.ends_with('}'));
        let holders = |lock: String| [here, there].map(|server| server.cli(&["GET", &lock]));
        locks.map(holders).any(|holders| match holders {
            [Value::Text(one), Value::Text(other)] => others && one != other,
            [Value::Text(_), _] => !others,
            _ => false,
        })
    }

    /// Has a replica take over from a primary that it has lost. Sentinels would not promote such a replica for an
    /// operator.
    pub(in crate::chaos) fn force(&self, primary: usize, replica: usize) {
        match &self.kind {
            Kind::Cluster(cluster) => cluster.fail_over_to(replica, true),
            Kind::Service(_) => self.kill(primary),
        }
    }

    /// Ends what [`keep_cut`](Self::keep_cut) and [`force`](Self::force) have done to a server. One that starts again
    /// has its rights.
    pub(in crate::chaos) fn reunite(&self, server: usize) {
        match &self.kind {
            Kind::Cluster(_) => self.keep_cut(server, false),
            Kind::Service(_) => self.revive(server),
        }
    }

    /// Kills a server for good.
    pub(in crate::chaos) fn kill(&self, server: usize) {
        self.away().dead.insert(server);
        self.servers()[server].kill();
    }

    /// Starts a server again that was killed, if nothing is granted without it.
    pub(in crate::chaos) fn revive(&self, server: usize) {
        if self.confirms && self.away().dead.remove(&server) {
            self.servers()[server].restart();
        }
    }

    pub(in crate::chaos) fn stop(&self, server: usize) {
        self.away().stopped.insert(server);
        self.servers()[server].stop();
    }

    pub(in crate::chaos) fn cont(&self, server: usize) {
        self.servers()[server].cont();
        self.away().stopped.remove(&server);
    }

    /// Parts a primary from sentinels and replicas, or ends that.
    pub(in crate::chaos) fn part(&self, server: usize, parts: bool) {
        match &self.kind {
            Kind::Service(service) if parts => service.cut_off(server),
            Kind::Service(service) => service.reconnect(server),
            Kind::Cluster(_) => {}
        }
    }

    /// Moves the slot of some key of a primary to another one. Returns whether there was a key.
    pub(in crate::chaos) fn move_a_slot(&self, number: usize) -> bool {
        let Kind::Cluster(cluster) = &self.kind else { return false };
        let primaries = self.primaries();
        let from = primaries[number % primaries.len()];
        let Value::Text(key) = self.servers()[from].cli(&["RANDOMKEY"]) else { return false };
        let key = String::from_utf8_lossy(&key).into_owned();
        let to = primaries[(number + 1) % primaries.len()];
        if cluster.owner_of(&key) != from || from == to {
            return false;
        }
        // Each way in turn, where the servers know both.
        if number.is_multiple_of(2) || !cluster.move_slot_at_once(&key, to) {
            cluster.move_slot(&key, to);
        }
        true
    }

    /// Makes some servers forget their scripts.
    pub(in crate::chaos) fn flush_scripts(&self, servers: &[usize]) -> bool {
        let present = self.present().into_iter().filter(|(at, _)| servers.contains(at));
        present.filter(|(_, server)| server.try_cli(&["SCRIPT", "FLUSH"]).is_ok()).count() > 0
    }

    /// Waits until a replica has taken over from a server.
    pub(in crate::chaos) fn replaced(&self, primary: usize, replica: usize) {
        eventually("a replica takes over", LIMIT, || match &self.kind {
            Kind::Cluster(_) => role(self.servers()[replica]) == "master",
            Kind::Service(service) => service.primary() != primary,
        });
    }

    /// Waits until all servers that run agree on their parts, and replicas confirm if they are to.
    pub(in crate::chaos) fn settle(&self) {
        eventually("the servers agree", LIMIT, || self.agree());
        eventually("all replicas acknowledge", LIMIT, || !self.confirms || self.acknowledge());
    }

    fn acknowledge(&self) -> bool {
        let wait = ["WAIT", &REPLICAS.to_string(), "1000"];
        self.keepers().iter().all(|primary| {
            let is_written = primary.try_cli(&["SET", "settled", "1", "PX", "1000"]).is_ok();
            is_written && primary.try_cli(&wait).is_ok_and(|it| it.int() == REPLICAS as i64)
        })
    }

    fn agree(&self) -> bool {
        match &self.kind {
            Kind::Cluster(cluster) => {
                let is_whole = |(at, server): &(usize, &RedisServer)| {
                    cluster.nodes()[*at].serves() && (role(server) == "master" || is_up(server))
                };
                self.present().iter().all(is_whole)
            }
            Kind::Service(service) => {
                let primary = service.primary();
                let port = service.servers()[primary].port();
                let is_whole = |(at, server): &(usize, &RedisServer)| match *at == primary {
                    true => role(server) == "master",
                    false => is_replica_of(server, port) && is_up(server),
                };
                self.present().iter().all(is_whole)
            }
        }
    }

    /// The servers whose data counts.
    pub(super) fn keepers(&self) -> Vec<&RedisServer> {
        let servers = self.servers();
        self.primaries().into_iter().map(|at| servers[at]).collect()
    }

    fn away(&self) -> MutexGuard<'_, Away> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a server that answers; otherwise nothing.
fn role(server: &RedisServer) -> String {
    match server.try_cli(&["ROLE"]) {
        Ok(Value::Array(words)) => words.first().map(Value::text).unwrap_or_default(),
        _ => String::new(),
    }
}

fn is_replica_of(server: &RedisServer, port: u16) -> bool {
    says(server, &["role:slave", &format!("master_port:{port}")])
}

/// Whether a replica has all data of its primary.
fn is_up(server: &RedisServer) -> bool {
    says(server, &["role:slave", "master_link_status:up", "master_sync_in_progress:0"])
}

fn says(server: &RedisServer, lines: &[&str]) -> bool {
    let Ok(Value::Text(info)) = server.try_cli(&["INFO", "replication"]) else { return false };
    let info = String::from_utf8_lossy(&info).into_owned();
    lines.iter().all(|line| info.lines().any(|it| it == *line))
}
