//! What is explored: the protocol and its broken relatives, as data.

/// The most nodes and clients for which there is room in a packed state.
pub(crate) const NODES: usize = 5;
pub(crate) const CLIENTS: usize = 4;

/// A protocol for tokens, the clients and nodes that run it, and the faults that they meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) nodes: usize,
    pub(crate) clients: usize,
    /// The floor that each client brings in its ballots, in the order in which they begin.
    pub(crate) floors: [u8; CLIENTS],
    /// What the nodes gave out before any client began.
    pub(crate) counters: [u8; NODES],

    pub(crate) confirming: Confirming,
    /// Whether a vote that already brings the token counts as confirmed.
    pub(crate) fast: bool,

    /// How many requests for a vote arrive at a node once more, after the lease was lost there.
    pub(crate) repeats: u8,
    /// How often a holder plants its lease anew on a node that lost it.
    pub(crate) replants: u8,
    /// How many nodes restart empty.
    pub(crate) restarts: u8,
    pub(crate) quarantine: Quarantine,

    /// Whether states that differ in nothing that matters are one.
    pub(crate) reduced: bool,
}

/// What a node looks at before it raises its counter to a client's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirming {
    /// No client asks it to: the client's token is the highest of the votes' tokens.
    Never,
    Checking {
        /// Whether the client's lease must still be there.
        owner: bool,
        /// Whether no higher token may have been given out.
        height: bool,
    },
}

/// What a node that restarted empty does before it votes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quarantine {
    None,
    /// It waits until every acquisition that was under way when it restarted is over.
    Waits {
        /// Then it takes the highest counter of the others.
        resyncs: bool,
        /// By how much the floors have risen for clients that begin after it: the time that has passed.
        rise: u8,
        /// Whether clients that began while it waited may still be under way when it votes again.
        straddled: bool,
    },
}

impl Rules {
    /// The protocol, without faults: three nodes, three clients, no floors.
    pub(crate) fn protocol() -> Self {
        Self {
            nodes: 3,
            clients: 3,
            floors: [0; CLIENTS],
            counters: [0; NODES],
            confirming: Confirming::Checking { owner: true, height: true },
            fast: true,
            repeats: 0,
            replants: 0,
            restarts: 0,
            quarantine: Quarantine::None,
            reduced: true,
        }
    }

    pub(crate) fn quorum(&self) -> u32 {
        self.nodes as u32 / 2 + 1
    }

    pub(crate) fn confirms(&self, confirming: Confirming) -> Self {
        Self { confirming, ..*self }
    }

    /// Without the short cut for votes that agree.
    pub(crate) fn slow(&self) -> Self {
        Self { fast: false, ..*self }
    }

    pub(crate) fn floors(&self, floors: [u8; 3]) -> Self {
        let mut all = [floors[2]; CLIENTS];
        all[..3].copy_from_slice(&floors);
        Self { floors: all, ..*self }
    }

    pub(crate) fn counters(&self, counters: [u8; 3]) -> Self {
        let mut all = [0; NODES];
        all[..3].copy_from_slice(&counters);
        Self { counters: all, ..*self }
    }

    pub(crate) fn repeats(&self, repeats: u8) -> Self {
        Self { repeats, ..*self }
    }

    pub(crate) fn replants(&self, replants: u8) -> Self {
        Self { replants, ..*self }
    }

    pub(crate) fn restarts(&self, quarantine: Quarantine) -> Self {
        Self { restarts: 1, quarantine, ..*self }
    }

    pub(crate) fn sized(&self, nodes: usize, clients: usize) -> Self {
        assert!(nodes <= NODES && clients <= CLIENTS, "there is no room for that many");
        Self { nodes, clients, ..*self }
    }

    /// Every state for itself.
    pub(crate) fn unreduced(&self) -> Self {
        Self { reduced: false, ..*self }
    }
}
