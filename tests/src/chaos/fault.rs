//! What fails.

use std::fmt;

/// A way in which something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the table has a row for each")]
pub enum Fault {
    /// A server is killed and comes back with all its data: its log is written at once.
    KillKept,
    /// A server is killed and comes back without data.
    KillEmpty,
    /// A server is killed and comes back with an older copy of its data.
    KillStale,
    /// A server stands still for a while.
    StopServer,
    /// All data of a server is deleted.
    Flush,
    /// A server evicts locks: its memory is limited, and its policy makes room.
    Evict,
    /// A server has no memory for new data, and its policy evicts nothing.
    OutOfMemory,
    /// A server is made to forget its scripts, over and over.
    FlushScripts,
    /// A server closes the connections of all clients, over and over.
    KillClients,
    /// A server delays its clients: those that write, or all.
    PauseClients,
    /// The user of the clients loses rights on a server.
    RevokeRights,
    /// The clock of a server jumps, by less than a lease or by an hour, forward or back.
    ClockJump,
    /// The clock of a server runs too fast or too slow.
    ClockRate,
    /// Bytes on a link arrive later.
    Delay,
    /// Bytes on a link arrive later, by a varying delay.
    Jitter,
    /// Single packets on a link arrive seconds later, and so does what follows them on their connection. Requests on
    /// other connections overtake them.
    Straggle,
    /// Bytes on a link are held back in one direction.
    Silence,
    /// Bytes on a link are held back in both directions, and neither end notices.
    HalfOpen,
    /// A link is closed, over and over.
    Reset,
    /// A link is closed and cannot be opened.
    Partition,
    /// Requests arrive, and the link is closed before their answers arrive.
    CutReplies,
    /// Bytes on a link arrive one by one.
    Dribble,
    /// Requests are delivered twice.
    Duplicate,
    /// A worker is killed, and another one takes its place.
    KillWorker,
    /// A worker stands still for a while, shorter or longer than its leases.
    StopWorker,
    /// The executor of a worker is blocked, shorter or longer than its leases.
    BlockExecutor,
    /// Tasks of a worker are ended wherever they are.
    AbortTasks,
    /// The runtime of a worker ends with all its tasks and guards, and another begins.
    Collapse,
    /// Requests to the memory backend fail, before or after they were executed, or hang.
    StoreFails,
    /// The memory backend forgets everything, like a server that starts empty.
    StoreForgets,
    /// An operator makes a replica the primary, or another member the leader.
    FailOver,
    /// A primary is killed. A replica takes over. The primary comes back only where no lease is granted without it:
    /// with confirmation by all replicas. The leader of a cluster of etcd is killed, and comes back when another member
    /// leads.
    KillPrimary,
    /// Replicas lose a primary, which goes on to serve clients. Then one of them takes over, and lacks what the old
    /// primary has granted meanwhile: in a cluster an operator forces it. Otherwise the primary is killed, as by the
    /// fault above; or, if some workers are to hear no sentinel, the sentinels lose the primary too, and it lives on.
    CutAndFailOver,
    /// A primary stands still until a replica has taken over, and then goes on. So does the leader of a cluster of
    /// etcd.
    PausePrimary,
    /// Sentinels and replicas lose a primary, and a replica takes over. The old primary goes on to serve clients,
    /// of which some hear no sentinel.
    PartitionPrimary,
    /// Slots of locks are moved to other primaries, over and over: key by key, and by turns in one step where the
    /// servers can do that.
    MoveSlot,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 36] = [
        Self::KillKept,
        Self::KillEmpty,
        Self::KillStale,
        Self::StopServer,
        Self::Flush,
        Self::Evict,
        Self::OutOfMemory,
        Self::FlushScripts,
        Self::KillClients,
        Self::PauseClients,
        Self::RevokeRights,
        Self::ClockJump,
        Self::ClockRate,
        Self::Delay,
        Self::Jitter,
        Self::Straggle,
        Self::Silence,
        Self::HalfOpen,
        Self::Reset,
        Self::Partition,
        Self::CutReplies,
        Self::Dribble,
        Self::Duplicate,
        Self::KillWorker,
        Self::StopWorker,
        Self::BlockExecutor,
        Self::AbortTasks,
        Self::Collapse,
        Self::StoreFails,
        Self::StoreForgets,
        Self::FailOver,
        Self::KillPrimary,
        Self::CutAndFailOver,
        Self::PausePrimary,
        Self::PartitionPrimary,
        Self::MoveSlot,
    ];

    /// The kind of its target.
    pub fn victim(self) -> Victim {
        use Fault::*;

        match self {
            KillKept | KillEmpty | KillStale | StopServer | Flush | Evict | OutOfMemory
            | FlushScripts | KillClients | PauseClients | RevokeRights | ClockJump | ClockRate => {
                Victim::Server
            }
            Delay | Jitter | Straggle | Silence | HalfOpen | Reset | Partition | CutReplies
            | Dribble | Duplicate => Victim::Link,
            KillWorker | StopWorker | BlockExecutor | AbortTasks | Collapse => Victim::Worker,
            StoreFails | StoreForgets => Victim::Memory,
            FailOver | KillPrimary | CutAndFailOver | PausePrimary | PartitionPrimary
            | MoveSlot => Victim::Part,
        }
    }
}

/// The target of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "these are the parts of a stage")]
pub enum Victim {
    /// Servers.
    Server,
    /// Links between a worker and a server.
    Link,
    /// Workers.
    Worker,
    /// The memory backend, which is the store of one process.
    Memory,
    /// The part that a server has in a deployment: another server takes it over.
    Part,
}

/// How many servers it concerns at once. One server alone is a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "a quorum knows these two")]
pub enum Extent {
    /// Fewer than half.
    Minority,
    /// More than half.
    Majority,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The name of the variant, in words: `KillEmpty` is `kill-empty`.
        for (at, letter) in format!("{self:?}").char_indices() {
            if letter.is_ascii_uppercase() && at > 0 {
                f.write_str("-")?;
            }
            write!(f, "{}", letter.to_ascii_lowercase())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_list_has_each_once_and_names_are_words() {
        let names: HashSet<String> = Fault::ALL.iter().map(Fault::to_string).collect();
        assert_eq!(names.len(), Fault::ALL.len());
        assert_eq!(Fault::KillEmpty.to_string(), "kill-empty");
        assert_eq!(Fault::HalfOpen.to_string(), "half-open");
    }
}
