//! The state of all nodes and clients at one moment.

use crate::rules::{CLIENTS, Confirming, NODES, Rules};

/// How many bits a token has here.
const TOKEN: u32 = 5;

/// A state to be remembered: what there is about the nodes, and about the clients.
pub(crate) type Packed = (u128, u128);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    pub(crate) nodes: [Node; NODES],
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) repeats: u8,
    pub(crate) replants: u8,
    pub(crate) restarts: u8,
    /// A quarantine has ended.
    pub(crate) readmitted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// The client that was granted the lock here last. Whether that lease is still alive is left open: it may expire
    /// just before any step.
    pub(crate) owner: Option<u8>,
    /// The highest token that it gave out, as far as it knows.
    pub(crate) counter: u8,
    /// It is in quarantine.
    pub(crate) out: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    /// The highest token of all clients that held the lock before this client began.
    pub(crate) before: u8,
    /// Its token, once it has chosen one.
    pub(crate) token: u8,
    pub(crate) links: [Link; NODES],
    /// The tokens of the votes, until it has chosen.
    pub(crate) votes: [u8; NODES],
    /// It began after the quarantine.
    pub(crate) risen: bool,
    /// It was under way when a node restarted.
    pub(crate) old: bool,
}

impl Client {
    fn has_asked_all(&self, rules: &Rules) -> bool {
        self.links[..rules.nodes].iter().all(|link| *link != Link::Unasked)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It collects votes.
    Voting,
    /// It has chosen a token and has it confirmed.
    Confirming,
    /// It holds the lock, or did.
    Held,
    /// It will never hold the lock. Like a holder, it may have requests under way.
    Gone,
    /// It has not begun.
    #[default]
    Idle,
}

/// What a client has from a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Link {
    /// Its request for a vote has not arrived.
    #[default]
    Unasked,
    Granted,
    Confirmed,
    /// Nothing that could still be of use.
    Over,
}

impl State {
    pub(crate) fn initial(rules: &Rules) -> Self {
        let mut state = Self {
            repeats: rules.repeats,
            replants: rules.replants,
            restarts: rules.restarts,
            ..Self::default()
        };
        for (node, counter) in state.nodes.iter_mut().zip(rules.counters) {
            node.counter = counter;
        }
        state
    }

    /// The same moment for all that can still happen: what makes no difference is dropped, and nodes are
    /// put in an order that does not depend on their names.
    pub(crate) fn reduced(mut self, rules: &Rules) -> Self {
        if !rules.reduced {
            return self;
        }
        for client in 0..rules.clients {
            self.drop_idle_ends(rules, client);
        }
        for at in 0..rules.nodes {
            if let Some(owner) = self.nodes[at].owner
                && self.clients[usize::from(owner)].links[at] != Link::Granted
            {
                self.nodes[at].owner = None;
            }
        }
        self.sort_nodes(rules);
        self
    }

    /// Drops what a client has and cannot use any more, and its hopes if they are vain.
    fn drop_idle_ends(&mut self, rules: &Rules, number: usize) {
        let client = &mut self.clients[number];
        match client.phase {
            Phase::Idle => return,
            Phase::Voting => {
                if !client.has_asked_all(rules) || self.repeats > 0 {
                    return;
                }
                // It had all the answers that it could have, and chose no token.
                client.phase = Phase::Gone;
            }
            Phase::Confirming | Phase::Held | Phase::Gone => {}
        }
        let mut usable = 0;
        for (link, node) in client.links.iter_mut().zip(&self.nodes).take(rules.nodes) {
            let kept = match *link {
                Link::Granted => {
                    (self.repeats > 0 && self.restarts > 0)
                        || is_confirmable(rules, node, number, client.token, self.repeats)
                }
                Link::Confirmed => client.phase == Phase::Confirming,
                Link::Unasked | Link::Over => true,
            };
            if !kept || client.phase == Phase::Gone && *link != Link::Unasked {
                *link = Link::Over;
            }
            usable += u32::from(*link != Link::Over);
        }
        if client.phase == Phase::Confirming && usable < rules.quorum() {
            client.phase = Phase::Gone;
            self.drop_idle_ends(rules, number);
            return;
        }
        if matches!(client.phase, Phase::Held | Phase::Gone) {
            client.before = 0;
            client.old = false;
        }
        if client.phase == Phase::Gone {
            client.token = 0;
            client.votes = [0; NODES];
        }
    }

    fn sort_nodes(&mut self, rules: &Rules) {
        for end in (1..rules.nodes).rev() {
            for at in 0..end {
                if self.column(rules, at) > self.column(rules, at + 1) {
                    self.swap_nodes(rules, at);
                }
            }
        }
    }

    fn swap_nodes(&mut self, rules: &Rules, at: usize) {
        self.nodes.swap(at, at + 1);
        for client in &mut self.clients[..rules.clients] {
            client.links.swap(at, at + 1);
            client.votes.swap(at, at + 1);
        }
    }

    /// All that there is about one node, as a number.
    fn column(&self, rules: &Rules, at: usize) -> u64 {
        let node = self.nodes[at];
        let bits =
            u64::from(node.counter) << 4 | u64::from(owner_bits(node) << 1 | u8::from(node.out));
        self.clients[..rules.clients].iter().fold(bits, |column, client| {
            column << 8 | u64::from(client.votes[at]) << 2 | client.links[at] as u64
        })
    }

    /// The state in as few bits as it needs.
    pub(crate) fn packed(&self, rules: &Rules) -> Packed {
        let (mut nodes, mut clients) = (Bits::default(), Bits::default());
        nodes.push(self.repeats, 2);
        nodes.push(self.replants, 1);
        nodes.push(self.restarts, 1);
        nodes.push(u8::from(self.readmitted), 1);
        for node in &self.nodes[..rules.nodes] {
            nodes.push(node.counter, TOKEN);
            nodes.push(owner_bits(*node) << 1 | u8::from(node.out), 4);
        }
        for client in &self.clients[..rules.clients] {
            clients.push(client.phase as u8, 3);
            clients.push(u8::from(client.risen) << 1 | u8::from(client.old), 2);
            clients.push(client.before, TOKEN);
            clients.push(client.token, TOKEN);
            let is_voting = client.phase == Phase::Voting;
            for at in 0..rules.nodes {
                clients
                    .push(if is_voting { client.votes[at] } else { client.links[at] as u8 }, TOKEN);
            }
        }
        (nodes.all(), clients.all())
    }

    pub(crate) fn unpacked(rules: &Rules, (nodes, clients): Packed) -> Self {
        let mut state = Self::default();
        let (mut nodes, mut clients) = (Bits::from(nodes), Bits::from(clients));
        // In the reverse of the order in which they were pushed.
        for client in state.clients[..rules.clients].iter_mut().rev() {
            let slots: [u8; NODES] =
                std::array::from_fn(|at| if at < rules.nodes { clients.pop(TOKEN) } else { 0 });
            client.token = clients.pop(TOKEN);
            client.before = clients.pop(TOKEN);
            let times = clients.pop(2);
            (client.risen, client.old) = (times & 2 != 0, times & 1 != 0);
            client.phase = Phase::ALL[usize::from(clients.pop(3))];
            for (at, slot) in slots[..rules.nodes].iter().rev().enumerate() {
                if client.phase == Phase::Voting {
                    client.votes[at] = *slot;
                    client.links[at] = if *slot > 0 { Link::Granted } else { Link::Unasked };
                } else {
                    client.links[at] = Link::ALL[usize::from(*slot)];
                }
            }
        }
        for node in state.nodes[..rules.nodes].iter_mut().rev() {
            let all = nodes.pop(4);
            node.owner = (all >> 1).checked_sub(1);
            node.out = all & 1 != 0;
            node.counter = nodes.pop(TOKEN);
        }
        state.readmitted = nodes.pop(1) != 0;
        state.restarts = nodes.pop(1);
        state.replants = nodes.pop(1);
        state.repeats = nodes.pop(2);
        state
    }
}

/// Whether this node may still confirm the token at any time from now on.
fn is_confirmable(rules: &Rules, node: &Node, client: usize, token: u8, repeats: u8) -> bool {
    match rules.confirming {
        Confirming::Never => false,
        Confirming::Checking { owner, height } => {
            let is_owner = node.owner == Some(client as u8) || repeats > 0;
            (!owner || is_owner) && (!height || node.counter <= token)
        }
    }
}

fn owner_bits(node: Node) -> u8 {
    node.owner.map_or(0, |owner| owner + 1)
}

impl Phase {
    const ALL: [Self; 5] = [Self::Voting, Self::Confirming, Self::Held, Self::Gone, Self::Idle];
}

impl Link {
    const ALL: [Self; 4] = [Self::Unasked, Self::Granted, Self::Confirmed, Self::Over];
}

/// A stack of small numbers.
#[derive(Default)]
struct Bits {
    all: u128,
    count: u32,
}

impl Bits {
    fn from(all: u128) -> Self {
        Self { all, count: u128::BITS }
    }

    fn push(&mut self, value: u8, bits: u32) {
        assert!(value < 1 << bits, "a number is too large for its place");
        self.count += bits;
        self.all = self.all << bits | u128::from(value);
    }

    fn pop(&mut self, bits: u32) -> u8 {
        let value = self.all & ((1 << bits) - 1);
        self.all >>= bits;
        value as u8
    }

    fn all(&self) -> u128 {
        assert!(self.count <= u128::BITS, "there are too many parties");
        self.all
    }
}
