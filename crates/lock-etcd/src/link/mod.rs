//! Connections to the members of a cluster, and the calls of etcd's protocol.

mod calls;
mod encoded;
mod endpoints;
mod era;
mod joining;
mod messages;
mod once;
mod silence;
mod survey;
pub(crate) mod untold;
mod version;
mod wire;

pub(crate) use calls::{Feed, Link};
#[cfg(feature = "tls")]
pub(crate) use endpoints::Certificates;
pub(crate) use endpoints::endpoints;
pub(crate) use messages::{
    Answer, Compare, Event, KeyValue, Operation, Range, Ranged, Response, Transacted, Transaction,
    WatchCreate, Watched,
};
pub(crate) use survey::{Host, Survey, Told};
pub(crate) use version::{Judgement, judge};
