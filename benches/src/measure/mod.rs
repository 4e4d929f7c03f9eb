//! What is done with a contestant.

mod crowd;
mod idle;
mod pairs;
mod passes;
mod pings;
mod section;
mod window;
mod yield_once;

pub use crowd::Crowd;
pub use idle::{Idle, Idleness, Watched};
pub use passes::Passes;
pub use window::Window;

pub(crate) use crowd::crowd;
pub(crate) use idle::idle;
pub(crate) use pairs::pairs;
pub(crate) use passes::passes;
pub(crate) use section::maybe_yield;

pub use pairs::calibrate;
pub use pings::pings;
