//! What fails.

use std::fmt;

/// A way in which something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the table has a row for each")]
pub enum Fault {
    /// A server is killed and comes back with all it had: its log is written at once.
    KillKept,
    /// A server is killed and comes back with nothing.
    KillEmpty,
    /// A server is killed and comes back with a copy from before.
    KillStale,
    /// A server stands still for a while.
    StopServer,
    /// Somebody deletes everything on a server.
    Flush,
    /// A server evicts locks, for it may use no more memory and was told to make room.
    Evict,
    /// A server has no memory for anything new, and was told to evict nothing.
    OutOfMemory,
    /// Somebody makes a server forget its scripts, over and over.
    FlushScripts,
    /// A server closes the connections of all clients, over and over.
    KillClients,
    /// A server keeps clients waiting: those who write, or all.
    PauseClients,
    /// The user of the clients loses rights on a server.
    RevokeRights,
    /// The clock of a server jumps, by less than a lease or by an hour, forward or back.
    ClockJump,
    /// The clock of a server runs too fast or too slow.
    ClockRate,
    /// What goes over a link arrives later.
    Delay,
    /// What goes over a link arrives later, each time by another time.
    Jitter,
    /// What goes over a link in one direction is held back.
    Silence,
    /// What goes over a link is held back in both directions, and neither end hears of it.
    HalfOpen,
    /// A link is closed, over and over.
    Reset,
    /// A link is closed and cannot be opened.
    Partition,
    /// Requests arrive, and the link is closed before their answers have.
    CutReplies,
    /// What goes over a link arrives byte by byte.
    Dribble,
    /// Requests are delivered twice.
    Duplicate,
    /// A worker is killed, and another comes in its place.
    KillWorker,
    /// A worker stands still for a while, shorter or longer than its leases live.
    StopWorker,
    /// The executor of a worker is blocked, shorter or longer than its leases live.
    BlockExecutor,
    /// Tasks of a worker are ended where they stand.
    AbortTasks,
    /// The runtime of a worker ends with all its tasks and guards, and another begins.
    Collapse,
    /// Requests to the memory fail, before or after they were carried out, or hang.
    StoreFails,
    /// The memory forgets everything, as a server that starts empty.
    StoreForgets,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 29] = [
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
    ];

    /// Of what it befalls one or several.
    pub fn victim(self) -> Victim {
        use Fault::*;

        match self {
            KillKept | KillEmpty | KillStale | StopServer | Flush | Evict | OutOfMemory
            | FlushScripts | KillClients | PauseClients | RevokeRights | ClockJump | ClockRate => {
                Victim::Server
            }
            Delay | Jitter | Silence | HalfOpen | Reset | Partition | CutReplies | Dribble
            | Duplicate => Victim::Link,
            KillWorker | StopWorker | BlockExecutor | AbortTasks | Collapse => Victim::Worker,
            StoreFails | StoreForgets => Victim::Memory,
        }
    }
}

/// What something befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "these are the parts of a stage")]
pub enum Victim {
    /// Servers.
    Server,
    /// Links between a worker and a server.
    Link,
    /// Workers.
    Worker,
    /// The memory that is one process's store.
    Memory,
}

/// How many servers it befalls at once. For one server, all is a majority.
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
