//! The parties: nodes with their records, clients with what they know of the nodes, and a call that replaces a node.

use std::ops::Range;

/// The most nodes and clients: with five nodes in a quorum, the sixth takes the place of the first.
pub(crate) const NODES: usize = 6;
pub(crate) const CLIENTS: usize = 3;

/// For how many ticks a look at the membership of a node is good for renewals. The call that replaces a node waits
/// longer.
pub(crate) const LOOK: u8 = 1;

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// The size of the quorum.
    pub(crate) nodes: usize,
    /// The nodes of each client.
    pub(crate) clients: [Members; CLIENTS],
    /// For how many ticks of the clock a lease lives.
    pub(crate) lease: u8,
    /// A node is replaced at some time.
    pub(crate) replaces: bool,
    /// Clients stay until they may vouch for a node.
    pub(crate) vouches: bool,
    /// How many nodes restart without their leases. They keep their membership.
    pub(crate) restarts: u8,
    /// How many nodes lose their leases and their record.
    pub(crate) losses: u8,
    /// What is done wrong, if anything is.
    pub(crate) flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A node votes while it is in quarantine.
    VotesInQuarantine,
    /// A node does not compare its record with the one that the ballot expects.
    ComparesNoRecord,
    /// A client vouches for a node when it first sees the quarantine.
    VouchesAtOnce,
    /// The clock of a node ends the quarantine after half a lease.
    EndsAtOnce,
    /// A holder counts the renewals of nodes whose membership it has not looked at.
    RenewsUnseen,
    /// The nodes that stay become members of the new quorum before the new node begins its quarantine.
    JoinsEarly,
    /// The call does not wait until former members renew no lease any more.
    WaitsForNoLook,
    /// The new node votes at once.
    AdmitsVoting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct State {
    pub(crate) nodes: [Node; NODES],
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) call: Call,
    pub(crate) restarts: u8,
    pub(crate) losses: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) record: Record,
    /// The client that has the lease, and for how many ticks.
    pub(crate) lease: Option<(u8, u8)>,
    /// The call that replaces a node knows that this node left the former membership.
    pub(crate) has_left: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Record {
    /// There is none.
    Blank,
    /// Of an earlier run of the server.
    Old(Members),
    /// The node is in quarantine, for so many more ticks by its clock.
    Out(Members, u8),
    Votes(Members),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Members {
    Former,
    /// The last node takes the place of the first.
    New,
    /// No quorum: the node is leaving the former one. A client without nodes does nothing.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Client {
    pub(crate) members: Members,
    pub(crate) ties: [Tie; NODES],
}

/// A client and a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tie {
    /// The record by which the client knows the node as a member: ballots expect it.
    pub(crate) known: Option<Known>,
    /// For how many ticks the client has seen the present quarantine.
    pub(crate) watched: Option<u8>,
    /// For how many more ticks the last look at the membership is good for renewals.
    pub(crate) looked: Option<u8>,
    /// For how many more ticks the client counts the node's vote.
    pub(crate) vote: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Known {
    Present,
    /// The node has another record by now.
    Past,
}

/// The call that replaces a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Call {
    ToCome,
    /// The nodes that stay leave the former membership.
    Leaving,
    /// For how many more ticks the call waits.
    Waiting(u8),
    /// The new node is in quarantine. The nodes that stay become members together with it.
    Joining,
}

impl Manner {
    pub(crate) fn needed(&self) -> usize {
        self.nodes / 2 + 1
    }

    /// For how many ticks a quarantine lasts by the clock of the node.
    pub(crate) fn clock(&self) -> u8 {
        2 * self.lease
    }

    /// The node that takes the place of the first.
    pub(crate) fn added(&self) -> usize {
        self.nodes
    }

    pub(crate) fn staying(&self) -> Range<usize> {
        1..self.nodes
    }

    pub(crate) fn nodes_of(&self, members: Members) -> Range<usize> {
        match members {
            Members::Former => 0..self.nodes,
            Members::New => 1..self.nodes + 1,
            Members::None => 0..0,
        }
    }
}

impl State {
    pub(crate) fn initial(manner: Manner) -> Self {
        let node = |record| Node { record, lease: None, has_left: false };
        let mut nodes = [node(Record::Votes(Members::Former)); NODES];
        nodes[manner.added()..].fill(node(Record::Blank));
        let client = |members| Client { members, ties: Default::default() };
        let state = Self {
            nodes,
            clients: manner.clients.map(client),
            call: Call::ToCome,
            restarts: manner.restarts,
            losses: manner.losses,
        };
        state.reduced(manner)
    }

    pub(crate) fn is_fault(&self, manner: Manner) -> bool {
        self.clients.iter().filter(|client| client.is_holder(manner)).count() > 1
    }

    /// A node has another record now.
    pub(crate) fn record(&mut self, at: usize, record: Record) {
        let before = std::mem::replace(&mut self.nodes[at].record, record);
        if before == record {
            return;
        }
        let is_out = |record| matches!(record, Record::Out(..));
        for tie in self.clients.iter_mut().map(|client| &mut client.ties[at]) {
            tie.known = tie.known.map(|_| Known::Past);
            tie.watched = tie.watched.filter(|_| is_out(before) && is_out(record));
        }
    }

    /// A tick of all clocks.
    pub(crate) fn tick(&mut self, manner: Manner) {
        for node in &mut self.nodes {
            node.lease = node.lease.filter(|(_, left)| *left > 1).map(|(by, left)| (by, left - 1));
            if let Record::Out(_, left) = &mut node.record {
                *left = left.saturating_sub(1);
            }
        }
        for tie in self.clients.iter_mut().flat_map(|client| &mut client.ties) {
            tie.watched = tie.watched.map(|watched| (watched + 1).min(manner.lease));
            tie.looked = tie.looked.and_then(|left| left.checked_sub(1));
            tie.vote = tie.vote.saturating_sub(1);
        }
        if let Call::Waiting(left) = &mut self.call {
            *left = left.saturating_sub(1);
        }
    }

    /// Has every client look at every member, and leaves out what makes no difference.
    pub(crate) fn reduced(mut self, manner: Manner) -> Self {
        for (number, client) in self.clients.iter_mut().enumerate() {
            for at in manner.nodes_of(client.members) {
                let Node { record, lease, .. } = self.nodes[at];
                let tie = &mut client.ties[at];
                let is_member = record.is_present(client.members);
                if is_member {
                    tie.known = Some(Known::Present);
                    tie.looked = Some(LOOK);
                }
                if is_member && matches!(record, Record::Out(..)) {
                    tie.watched = tie.watched.or(Some(0));
                }
                // Only a lease can be renewed.
                let has_lease = lease.is_some_and(|(by, _)| usize::from(by) == number);
                tie.looked = tie.looked.filter(|_| has_lease);
            }
        }
        self.sort(if manner.replaces { manner.staying() } else { 0..manner.nodes });
        self
    }

    /// Sorts nodes that play one part.
    fn sort(&mut self, range: Range<usize>) {
        let node = |at: usize| (self.nodes[at], self.clients.map(|client| client.ties[at]));
        let mut all: Vec<_> = range.clone().map(node).collect();
        all.sort_unstable();
        for (at, (node, ties)) in range.zip(all) {
            self.nodes[at] = node;
            for (client, tie) in self.clients.iter_mut().zip(ties) {
                client.ties[at] = tie;
            }
        }
    }
}

impl Client {
    pub(crate) fn is_holder(&self, manner: Manner) -> bool {
        self.ties.iter().filter(|tie| tie.vote > 0).count() >= manner.needed()
    }

    /// Whether the client knows that enough nodes are members to be one quorum.
    pub(crate) fn has_quorum(&self, manner: Manner) -> bool {
        self.ties.iter().filter(|tie| tie.known.is_some()).count() >= manner.needed()
    }
}

impl Record {
    /// Whether ballots may expect this record, in the quorum of these members.
    pub(crate) fn is_present(self, members: Members) -> bool {
        matches!(self, Self::Out(it, _) | Self::Votes(it) if it == members)
    }

    pub(crate) fn members(self) -> Option<Members> {
        match self {
            Self::Blank => None,
            Self::Old(members) | Self::Out(members, _) | Self::Votes(members) => Some(members),
        }
    }

    /// The record after a look on behalf of these members. It begins a quarantine if there is no record of this run.
    pub(crate) fn seen(self, members: Members, clock: u8) -> Self {
        match self {
            Self::Blank => Self::Out(members, clock),
            // A restart ends no membership.
            Self::Old(members) => Self::Out(members, clock),
            it => it,
        }
    }

    /// The record after the node has left one membership for another.
    pub(crate) fn reassigned(self, (from, to): (Members, Members), clock: u8) -> Self {
        match self.seen(to, clock) {
            Self::Out(it, left) if it == from => Self::Out(to, left),
            Self::Votes(it) if it == from => Self::Votes(to),
            it => it,
        }
    }
}
