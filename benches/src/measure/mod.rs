//! What is done with a contestant.

mod crowd;
mod idle;
mod pairs;
mod passes;
mod pings;
mod section;
mod yield_once;

pub use crowd::{Crowd, Window};
pub use idle::{Idle, Idleness};
pub use passes::Passes;

pub(crate) use crowd::crowd;
pub(crate) use idle::idle;
pub(crate) use pairs::pairs;
pub(crate) use passes::passes;
pub(crate) use section::maybe_yield;

pub use pairs::calibrate;
pub use pings::pings;
