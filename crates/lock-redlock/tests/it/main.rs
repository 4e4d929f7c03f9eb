//! What a quorum promises, over stores in this process.

mod conformance;
mod support;
mod votes;
