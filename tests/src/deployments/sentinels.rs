//! A primary, its replicas, and the sentinels that watch them.

use std::time::{Duration, Instant};

use super::{LIMIT, ok, says};
use crate::resp::Value;
use crate::{Port, RedisServer, RedisServerBuilder, eventually};

/// The user of sentinels and replicas at the servers, and its password.
const WATCHER: [&str; 2] = ["watcher", "watching"];
/// The name of the service.
const SERVICE: &str = "main";
/// The time for which the last sentinels wait in addition. An election takes less time.
const LATER: Duration = Duration::from_secs(1);

/// A deployment with one service on free loopback ports. Its servers die with this value.
///
/// # Examples
///
/// ```
/// use lock_tests::Sentinels;
///
/// let deployment = Sentinels::start(1, 3);
/// assert!(deployment.url().ends_with("/main"));
/// assert_eq!(deployment.primary(), 0);
/// ```
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
    /// Further ports of these servers.
    ports: Vec<Port>,
}

impl Sentinels {
    /// Starts a primary with so many replicas, and so many sentinels. The sentinels replace a primary that is silent
    /// for two seconds. Returns once a failover is possible.
    ///
    /// # Panics
    ///
    /// If the deployment does not form.
    pub fn start(replicas: usize, sentinels: usize) -> Self {
        Self::with_patience(replicas, sentinels, Duration::from_secs(2))
    }

    /// As [`start`](Self::start). A quorum of the sentinels waits for this time for a silent primary, and the other
    /// sentinels wait for a second longer.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn with_patience(replicas: usize, sentinels: usize, patience: Duration) -> Self {
        Self::of(replicas, sentinels, patience, |server| server)
    }

    /// As [`with_patience`](Self::with_patience), of servers with more options.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn of(
        replicas: usize,
        sentinels: usize,
        patience: Duration,
        set_up: impl Fn(RedisServerBuilder) -> RedisServerBuilder,
    ) -> Self {
        let options = (0..=replicas).map(|_| set_up(data_server()));
        let servers = RedisServer::start_all(options.collect());
        let port = servers[0].port().to_string();
        for replica in &servers[1..] {
            ok(replica, &["REPLICAOF", "127.0.0.1", &port]);
        }
        let line = format!("connected_slaves:{replicas}");
        eventually("the replicas are connected", LIMIT, || {
            let is_online = |it: &RedisServer| says(it, "replication", "master_link_status:up");
            says(&servers[0], "replication", &line) && servers[1..].iter().all(is_online)
        });
        let quorum = sentinels / 2 + 1;
        // A quorum of sentinels notices first, and the others only vote. If all sentinels noticed at once, each could
        // vote for itself, and the next election would begin four seconds later.
        let patience_of = |at: usize| if at < quorum { patience } else { patience + LATER };
        let options = (0..sentinels).map(|at| sentinel(servers[0].port(), quorum, patience_of(at)));
        let sentinels = RedisServer::start_all(options.collect());
        sentinels.iter().for_each(hurry);
        let deployment = Self { servers, sentinels, ports: Vec::new() };
        eventually("the sentinels know all servers and one another", LIMIT, || {
            deployment.sentinels.iter().all(|it| deployment.is_known_to(it))
        });
        deployment
    }

    /// Starts a primary and a sentinel that speak TLS, each on a further port, as `secures` sets them up.
    ///
    /// # Panics
    ///
    /// If they do not start.
    pub fn with_tls(secures: impl Fn(RedisServerBuilder, &Port) -> RedisServerBuilder) -> Self {
        let ports = vec![Port::reserve(), Port::reserve()];
        let secured =
            |server, at: usize| secures(server, &ports[at]).config("tls-replication", "yes");
        let servers = vec![secured(data_server(), 0).start()];
        let patience = Duration::from_secs(60);
        let sentinel = secured(sentinel(ports[0].number(), 1, patience), 1).start();
        hurry(&sentinel);
        Self { servers, sentinels: vec![sentinel], ports }
    }

    /// The URL of a service [with TLS](Self::with_tls).
    ///
    /// # Panics
    ///
    /// If the service has none.
    pub fn tls_url(&self) -> String {
        format!("rediss+sentinel://{}/{SERVICE}", self.ports[1].addr())
    }

    fn is_known_to(&self, sentinel: &RedisServer) -> bool {
        let told = [
            ("num-slaves", self.servers.len() - 1),
            ("num-other-sentinels", self.sentinels.len() - 1),
        ];
        let replicas = sentinel.cli(&["SENTINEL", "REPLICAS", SERVICE]);
        let is_up = |replica: &Value| {
            field(replica, "flags").as_deref() == Some("slave")
                && field(replica, "master-link-status").as_deref() == Some("ok")
        };
        let master = sentinel.cli(&["SENTINEL", "MASTER", SERVICE]);
        told.iter().all(|(name, count)| field(&master, name) == Some(count.to_string()))
            && replicas.array().iter().all(is_up)
    }

    /// The URL of the service, with all sentinels.
    pub fn url(&self) -> String {
        self.url_as("")
    }

    /// The URL for a user of the servers: `user:password@`.
    pub fn url_as(&self, login: &str) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|it| it.addr().to_string()).collect();
        format!("redis+sentinel://{login}{}/{SERVICE}", hosts.join(","))
    }

    /// The servers. The first one is the primary at the start.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The primary, by its place among the [`servers`](Self::servers), as the sentinels that run agree; the first
    /// server if none runs.
    pub fn primary(&self) -> usize {
        let named = self.sentinels.iter().filter_map(|it| {
            let command = ["SENTINEL", "MASTER", SERVICE];
            let master = it.try_cli(&command).ok()?;
            let epoch: u64 = field(&master, "config-epoch")?.parse().ok()?;
            Some((epoch, field(&master, "port")?.parse::<u16>().ok()?))
        });
        let port = named.max().map_or(0, |(_, port)| port);
        self.servers.iter().position(|server| server.port() == port).unwrap_or(0)
    }

    /// Waits until the sentinels name another primary. On a busy machine they may have to elect a leader several times.
    ///
    /// # Panics
    ///
    /// If that does not happen.
    pub fn replaces(&self, primary: usize) {
        eventually("another primary is named", LIMIT, || self.primary() != primary);
    }

    /// Cuts a server off from sentinels and replicas, as a partition does. The server goes on to serve other clients,
    /// except for those of the default user: a sentinel whose login fails would be that user.
    pub fn cut_off(&self, server: usize) {
        let server = &self.servers[server];
        for user in [WATCHER[0], "default"] {
            ok(server, &["ACL", "SETUSER", user, "off"]);
            server.cli(&["CLIENT", "KILL", "USER", user]);
        }
    }

    /// Ends what [`cut_off`](Self::cut_off) has begun.
    pub fn reconnect(&self, server: usize) {
        for user in [WATCHER[0], "default"] {
            ok(&self.servers[server], &["ACL", "SETUSER", user, "on"]);
        }
    }

    /// Makes a replica the primary, as an operator does. Returns once a sentinel has named it.
    ///
    /// # Panics
    ///
    /// If that does not happen.
    pub fn fail_over(&self) {
        /// After this time, the sentinels have given up a failover that has changed nothing. That happens on a busy machine.
        const GIVEN_UP: Duration = Duration::from_secs(10);
        let before = self.primary();
        let mut begun: Option<Instant> = None;
        eventually("another primary is named", LIMIT, || {
            if self.primary() != before {
                return true;
            }
            if begun.is_none_or(|begun| begun.elapsed() > GIVEN_UP) {
                let answer = self.sentinels[0].cli(&["SENTINEL", "FAILOVER", SERVICE]);
                let is_begun = matches!(&answer, Value::Text(text) if text == b"OK");
                begun = is_begun.then(Instant::now);
            }
            false
        });
    }
}

fn data_server() -> RedisServerBuilder {
    let [user, password] = WATCHER;
    RedisServer::builder()
        .config("repl-diskless-sync-delay", "0")
        .config("repl-ping-replica-period", "1")
        .user(user, format!("on >{password} allkeys allchannels allcommands"))
        .config("masteruser", user)
        .config("masterauth", password)
}

fn sentinel(port: u16, quorum: usize, patience: Duration) -> RedisServerBuilder {
    let patience = patience.as_millis();
    RedisServer::builder()
        .sentinel()
        .config("sentinel", format!("monitor {SERVICE} 127.0.0.1 {port} {quorum}"))
        .config("sentinel", format!("down-after-milliseconds {SERVICE} {patience}"))
        .config("sentinel", format!("failover-timeout {SERVICE} 2000"))
        .config("sentinel", format!("auth-user {SERVICE} {}", WATCHER[0]))
        .config("sentinel", format!("auth-pass {SERVICE} {}", WATCHER[1]))
}

/// Makes a sentinel look at the servers more often than once in a second.
fn hurry(sentinel: &RedisServer) {
    // A sentinel promotes a replica only if the replica has told of itself within the last five periods of pings. While
    // the primary is down, the sentinel asks the replica once in a second. If it can promote none, it tries again four
    // seconds later.
    let periods =
        ["info-period", "200", "ask-period", "100", "publish-period", "200", "ping-period", "500"];
    // A sentinel that stood still for two seconds, as on a busy disk, does nothing for half a minute otherwise.
    let tilt = ["tilt-period", "1000"];
    ok(sentinel, &[&["SENTINEL", "DEBUG"][..], &periods, &tilt].concat());
}

/// A field of an answer that consists of names and values in turn.
fn field(answer: &Value, name: &str) -> Option<String> {
    let Value::Array(words) = answer else { return None };
    let words: Vec<String> = words.iter().map(Value::text).collect();
    words.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone())
}
