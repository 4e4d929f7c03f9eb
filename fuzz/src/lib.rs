//! What the fuzz targets share, and what they are for.
//!
//! What comes from outside, who reads it, and what puts that to the test:
//!
//! | what | where it is read | property tests | fuzz target |
//! | --- | --- | --- | --- |
//! | bytes from a server | `wire::capped`, then the `redis` crate | beside `capped` | `server` |
//! | replies | `wire::reply`, `wire::failure` | beside them | `server` |
//! | pushes | `wire::connection`, `wire::pubsub`, `hub::registry`, `hub::inbox`, `hub::entering` | beside them | `server` |
//! | answers of the scripts | `verbs`, `together`, `capabilities` | beside them | `server` |
//! | `INFO`, `CONFIG GET` | `check`, `hub::notifications` | beside them | `server` |
//! | what is at a key | `hub::tracking`, `lock_core::OwnerTag` | beside them | `server`, `values` |
//! | values beside locks | `capabilities::cell` of both backends | beside them | `server` |
//! | URLs, prefixes, times, certificates | `wire::url`, `builder` | beside them | `url` |
//! | names, leases, token numbers | `lock_core::{Key, Ttl, TokenRange}`, `keys` | beside them | `values` |
//! | owners that were written down | `lock_sync::PassedOwner` | beside it | `values` |
//!
//! An election, a cell that is set once and a barrier read their values from `capabilities::cell` and take
//! them as they are; a quorum reads nothing but what its nodes have read.
//!
//! The targets use what is public and nothing else. What a real server says, harmed on its way, is in
//! `tests/garbage`.

pub mod fake;
