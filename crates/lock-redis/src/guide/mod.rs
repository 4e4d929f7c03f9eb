//! Pages about Redis as the store of locks.
//!
//! | page | the question that it answers |
//! | --- | --- |
//! | [`history`] | Why is a lock more than `SETNX`? Which designs came before, and how did each fail? |
//! | [`keyspace_notifications`] | Which events does a server send, what does [`Notifications`](crate::Notifications) do, and which event wakes which waiter? |
//! | [`persistence`] | What does a restart forget with RDB, with AOF and with each `appendfsync`, and what protects locks from that? |
//! | [`rolling_upgrades`] | How do I replace clients and servers while locks are held, and which versions may run at once? |
//!
//! The pages about locks in general are in the [guide of lock-sync](https://docs.rs/lock-sync/latest/lock_sync/guide/).

#[doc = include_str!("history.md")]
pub mod history {}

#[doc = include_str!("keyspace_notifications.md")]
pub mod keyspace_notifications {}

#[doc = include_str!("persistence.md")]
pub mod persistence {}

#[doc = include_str!("rolling_upgrades.md")]
pub mod rolling_upgrades {}
