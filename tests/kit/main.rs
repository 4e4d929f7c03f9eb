//! The kit itself: a tool that proves others must work.

mod orphans;
mod proxy;
mod server;
mod worker;
