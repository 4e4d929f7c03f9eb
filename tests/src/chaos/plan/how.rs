//! The variants of a fault.

use std::fmt;
use std::time::Duration;

use crate::Direction;

/// The variant of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the nemesis looks at each")]
pub enum How {
    /// The only one.
    Plainly,
    /// By this time: the longest delay; the age of the copy; the time between bytes.
    By(Duration),
    /// By this many milliseconds, forward or back.
    Jump(i64),
    /// By this many microseconds each second, too fast or too slow.
    Rate(i64),
    /// Bytes in this direction.
    Towards(Direction),
    /// These rights.
    Without(Rights),
    /// All clients, or those that write.
    AllClients(bool),
    /// This many.
    Some(u32),
    /// The fault of the memory backend.
    Store(Mischief),
}

/// Rights that the clients need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the stage looks at each")]
pub enum Rights {
    /// To run scripts, without which no request works.
    Scripts,
    /// To send and receive messages, without which waiters have only timers.
    Messages,
    /// To prolong keys, without which leases end.
    Renewals,
}

/// The faults of the memory backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a worker knows these")]
pub enum Mischief {
    /// Requests fail and are not executed.
    Fail,
    /// Some requests are executed and their answers are lost.
    Lose,
    /// Requests hang.
    Hang,
    /// Answers hang.
    HangReplies,
    /// Requests and answers take their time.
    Delay,
    /// The connection is cut.
    Cut,
    /// No hints arrive.
    Mute,
}

impl Rights {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Scripts, Self::Messages, Self::Renewals];
}

impl Mischief {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Fail, Self::Lose, Self::Hang, Self::HangReplies, Self::Delay, Self::Cut, Self::Mute];
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Plainly => Ok(()),
            Self::By(time) => write!(f, " by {time:?}"),
            Self::Jump(millis) if millis < 0 => write!(f, " back {}ms", -millis),
            Self::Jump(millis) => write!(f, " forward {millis}ms"),
            Self::Rate(rate) if rate < 0 => write!(f, " slow {}ppm", -rate),
            Self::Rate(rate) => write!(f, " fast {rate}ppm"),
            Self::Towards(Direction::ToServer) => f.write_str(" to server"),
            Self::Towards(Direction::ToClient) => f.write_str(" to client"),
            Self::Without(rights) => {
                write!(f, " of {}", format!("{rights:?}").to_ascii_lowercase())
            }
            Self::AllClients(true) => f.write_str(" of all"),
            Self::AllClients(false) => f.write_str(" of writers"),
            Self::Some(count) => write!(f, " of {count}"),
            Self::Store(mischief) => write!(f, " {mischief}"),
        }
    }
}

impl fmt::Display for Mischief {
    /// The words for a worker.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fail => "fail",
            Self::Lose => "lose 5",
            Self::Hang => "hang",
            Self::HangReplies => "hang-replies",
            Self::Delay => "delay 40",
            Self::Cut => "cut",
            Self::Mute => "mute",
        })
    }
}
