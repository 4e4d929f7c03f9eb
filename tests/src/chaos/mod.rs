//! Runs in which everything that can fail does fail: worker processes that use every primitive in
//! every way, faults from a seed, and checkers that read the events of the workers afterwards.
//!
//! ```text
//!    seed ─► plan ─► run ──starts──► servers, links, workers, resource
//!                     │                           │ events, one file each
//!              nemesis, fault by fault            ▼
//!                     └────────────► history ─► check ─► violations, less what the table excludes
//! ```
//!
//! - [`Plan`]: the steps of a run, from a seed.
//! - [`stage`]: servers, links and workers, the targets of the faults.
//! - [`Nemesis`]: executes the plan.
//! - [`history`]: the events, as the workers write them.
//! - [`resource`]: the protected resource. It checks fencing tokens, and knows which tasks are
//!   inside.
//! - [`check`]: the broken promises, by properties.
//! - [`run()`]: all of this, once; [`Suite`]: many times; [`soak()`]: for a long time.
//! - [`table`]: which faults excuse which of them, over which store.

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
