//! Measures the cost of locks, side by side.
//!
//! The figures of one library on one day say little: a machine that compiles something else is half as fast. So every
//! figure here is a *ratio in one run*. All contestants use one server and are measured in turn, round by round. The
//! result is the median over the rounds.
//!
//! - [`Contestant`] is one way to lock a key. There is one for this workspace, one for the bare
//!   client, one for each peer and one for `tokio::sync::Mutex`: see [`contestants`].
//! - [`Entrant`] is a contestant with its connected clients.
//! - [`measure`] has the measurements: pairs one after another, a crowd of tasks.
//! - [`Verbs`] are the requests of a lock to its store. [`Meter`] reads their cost for the server.
//! - [`team`] measures several processes.
//! - [`other_build`] is one more row: another build of this program, such as an older one.
//! - [`contest`] compares all locks that follow one [`Rule`], in one process and in several.
//! - [`Rounds`] takes the turns, [`Table`] shows the outcome, and the report has all tables.
//!
//! The loop of the measurement is compiled for every contestant: nothing is boxed or dispatched between two passes.

#![forbid(unsafe_code)]

pub mod contest;
pub mod contestants;
pub mod measure;
pub mod other_build;
pub mod plot;
pub mod team;

mod contestant;
mod cpu;
mod dialogue;
mod effort;
mod entrant;
mod figures;
mod fleet;
mod histogram;
mod meter;
mod node_redlock;
mod report;
mod rounds;
mod rule;
mod server_load;
mod site;
mod stage;
mod table;
mod verbs;

pub use contestant::{Contestant, Failure};
pub use effort::Effort;
pub use entrant::Entrant;
pub use figures::{jain, median, per_second, quantile, quantiles, short};
pub use fleet::{Cost, Fleet};
pub use histogram::Histogram;
pub use meter::{Account, Meter, Meters};
pub use node_redlock::NodeRedlock;
pub use rounds::{Rounds, Series, is_wanted};
pub use rule::{Rule, verdict};
pub use server_load::ServerLoad;
pub use site::Site;
pub use stage::{Setting, Stage};
pub use table::Table;
pub use verbs::Verbs;
