//! Runs in which everything fails that can: worker processes that take every primitive in every way,
//! faults from a seed, and checkers that read afterwards what the workers have written down.
//!
//! ```text
//!    seed ─► plan ─► run ──starts──► servers, links, workers, resource
//!                     │                           │ events, one file each
//!              nemesis, fault by fault            ▼
//!                     └────────────► history ─► check ─► violations, less what the table excludes
//! ```
//!
//! - [`Plan`]: what is to happen, from a seed.
//! - [`stage`]: servers, links and workers, which all of it befalls.
//! - [`Nemesis`]: whoever lets it happen.
//! - [`history`]: what happened, as the workers write it down while it happens.
//! - [`resource`]: what the locks protect. It checks fencing tokens, and sees who is inside.
//! - [`check`]: what of that must not be, by properties.
//! - [`run()`]: all of that, once; [`Suite`]: many times; [`soak()`]: for a long time.
//! - [`table`]: which faults excuse which of them, where.

pub mod check;
mod deployment;
mod fault;
pub mod history;
mod nemesis;
mod plan;
pub mod resource;
mod run;
pub mod stage;
pub mod table;

pub use deployment::Deployment;
pub use fault::{Extent, Fault, Victim};
pub use nemesis::{Carried, NEMESIS, Nemesis};
pub use plan::{How, Mischief, Plan, Rights, Scope, Step};
pub use run::{Report, Soaked, Suite, Summary, run, soak};
