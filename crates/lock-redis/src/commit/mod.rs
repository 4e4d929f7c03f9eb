//! Grants that replicas have confirmed.
//!
//! The committer of a connection has a connection of its own to this run of this server. After a grant it writes
//! a marker there and waits until the replicas have it (`WAIT`). Replication is a prefix, so they have the grant then.
//! A commit covers every grant that was answered before it began, so tasks that ask together share one.
//!
//! The committer knows the term of the server from before the request of the grant. A term never returns. So if the
//! marker was written under that term, the grant was given under it, and no other server has been promoted whose data
//! lack the grant.

mod committer;
mod marker;
mod rounds;
mod verdict;

pub(crate) use self::committer::Committers;
pub(crate) use self::marker::Marker;
pub(crate) use self::verdict::Wish;
