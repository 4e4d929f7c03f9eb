//! Which server each node is, so that no server votes twice, and to which quorum the node belongs.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, Instant, Membership, Standing};

use crate::guarded::Guarded;
use crate::inner::invalid;

/// How long a look at the membership of a node counts for renewals.
///
/// A node that has changed its membership renews leases for clients of its former quorum for no longer than this.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

/// How long to wait before asking a node again that could not tell its standing.
const UNTOLD: Duration = Duration::from_secs(5);

/// What is known about the servers behind the nodes.
#[derive(Debug)]
pub(crate) struct Register {
    membership: Membership,
    slots: Guarded<Vec<Slot>>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    identity: Identity,
    /// Whether the node was a member of this quorum when it last told its standing.
    is_member: bool,
    /// When the last request that found the node to be a member was sent.
    looked: Option<Instant>,
}

/// What a node has told of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The node has not answered yet.
    #[default]
    New,
    /// The node can tell its standing. If this is `None`, the node does not vote until it has told its standing again.
    Told(Option<Arc<Standing>>),
    /// The node can tell neither which server it is nor whether it has forgotten leases, so it cannot be in quarantine.
    /// The quorum asked it at this time. If this is `None`, the quorum asks it again.
    Untold(Option<Instant>),
}

impl Register {
    pub(crate) fn new(nodes: usize, membership: Membership) -> Self {
        Self { membership, slots: Guarded::new(vec![Slot::default(); nodes]) }
    }

    /// The standing of a node, or `Some(None)` if the node cannot tell it. `None` if the quorum has to ask.
    pub(crate) fn get(&self, node: usize, now: Instant) -> Option<Option<Arc<Standing>>> {
        match &self.slots.lock()[node].identity {
            Identity::Told(standing) => standing.clone().map(Some),
            Identity::Untold(Some(asked)) if is_within(UNTOLD, *asked, now) => Some(None),
            _ => None,
        }
    }

    /// Notes the standing of a node, from the answer to a request that was sent at this time. Fails with the number of
    /// another node that is the same server.
    pub(crate) fn enter(
        &self,
        node: usize,
        standing: &Arc<Standing>,
        sent: Instant,
    ) -> Result<(), usize> {
        let mut slots = self.slots.lock();
        let server = &standing.server;
        let is_same = |slot: &Slot| matches!(&slot.identity, Identity::Told(Some(other)) if other.server == *server);
        let twin = (0..slots.len()).find(|&other| other != node && is_same(&slots[other]));
        let slot = &mut slots[node];
        slot.identity = Identity::Told(twin.is_none().then(|| Arc::clone(standing)));
        if let Some(twin) = twin {
            return Err(twin);
        }
        slot.is_member = standing.membership == self.membership;
        slot.looked = slot.looked.max(Some(sent)).filter(|_| slot.is_member);
        Ok(())
    }

    /// Notes that a node cannot tell which server it is, unless it could tell that before. Returns what it has told
    /// before.
    pub(crate) fn enter_untold(&self, node: usize, now: Instant) -> Identity {
        let slot = &mut self.slots.lock()[node];
        match slot.identity {
            Identity::Told(_) => slot.identity.clone(),
            _ => std::mem::replace(&mut slot.identity, Identity::Untold(Some(now))),
        }
    }

    /// Forgets which server a node is, and to which quorum it belongs. The node has to tell both again.
    pub(crate) fn forget(&self, node: usize) {
        let slot = &mut self.slots.lock()[node];
        slot.looked = None;
        match &mut slot.identity {
            Identity::New => {}
            Identity::Told(standing) => *standing = None,
            Identity::Untold(asked) => *asked = None,
        }
    }

    /// Notes that the answer to a request that was sent at this time found the node to be a member.
    pub(crate) fn saw_member(&self, node: usize, sent: Instant) {
        let slot = &mut self.slots.lock()[node];
        slot.looked = slot.looked.max(Some(sent));
    }

    /// Whether the last request that found the node to be a member is recent enough.
    pub(crate) fn is_member_within(&self, node: usize, time: Duration, now: Instant) -> bool {
        self.slots.lock()[node].looked.is_some_and(|looked| is_within(time, looked, now))
    }

    /// How many nodes were members when they last told their standing.
    pub(crate) fn members(&self) -> usize {
        self.slots.lock().iter().filter(|slot| slot.is_member).count()
    }
}

fn is_within(time: Duration, since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) <= time
}

pub(crate) fn twins(name: &str, other: &str) -> Error {
    // Nodes answer in any order.
    let (first, second) = (name.min(other), name.max(other));
    invalid(format!("the nodes {first} and {second} are the same server, which has one vote"))
}

#[cfg(test)]
mod tests {
    use lock_core::{Quarantine, Server};

    use super::*;

    fn standing(server: &str, nodes: [&str; 3]) -> Arc<Standing> {
        let (server, quarantine) = (Server::new(server), Quarantine::new("q"));
        Arc::new(Standing::new(server, quarantine, None, Membership::of(nodes), "record"))
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    const ABC: [&str; 3] = ["a", "b", "c"];

    fn tells(register: &Register, node: usize, now: Instant) -> Option<bool> {
        register.get(node, now).map(|standing| standing.is_some())
    }

    #[test]
    fn a_server_is_entered_once() {
        let register = Register::new(3, Membership::of(ABC));
        let [a, b] = ["a", "b"].map(|server| standing(server, ABC));
        let now = at(1);
        assert_eq!(register.enter(0, &a, now), Ok(()));
        assert_eq!(register.enter(0, &a, now), Ok(()));
        assert_eq!(register.enter(1, &a, now), Err(0));
        assert_eq!(tells(&register, 1, now), None);
        assert_eq!(register.enter(1, &b, now), Ok(()));
        assert_eq!(tells(&register, 1, now), Some(true));
        // After a failover two names may lead to one server.
        register.forget(1);
        assert_eq!(register.enter(1, &a, now), Err(0));
        register.forget(0);
        assert_eq!(register.enter(1, &a, now), Ok(()));
    }

    #[test]
    fn a_node_that_cannot_tell_is_asked_again_and_one_that_could_must() {
        let register = Register::new(2, Membership::of(ABC));
        assert_eq!(register.enter_untold(0, at(0)), Identity::New);
        assert_eq!(tells(&register, 0, at(5_000)), Some(false));
        assert_eq!(tells(&register, 0, at(5_001)), None);
        assert_eq!(register.enter_untold(0, at(5_001)), Identity::Untold(Some(at(0))));
        register.forget(0);
        assert_eq!(tells(&register, 0, at(5_002)), None);
        assert_eq!(register.enter_untold(0, at(5_002)), Identity::Untold(None));
        assert_eq!(register.enter(0, &standing("a", ABC), at(6_000)), Ok(()));
        assert!(matches!(register.enter_untold(0, at(7_000)), Identity::Told(_)));
        assert_eq!(tells(&register, 0, at(90_000)), Some(true));
    }

    #[test]
    fn a_membership_is_known_for_a_moment() {
        let register = Register::new(3, Membership::of(ABC));
        assert!(!register.is_member_within(0, LOOK, at(0)));
        register.enter(0, &standing("a", ABC), at(100)).unwrap();
        assert!(register.is_member_within(0, LOOK, at(600)));
        assert!(!register.is_member_within(0, LOOK, at(601)));
        register.forget(0);
        assert!(!register.is_member_within(0, LOOK, at(600)));
        register.saw_member(0, at(200));
        register.saw_member(0, at(150));
        assert!(register.is_member_within(0, LOOK, at(700)));
        assert_eq!(register.members(), 1);
        register.enter(0, &standing("a", ["a", "b", "d"]), at(300)).unwrap();
        assert!(!register.is_member_within(0, LOOK, at(300)));
        assert_eq!(register.members(), 0);
    }
}
