//! What the locks are kept in.

use std::fmt;

/// What the locks are kept in during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the table has a column for each")]
pub enum Deployment {
    /// The memory of one process, in which several clients live.
    Memory,
    /// One server, by a protocol with pushed messages, and with keyspace notifications.
    Redis,
    /// One server behind what knows only RESP2, and that sends no notifications: whoever waits is woken by
    /// hand-overs and timers.
    Plain,
    /// A quorum of so many servers: 3 or 5.
    Quorum(usize),
}

impl Deployment {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Memory, Self::Redis, Self::Plain, Self::Quorum(3), Self::Quorum(5)];

    /// How many servers it has.
    pub fn servers(self) -> usize {
        match self {
            Self::Memory => 0,
            Self::Redis | Self::Plain => 1,
            Self::Quorum(nodes) => nodes,
        }
    }

    /// How many of them are fewer than half: the most that may fail.
    pub fn minority(self) -> usize {
        self.servers().saturating_sub(1) / 2
    }

    /// Whether it counts permits. A quorum takes slots instead.
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
            Self::Quorum(nodes) => write!(f, "quorum-{nodes}"),
        }
    }
}
