//! The capabilities that only some stores have, each as a trait of its own. Code that asks a store for a capability
//! that it lacks does not compile.

mod any;
mod cell;
mod convert;
mod describe;
mod inspect;
mod joint;
mod listing;
mod permits;
mod quorum;
mod shared;

pub use any::AnyBackend;
pub use cell::{Cell, CellBackend, Committed, LoadedValue, Stored};
pub use convert::{Conversion, ConvertBackend, Convertible, Fixed, Upgradable};
pub use describe::{Capabilities, Capability};
pub use inspect::{Holder, InspectBackend, Inspection, Kind, Waiter};
pub use joint::JointBackend;
pub use listing::{Cursor, List, Listed, Page};
pub use permits::{PermitBackend, Permits, Resize, Resized};
pub use quorum::{
    Ballot, Ending, Membership, OwnerTag, Quarantine, QuorumNode, Server, Standing, Terms, Vote,
};
pub use shared::SharedBackend;
