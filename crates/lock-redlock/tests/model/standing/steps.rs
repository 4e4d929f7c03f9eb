//! What can happen next.
//!
//! Clients look at every member all the time, and have a ballot under way that expects what they saw last: a client
//! that looks or asks later does no more. A request and its answer are one step for the same reason, since the client
//! dates a vote from before the request was sent. A client does not give its votes back. They end with their leases,
//! which lets the other client have the lock later, and never both.

use super::state::{Call, Flaw, Known, LOOK, Manner, Members, Node, Record, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A client asks a node for its standing, and so begins or ends a quarantine.
    Look {
        client: usize,
        node: usize,
    },
    /// A client that has watched a quarantine for a whole lease ends it.
    Vouch {
        client: usize,
        node: usize,
    },
    /// A node votes for a client.
    Vote {
        client: usize,
        node: usize,
    },
    Renew {
        client: usize,
        node: usize,
    },
    /// A node restarts without its leases.
    Restart {
        node: usize,
    },
    /// A node loses its leases and its record.
    Lose {
        node: usize,
    },
    /// The call begins to replace a node.
    Call,
    /// A node that stays leaves the former membership.
    Leave {
        node: usize,
    },
    /// The new node begins its quarantine.
    Admit,
    /// A node that stays becomes a member of the new quorum.
    Join {
        node: usize,
    },
    Tick,
}

/// Each state that can follow, and the step to it.
pub(crate) fn next(manner: Manner, state: &State, steps: &mut Vec<(Step, State)>) {
    let mut it = Steps { manner, from: state, steps };
    for client in 0..state.clients.len() {
        for node in manner.nodes_of(state.clients[client].members) {
            it.look(client, node);
            it.vouch(client, node);
            it.vote(client, node);
            it.renew(client, node);
        }
    }
    for node in 0..=manner.nodes {
        it.fail(node);
    }
    if manner.replaces {
        it.replace();
    }
    let mut next = *state;
    next.tick(manner);
    it.push(Step::Tick, next);
}

struct Steps<'a> {
    manner: Manner,
    from: &'a State,
    steps: &'a mut Vec<(Step, State)>,
}

impl Steps<'_> {
    fn has(&self, flaw: Flaw) -> bool {
        self.manner.flaw == Some(flaw)
    }

    fn push(&mut self, step: Step, next: State) {
        let next = next.reduced(self.manner);
        if next != *self.from {
            self.steps.push((step, next));
        }
    }

    fn look(&mut self, client: usize, node: usize) {
        let mut next = *self.from;
        let members = next.clients[client].members;
        let mut record = next.nodes[node].record.seen(members, self.manner.clock());
        let is_due = |left| left == 0 || self.has(Flaw::EndsAtOnce) && left < self.manner.clock();
        if let Record::Out(whose, left) = record
            && is_due(left)
            && next.clients[client].has_quorum(self.manner)
        {
            record = Record::Votes(whose);
        }
        next.record(node, record);
        self.push(Step::Look { client, node }, next);
    }

    fn vouch(&mut self, client: usize, node: usize) {
        let (mut next, it) = (*self.from, &self.from.clients[client]);
        let Record::Out(members, _) = next.nodes[node].record else { return };
        let Some(watched) = it.ties[node].watched else { return };
        if self.manner.vouches
            && it.has_quorum(self.manner)
            && (watched >= self.manner.lease || self.has(Flaw::VouchesAtOnce))
        {
            next.record(node, Record::Votes(members));
            self.push(Step::Vouch { client, node }, next);
        }
    }

    fn vote(&mut self, client: usize, node: usize) {
        let mut next = *self.from;
        let (tie, store) = (&mut next.clients[client].ties[node], &mut next.nodes[node]);
        let is_expected = match tie.known {
            Some(Known::Present) => true,
            Some(Known::Past) => self.has(Flaw::ComparesNoRecord),
            None => false,
        };
        let is_out = match store.record {
            Record::Votes(_) => false,
            Record::Out(..) => !self.has(Flaw::VotesInQuarantine),
            Record::Blank | Record::Old(_) => !self.has(Flaw::ComparesNoRecord),
        };
        let is_free = store.lease.is_none_or(|(by, _)| usize::from(by) == client);
        if is_expected && !is_out && is_free {
            store.lease = Some((client as u8, self.manner.lease));
            tie.vote = self.manner.lease;
            self.push(Step::Vote { client, node }, next);
        }
    }

    fn renew(&mut self, client: usize, node: usize) {
        let mut next = *self.from;
        let lease = &mut next.nodes[node].lease;
        let is_leased = lease.is_some_and(|(by, _)| usize::from(by) == client);
        let it = &mut next.clients[client];
        let counts = it.ties[node].looked.is_some() || self.has(Flaw::RenewsUnseen);
        if it.is_holder(self.manner) && is_leased && counts {
            *lease = Some((client as u8, self.manner.lease));
            it.ties[node].vote = self.manner.lease;
            self.push(Step::Renew { client, node }, next);
        }
    }

    fn fail(&mut self, node: usize) {
        let record = self.from.nodes[node].record;
        if let Some(members) = record.members().filter(|_| self.from.restarts > 0) {
            let mut next = *self.from;
            next.restarts -= 1;
            next.nodes[node].lease = None;
            next.record(node, Record::Old(members));
            self.push(Step::Restart { node }, next);
        }
        if record != Record::Blank && self.from.losses > 0 {
            let mut next = *self.from;
            next.losses -= 1;
            next.nodes[node].lease = None;
            next.record(node, Record::Blank);
            self.push(Step::Lose { node }, next);
        }
    }

    fn replace(&mut self) {
        let (mut next, added) = (*self.from, self.manner.added());
        let clock = self.manner.clock();
        match next.call {
            Call::ToCome if !matches!(next.nodes[added].record, Record::Votes(_)) => {
                next.call = Call::Leaving;
                self.push(Step::Call, next);
            }
            Call::Waiting(0) => {
                let voting = self.has(Flaw::AdmitsVoting);
                // Whatever the node had before, this is another quarantine.
                next.record(added, Record::Blank);
                let new = Members::New;
                next.record(
                    added,
                    if voting { Record::Votes(new) } else { Record::Out(new, clock) },
                );
                next.call = Call::Joining;
                self.push(Step::Admit, next);
            }
            _ => {}
        }
        for node in self.manner.staying().filter(|_| self.from.call != Call::ToCome) {
            self.leave(node);
            if self.from.call == Call::Joining {
                let mut next = *self.from;
                let record = next.nodes[node].record;
                next.record(node, record.reassigned((Members::None, Members::New), clock));
                self.push(Step::Join { node }, next);
            }
        }
    }

    /// The request to leave reaches a node, perhaps late.
    fn leave(&mut self, node: usize) {
        let mut next = *self.from;
        let to = if self.has(Flaw::JoinsEarly) { Members::New } else { Members::None };
        let record = next.nodes[node].record;
        next.record(node, record.reassigned((Members::Former, to), self.manner.clock()));
        let has_left = next.nodes[node].record.members() != Some(Members::Former);
        next.nodes[node].has_left = has_left && next.call == Call::Leaving;
        let left = next.nodes.iter().filter(|node| node.has_left).count();
        if left > self.manner.nodes - self.manner.needed() {
            next.nodes = next.nodes.map(|node| Node { has_left: false, ..node });
            let pause = if self.has(Flaw::WaitsForNoLook) { 0 } else { LOOK + 1 };
            next.call = Call::Waiting(pause);
        }
        self.push(Step::Leave { node }, next);
    }
}
