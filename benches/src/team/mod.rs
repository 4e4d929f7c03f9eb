//! Several processes that fight over one key.
//!
//! The benchmark starts its own program again for each process, as a member of the team. A member gets its plan and
//! its orders as lines on standard input, and writes its outcome to standard output. So a member can also be a program
//! in another language: see `peers/`.
//!
//! | from the captain | from a member |
//! | --- | --- |
//! | the plan, in JSON | `ready NAMES`, once it is connected, with the commands that its scripts call |
//! | `go` | |
//! | `ask`, in a game by turns | `have`, when its section begins |
//! | `count`: the window begins | |
//! | `stop`: the window ends | what it has counted, in JSON |
//!
//! A member that cannot go on says `failed WHY`. It ends with its standard input.
//!
//! The lock protects a record in a file. A holder reads the record, and writes it a moment later, so an overlap of two
//! holders loses an update, in whichever processes they are. A writer among readers makes the count of the record odd
//! for a while. A holder of a permit leaves a mark in the file. A member counts the forbidden holders that it finds.

mod burner;
mod captain;
mod member;
mod outcome;
mod plan;
mod python;
mod record;
mod row;
mod section;
mod serve;

pub use burner::Burner;
pub use captain::play;
pub use outcome::Outcome;
pub use plan::Plan;
pub use python::{REDIS_PY, python};
pub use row::Row;
pub use serve::{is_member, serve};

pub(crate) use member::member;
pub(crate) use plan::Part;
pub(crate) use serve::Orders;
