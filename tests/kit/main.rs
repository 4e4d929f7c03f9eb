//! Tests of the kit itself: a tool that tests other code must work.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod chaos_worker;
mod clock;
mod etcd;
mod nemesis;
mod orphans;
mod postgres;
mod proxy;
mod server;
mod worker;
