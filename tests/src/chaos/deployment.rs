//! The stores of the locks.

use std::fmt;

/// The store of the locks during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the table has a column for each")]
pub enum Deployment {
    /// The memory backend in one process, with several clients.
    Memory,
    /// One server, by a protocol with pushed messages, and with keyspace notifications.
    Redis,
    /// One server behind a proxy that knows only RESP2, without notifications: hand-overs and timers wake
    /// the waiters.
    Plain,
    /// A quorum of this many servers: 3 or 5.
    Quorum(usize),
    /// A cluster of three primaries, each with a replica.
    Cluster,
    /// A primary and two replicas, which three sentinels watch.
    Service,
    /// As [`Service`](Self::Service), without the quarantine of terms.
    Unguarded,
    /// As [`Service`](Self::Service), and both replicas confirm every grant.
    Confirmed,
    /// One PostgreSQL server, for a role that may call the verbs alone.
    Postgres,
    /// One etcd server.
    Etcd,
    /// Three etcd servers, the members of one cluster.
    Members,
}

impl Deployment {
    /// Those whose servers keep their parts.
    pub const ALL: [Self; 5] =
        [Self::Memory, Self::Redis, Self::Plain, Self::Quorum(3), Self::Quorum(5)];

    /// Those in which another server takes over.
    pub const FAIL_OVER: [Self; 4] =
        [Self::Cluster, Self::Service, Self::Unguarded, Self::Confirmed];

    /// Those with servers of another kind than Redis.
    pub const OTHERS: [Self; 3] = [Self::Postgres, Self::Etcd, Self::Members];

    /// Whether the server is of another kind than Redis.
    pub fn is_other(self) -> bool {
        Self::OTHERS.contains(&self)
    }

    /// Whether its servers are etcd.
    pub fn is_etcd(self) -> bool {
        matches!(self, Self::Etcd | Self::Members)
    }

    /// Whether another server takes over from one that fails.
    pub fn fails_over(self) -> bool {
        Self::FAIL_OVER.contains(&self)
    }

    /// Whether sentinels watch its servers.
    pub fn is_watched(self) -> bool {
        matches!(self, Self::Service | Self::Unguarded | Self::Confirmed)
    }

    /// The number of URLs by which a client reaches it.
    pub fn urls(self) -> usize {
        if self.fails_over() || self.is_other() { 1 } else { self.servers() }
    }

    /// The number of servers.
    pub fn servers(self) -> usize {
        match self {
            Self::Memory => 0,
            Self::Redis | Self::Plain | Self::Postgres | Self::Etcd => 1,
            Self::Quorum(nodes) => nodes,
            Self::Cluster => 6,
            Self::Service | Self::Unguarded | Self::Confirmed | Self::Members => 3,
        }
    }

    /// The largest number of servers that is less than half: the most that may fail.
    pub fn minority(self) -> usize {
        self.servers().saturating_sub(1) / 2
    }

    /// Whether it converts leases. Over a quorum, a hold that becomes weaker keeps its lease as it is.
    pub fn converts(self) -> bool {
        !matches!(self, Self::Quorum(_))
    }

    /// Whether it counts permits. A quorum has slots instead.
    pub fn counts(self) -> bool {
        !matches!(self, Self::Quorum(_))
    }
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Redis => f.write_str("redis"),
            Self::Plain => f.write_str("plain"),
            Self::Cluster => f.write_str("cluster"),
            Self::Service => f.write_str("sentinels"),
            Self::Unguarded => f.write_str("unguarded"),
            Self::Confirmed => f.write_str("confirmed"),
            Self::Postgres => f.write_str("postgres"),
            Self::Etcd => f.write_str("etcd"),
            Self::Members => f.write_str("etcd-members"),
            Self::Quorum(nodes) => write!(f, "quorum-{nodes}"),
        }
    }
}
