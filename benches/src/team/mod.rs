//! Several processes that fight over one key.
//!
//! The benchmark starts its own program again, as a member of the team, once for each process. They
//! talk by lines: the plan and the orders come in through standard input, the outcome goes out
//! through standard output. So a member may as well be a program in another language: see `peers/`.
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
//! What the lock protects is a record in a file, which is read, and written a moment later: an overlap
//! of two holders loses an update, whatever processes they are of. Beside readers a writer makes its count
//! odd for a while, and those with a permit say so in the same file: whoever finds what must not be
//! counts it.

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
