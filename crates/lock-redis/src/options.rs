//! The options of an app that are enums.

/// The version of the protocol to speak.
///
/// # Examples
///
/// ```no_run
/// use lock_redis::{Protocol, RedisBackend};
///
/// # fn main() -> lock_core::Result<()> {
/// let store = RedisBackend::builder("redis://127.0.0.1/").protocol(Protocol::Resp3).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// RESP3 if the server understands it, otherwise RESP2.
    #[default]
    Auto,
    /// RESP2. Watching needs a second connection. Some proxies speak only this version.
    Resp2,
    /// RESP3: watches and requests have one connection. Redis 6 or later.
    Resp3,
}

/// The use of keyspace notifications on the keys of locks.
///
/// With them a waiter also hears of releases by other libraries, of keys that an operator deletes
/// and of evictions. Servers send them only if `notify-keyspace-events` says so; the flags needed
/// are `Kg$xe`. Waiters do not need notifications to wake up when this library releases.
///
/// # Examples
///
/// ```no_run
/// use lock_redis::{Notifications, RedisBackend};
///
/// # fn main() -> lock_core::Result<()> {
/// let store = RedisBackend::builder("redis://127.0.0.1/").notifications(Notifications::Enable).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Notifications {
    /// Watching fails unless the server sends them, and lets this user ask whether it does.
    Require,
    /// Add the missing flags with `CONFIG SET`, and keep the others. A refusal is no error.
    Enable,
    /// Use them if the server sends them. If the server does not let this user ask, listen all the
    /// same.
    #[default]
    IfPresent,
    /// Do not use them.
    Off,
}
