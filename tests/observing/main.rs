//! What an observer of one of two clients hears while both use a lock on real servers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod diary;
mod etcd;
mod health;
mod locks;
mod meddling;
mod nodes;
mod postgres;
mod reconnecting;
mod servers;
mod times;
