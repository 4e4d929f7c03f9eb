//! The state of one key, and how each request changes it: pure decisions, for a store that keeps one document for
//! each key. [`Document`] has an [example](Document#examples).

#![cfg_attr(
    not(feature = "memory"),
    allow(dead_code, unused_imports, reason = "the memory backend alone forgets")
)]

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
