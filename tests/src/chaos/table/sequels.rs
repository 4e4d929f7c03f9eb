//! What faults exclude long after they were healed.

use super::{AWAY, FORGETS, LINKS};
use crate::chaos::Deployment;
use crate::chaos::Fault::{self, ClockJump, Duplicate};

/// Whether tokens may decrease after the first fault and then the second, wherever the first was healed in
/// between.
pub fn sets_tokens_back(deployment: Deployment, first: Fault, then: Fault) -> bool {
    // Over a quorum, votes follow the clocks of clients, but the tokens of renewals follow the clocks of servers.
    let follows_servers = deployment.servers() == 1 || matches!(deployment, Deployment::Quorum(_));
    follows_servers && first == ClockJump && FORGETS.contains(&then)
}

/// The reason why tokens may decrease.
pub const SETS_TOKENS_BACK: &str = "the server has forgotten the tokens that it gave out when its clock was ahead, and follows the clock again";

/// Whether a node may miss a write under this fault.
pub fn keeps_writes_away(fault: Fault) -> bool {
    AWAY.contains(&fault) || LINKS.contains(&fault) && fault != Duplicate
}

/// The reason why a value of a quorum may be gone.
pub const MISSES_VALUES: &str = "the quorum copies a value to no node later, so the nodes that missed the value and the nodes that \
                                 lost it may be a majority";

/// The paragraphs of the page.
pub(super) fn text() -> String {
    format!(
        "\n\nOn one server and over a quorum, after `clock-jump` a fault that makes it forget excludes tokens, resource, commits and snapshots as well, \
         to the end of the run: {SETS_TOKENS_BACK}.\n\n\
         A fault that makes a minority of a quorum forget excludes values, commits and snapshots, to the end of the run, if \
         earlier faults kept writes from other nodes, and all these nodes are a majority together: {MISSES_VALUES}.\n\n\
         After `clock-jump`, a write that follows a write without an answer may be refused (`NotReady`), to the end of the run: \
         servers whose clock was ahead give a lease no further tokens until their clocks have caught up, and the other servers of \
         a quorum follow"
    )
}
