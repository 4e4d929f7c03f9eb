//! The state of one key, and what each request makes of it: pure decisions, for a store that keeps a document per
//! key. [`Document`] has an [example](Document#examples).

mod codec;
mod converting;
mod counting;
mod entry;
mod fence;
mod inspecting;
mod keeping;
mod leases;
mod queue;
mod room;
mod semaphore;
mod serving;
mod together;
mod visit;
mod voting;

pub use self::codec::StoredParty;
pub use self::entry::Document;
pub use self::visit::{Audience, Party, Visit};

pub(crate) use self::fence::{Fence, Ticks};
pub(crate) use self::together::Prospect;
