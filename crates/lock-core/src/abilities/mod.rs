//! What only some stores can promise, each as a trait of its own: asking a store for what it cannot do
//! does not compile.

mod cell;
mod convert;
mod inspect;
mod joint;
mod permits;
mod quorum;
mod shared;

pub use cell::{Cell, CellBackend, Stored};
pub use convert::{Conversion, ConvertBackend, Convertible, Fixed, Upgradable};
pub use inspect::{Holder, InspectBackend, Inspection, Kind, Waiter};
pub use joint::JointBackend;
pub use permits::{PermitBackend, Permits, Resize, Resized};
pub use quorum::{Ballot, OwnerTag, Quarantine, QuorumNode, Server, Standing, Vote};
pub use shared::SharedBackend;
