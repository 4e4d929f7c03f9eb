//! The choices that an app has, where one word says which.

/// Which version of the protocol to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// RESP3 if the server understands it, or else RESP2.
    #[default]
    Auto,
    /// RESP2. Watching takes a second connection. Some proxies speak nothing else.
    Resp2,
    /// RESP3: watches share the connection of the requests. Redis 6 or later.
    Resp3,
}

/// What to do about keyspace notifications on the keys of locks.
///
/// With them a waiter also hears of releases by other libraries, of keys that an operator deletes
/// and of evictions. Servers do not send them unless `notify-keyspace-events` says so; what is
/// needed is `Kg$xe`. None of it is needed for waiters to wake up when this library releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Notifications {
    /// Watching fails unless the server sends them, and lets us ask whether it does.
    Require,
    /// Add the flags that are missing with `CONFIG SET`. The others stay. A server that refuses is
    /// no error.
    Enable,
    /// Use them if the server sends them. If it does not let us ask, listen all the same.
    #[default]
    IfPresent,
    /// Do without.
    Off,
}
