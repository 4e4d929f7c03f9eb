//! Stores that keep one document for each key, and change it by compare-and-swap.
//!
//! [`DocumentBackend`] makes a backend of any such [`DocumentStore`]. A [`Document`] is the state of one key, with the
//! decision about each request. A store that can do more than swap a row decides by a [`Document`] itself: see the
//! [example](Document#examples).

#![cfg_attr(
    not(feature = "memory"),
    allow(dead_code, unused_imports, reason = "the memory backend alone forgets")
)]

mod backend;
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
mod store;
mod together;
mod visit;
mod voting;

pub use self::backend::DocumentBackend;
pub use self::codec::StoredParty;
pub use self::entry::Document;
pub use self::store::{DocumentStore, Row};
pub use self::visit::{Audience, Party, Visit};

pub(crate) use self::fence::{Fence, Ticks};
pub(crate) use self::together::Prospect;
