//! In which of its ways something fails.

use std::fmt;
use std::time::Duration;

use crate::Direction;

/// In which of its ways something fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "whoever carries it out looks at each")]
pub enum How {
    /// There is only one.
    Plainly,
    /// By this time: how much later, at the most; how old the copy is; how long between bytes.
    By(Duration),
    /// By so many milliseconds, forward or back.
    Jump(i64),
    /// By so many microseconds each second, too fast or too slow.
    Rate(i64),
    /// What goes this way.
    Towards(Direction),
    /// These rights.
    Without(Rights),
    /// Everybody, or those who write.
    Everybody(bool),
    /// So many.
    Some(u32),
    /// What the store does.
    Store(Mischief),
}

/// Rights that the clients need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "whoever takes them away looks at each")]
pub enum Rights {
    /// To run scripts, without which nothing is to be had.
    Scripts,
    /// To send and receive messages, without which whoever waits has only time.
    Messages,
    /// To let keys live longer, without which leases end.
    Renewals,
}

/// What the memory does that is a store which fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a worker knows these")]
pub enum Mischief {
    /// Requests fail and are not carried out.
    Fail,
    /// Some requests are carried out and their answers are lost.
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
            Self::Everybody(true) => f.write_str(" of all"),
            Self::Everybody(false) => f.write_str(" of writers"),
            Self::Some(count) => write!(f, " of {count}"),
            Self::Store(mischief) => write!(f, " {mischief}"),
        }
    }
}

impl fmt::Display for Mischief {
    /// As a worker is told.
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
