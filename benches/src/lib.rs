//! Measures what locks cost, side by side.
//!
//! The figures of one library on one day say little: a machine that compiles something else is half
//! as fast. So everything here is a *ratio in one run*. All contestants stand before the same server
//! and are measured in turn, round by round, and what counts is the median over the rounds.
//!
//! - [`Contestant`] is one way to lock a key. There is one for this workspace, one for the bare
//!   driver, one for each peer and one for `tokio::sync::Mutex`: see [`contestants`].
//! - [`Entrant`] is a contestant made ready, with its clients connected.
//! - [`measure`] says what is done with it: pairs one after another, a crowd of tasks, two clients
//!   that hand a lock to and fro.
//! - [`Rounds`] takes the turns, [`Table`] shows the outcome.
//!
//! Every contestant runs the same loop, which is compiled for it: nothing is boxed or dispatched
//! between two passes.

#![forbid(unsafe_code)]

pub mod contestants;
pub mod measure;

mod contestant;
mod cpu;
mod effort;
mod entrant;
mod figures;
mod rounds;
mod stage;
mod table;

pub use contestant::{Contestant, Failure};
pub use effort::Effort;
pub use entrant::Entrant;
pub use figures::{jain, median, per_second, quantile, quantiles, short};
pub use rounds::{Rounds, Series};
pub use stage::{Setting, Stage};
pub use table::Table;
