//! Where the servers are: one server, the primary that sentinels name, or the primaries of a cluster.

mod extras;
mod fleet;
mod following;
mod map;
mod node;
mod patience;
mod roster;
mod url;

pub(crate) use self::extras::Extras;
pub(crate) use self::fleet::Fleet;
pub(crate) use self::following::watch;
pub(crate) use self::node::{Common, Site};
pub(crate) use self::url::{Service, Target};
