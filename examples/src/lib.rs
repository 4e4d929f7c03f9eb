#![doc = include_str!("../../README.md")]

// The examples of these READMEs need several crates. Here they are tests.
#[cfg(doctest)]
#[doc = include_str!("../../crates/lock-redis/README.md")]
struct LockRedis;
#[cfg(doctest)]
#[doc = include_str!("../../crates/lock-redlock/README.md")]
struct LockRedlock;
