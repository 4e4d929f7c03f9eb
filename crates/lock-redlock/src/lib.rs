//! A lock held by a majority of independent backends.
//!
//! There is nothing here yet. The crate holds the place in the workspace: a quorum is itself a
//! [`Backend`](lock_core::Backend), over any other, so it depends on `lock-core` alone.

#![forbid(unsafe_code)]
