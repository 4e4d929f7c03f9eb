//! The measurements of a contestant.

mod crowd;
mod idle;
mod memory;
mod pairs;
mod passes;
mod pings;
mod section;
mod verbs;
mod window;
mod yield_once;

pub use crowd::Crowd;
pub use idle::{Idle, Idleness, Watched};
pub use memory::{Room, memory};
pub use passes::Passes;
pub use verbs::{AT_ONCE, VerbCost, verbs};
pub use window::Window;

pub(crate) use crowd::crowd;
pub(crate) use idle::idle;
pub(crate) use pairs::pairs;
pub(crate) use passes::passes;
pub(crate) use section::maybe_yield;
pub(crate) use window::{nanos, number};

pub use pairs::calibrate;
pub use pings::pings;
