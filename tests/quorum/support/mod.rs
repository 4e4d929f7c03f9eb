//! What the tests share.

mod client;
mod clocks;
mod crew;
mod forgetting;
#[path = "../../behaviour/support/history.rs"]
mod history;
mod ledger;
mod nodes;

use std::time::Duration;

pub(crate) use lock_tests::{SOON, soon};

pub(crate) use self::client::{Client, Quorum, builder};
pub(crate) use self::clocks::Clocks;
pub(crate) use self::crew::Crew;
pub(crate) use self::forgetting::Forgetting;
pub(crate) use self::ledger::{Ledger, Role};
pub(crate) use self::nodes::Nodes;

/// The lease of clients that renew.
pub(crate) const LEASE: Duration = Duration::from_millis(1_500);

/// The longest lease. A server that may have forgotten leases is quarantined for so long and a little more.
pub(crate) const MAX_TTL: Duration = Duration::from_millis(2_500);

/// A lease that outlasts any test.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// How long a server may take to answer.
pub(crate) const NODE_TIMEOUT: Duration = Duration::from_millis(700);

/// What a loaded machine may add.
pub(crate) const SLACK: Duration = Duration::from_secs(3);
