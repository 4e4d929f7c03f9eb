//! Pages for users of the locks: what to choose, how to test, what each error means.
//!
//! The tests of this crate compile every snippet on these pages, and run most of them.
//!
//! | page | the question that it answers |
//! | --- | --- |
//! | [`requirements`] | What can I ask of a distributed lock, and where is it in this library? |
//! | [`choosing_a_ttl`] | How long should a lease live? |
//! | [`fencing`] | How does my database, my object storage or my HTTP service refuse a late write? |
//! | [`stored_values`] | How do I keep a small value beside the lock, so that all processes share it? |
//! | [`errors`] | What does this error mean, and what should my code do? |
//! | [`observing`] | How do I observe waiters, waiting times and lost leases? |
//! | [`testing`] | How do I test code that locks, without a server and without waiting? |
//! | [`patterns`] | How do I write a cron job on one replica, a leader, a rate limit, a sequence without gaps, a balance with a floor, a job that runs once, a schema migration? |
//! | [`resizing`] | How does a deployment change the number of permits of a semaphore, and what happens while old and new processes run? |
//! | [`migration`] | Which calls replace those of redis-py, redsync, Redisson or etcd's `concurrency`? |
//!
//! Code that uses `tokio::sync` today starts with [`from_tokio`](crate::from_tokio). The pages about Redis itself are
//! in the [guide of lock-redis](https://docs.rs/lock-redis/latest/lock_redis/guide/): keyspace notifications,
//! persistence, the history of Redis locks, and rolling upgrades.

#[doc = include_str!("choosing_a_ttl.md")]
pub mod choosing_a_ttl {}

#[doc = include_str!("errors.md")]
pub mod errors {}

#[doc = include_str!("fencing.md")]
pub mod fencing {}

#[doc = include_str!("migration.md")]
pub mod migration {}

#[doc = include_str!("observing.md")]
pub mod observing {}

#[doc = include_str!("patterns.md")]
pub mod patterns {}

#[doc = include_str!("requirements.md")]
pub mod requirements {}

#[doc = include_str!("resizing.md")]
pub mod resizing {}

#[doc = include_str!("stored_values.md")]
pub mod stored_values {}

#[doc = include_str!("testing.md")]
pub mod testing {}
