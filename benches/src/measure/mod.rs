//! What is done with a contestant.

mod crowd;
mod pairs;
mod ping_pong;

pub use crowd::{Crowd, Window};
pub use ping_pong::PingPong;

pub(crate) use crowd::crowd;
pub(crate) use pairs::pairs;
pub(crate) use ping_pong::ping_pong;

pub use pairs::calibrate;
