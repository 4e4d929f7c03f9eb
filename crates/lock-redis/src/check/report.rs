//! The report, as users see it.

use std::fmt;

use lock_core::check::{self, ClockOffset, Examined};

/// What one server told about itself. A value is `None` if the server did not tell it.
///
/// [`RedisBackend::check`](crate::RedisBackend::check) has an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Server {
    /// The address and the database, without credentials.
    pub address: String,
    /// The version of Redis or Valkey.
    pub version: Option<String>,
    /// Whether it is a master or a replica.
    pub role: Option<Role>,
    /// The deployment that the server is a part of.
    pub topology: Option<Topology>,
    /// How many replicas are connected to it.
    pub replicas: Option<u64>,
    /// The eviction policy. Locks need `noeviction`.
    pub eviction_policy: Option<String>,
    /// The setting `notify-keyspace-events`.
    pub notifications: Option<String>,
    /// How far its clock is ahead of the clock of this machine.
    pub clock: Option<ClockOffset>,
}

/// The role of a server in replication.
///
/// [`RedisBackend::check`](crate::RedisBackend::check) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Role {
    /// It takes writes.
    Master,
    /// It repeats the writes of a master.
    Replica,
}

/// The deployment that a server is a part of, as the server tells it.
///
/// [`RedisBackend::check`](crate::RedisBackend::check) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Topology {
    /// One server, without replicas.
    Standalone,
    /// A master with replicas. The server knows of no Sentinel.
    Replicated,
    /// A master with replicas, which Sentinels monitor.
    Sentinel,
    /// A node of a cluster.
    Cluster,
}

/// What [`RedisBackend::check`](crate::RedisBackend::check) found.
///
/// ```no_run
/// # async fn run(backend: lock_redis::RedisBackend) -> Result<(), lock_core::Error> {
/// use lock_redis::check::Severity;
///
/// let report = backend.check().await?;
/// assert!(report.worst() < Some(Severity::Critical), "{report}");
/// # Ok(())
/// # }
/// ```
pub type Report = check::Report<Server>;

/// The server, for a report of any store.
impl From<Server> for Examined {
    fn from(server: Server) -> Self {
        let role = server.role.map(|it| role(Some(it)));
        let topology = server.topology.map(|it| topology(Some(it)));
        Self::new(server.address)
            .with("version", server.version)
            .with("role", role)
            .with("topology", topology)
            .with("replicas", server.replicas)
            .with("eviction-policy", server.eviction_policy)
            .with("notify-keyspace-events", server.notifications.map(|flags| format!("{flags:?}")))
            .with("clock", server.clock)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
        write!(f, "{}: version {}", self.address, or_unknown(&self.version))?;
        write!(f, ", role {}", role(self.role))?;
        write!(f, ", topology {}", topology(self.topology))?;
        let replicas = self.replicas.map(|count| count.to_string());
        write!(f, ", replicas {}", or_unknown(&replicas))?;
        write!(f, ", eviction policy {}", or_unknown(&self.eviction_policy))?;
        let events = self.notifications.as_ref().map(|flags| format!("{flags:?}"));
        write!(f, ", notify-keyspace-events {}", or_unknown(&events))?;
        let clock = self.clock.map(|clock| clock.to_string());
        write!(f, ", clock {}", or_unknown(&clock))
    }
}

fn role(role: Option<Role>) -> &'static str {
    match role {
        Some(Role::Master) => "master",
        Some(Role::Replica) => "replica",
        None => "unknown",
    }
}

fn topology(topology: Option<Topology>) -> &'static str {
    match topology {
        Some(Topology::Standalone) => "standalone",
        Some(Topology::Replicated) => "replicated",
        Some(Topology::Sentinel) => "sentinel",
        Some(Topology::Cluster) => "cluster",
        None => "unknown",
    }
}
