//! What can happen next.
//!
//! Some events are no steps of their own. A lease *expires* just before the node grants the next vote to another
//! client, since no party could tell earlier. A request that is *refused* changes nothing, as if it had not arrived. A
//! client *begins* with its first vote. It *chooses its token* or *holds the lock* with the first answer after which it
//! may. If it did so later, nothing would be different for the other clients, except that fewer of them would have to
//! respect its token.

use std::fmt;

use crate::rules::{Confirming, NODES, Quarantine, Rules};
use crate::state::{Link, Node, Phase, State};

/// One step, to be printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) what: What,
    pub(crate) node: usize,
    /// The node's counter afterwards.
    pub(crate) counter: u8,
    /// The client whose lease must have expired before.
    pub(crate) expired: Option<u8>,
    /// The client has chosen this token.
    pub(crate) chosen: Option<u8>,
    /// The client holds the lock with this token.
    pub(crate) held: Option<u8>,
    pub(crate) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Vote(usize),
    /// A request for a vote arrives once more. Whether its answer arrives, too.
    Repeat(usize, bool),
    Confirm(usize),
    Replant(usize),
    Restart,
    Readmit,
}

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Another client held the lock with the same token.
    Repeated,
    /// Another client had held the lock with a higher token before this client began.
    Turned { before: u8 },
}

/// Every step from `state`, and where it leads.
pub(crate) fn from(rules: &Rules, state: &State, steps: &mut Vec<(Step, State)>) {
    let mut steps = Steps { rules, from: state, steps };
    for node in 0..rules.nodes {
        let is_out = state.nodes[node].out;
        for client in (0..rules.clients).filter(|_| !is_out) {
            steps.vote(client, node);
            steps.repeat(client, node);
            steps.confirm(client, node);
            steps.replant(client, node);
        }
        steps.restart(node);
        steps.readmit(node);
    }
}

struct Steps<'a> {
    rules: &'a Rules,
    from: &'a State,
    steps: &'a mut Vec<(Step, State)>,
}

impl Steps<'_> {
    fn vote(&mut self, number: usize, at: usize) {
        let client = &self.from.clients[number];
        if client.links[at] != Link::Unasked || !self.may_begin(number) {
            return;
        }
        let mut next = *self.from;
        if client.phase == Phase::Idle {
            next.clients[number].phase = Phase::Voting;
            next.clients[number].before = self.highest_held();
            next.clients[number].risen = self.from.readmitted;
        }
        let step = self.grant(&mut next, What::Vote(number), number, at);
        self.answer(step, next, number, at);
    }

    fn repeat(&mut self, number: usize, at: usize) {
        let client = &self.from.clients[number];
        if self.from.repeats == 0 || matches!(client.links[at], Link::Unasked) {
            return;
        }
        let mut next = *self.from;
        next.repeats -= 1;
        let step = self.grant(&mut next, What::Repeat(number, false), number, at);
        if matches!(client.phase, Phase::Voting | Phase::Confirming | Phase::Held) {
            self.answer(Step { what: What::Repeat(number, true), ..step }, next, number, at);
        }
        self.push(step, next);
    }

    fn confirm(&mut self, number: usize, at: usize) {
        let client = &self.from.clients[number];
        let node = self.from.nodes[at];
        let Confirming::Checking { owner, height } = self.rules.confirming else { return };
        if !matches!(client.phase, Phase::Confirming | Phase::Held)
            || client.links[at] != Link::Granted
            || (owner && node.owner != Some(number as u8))
            || (height && node.counter > client.token)
        {
            return;
        }
        let mut next = *self.from;
        let counter = node.counter.max(client.token);
        next.nodes[at].counter = counter;
        next.clients[number].links[at] = Link::Confirmed;
        self.settle(Step::new(What::Confirm(number), at, counter), next, number);
    }

    fn replant(&mut self, number: usize, at: usize) {
        let client = &self.from.clients[number];
        if self.from.replants == 0 || client.phase != Phase::Held {
            return;
        }
        let mut next = *self.from;
        next.replants -= 1;
        let node = &mut next.nodes[at];
        let expired =
            node.owner.replace(number as u8).filter(|owner| usize::from(*owner) != number);
        node.counter = (node.counter + 1).max(client.token);
        let step = Step::new(What::Replant(number), at, node.counter);
        self.push(Step { expired, ..step }, next);
    }

    fn restart(&mut self, at: usize) {
        if self.from.restarts == 0 {
            return;
        }
        let mut next = *self.from;
        next.restarts -= 1;
        let out = self.rules.quarantine != Quarantine::None;
        next.nodes[at] = Node { owner: None, counter: 0, out };
        for client in &mut next.clients {
            client.old = out && matches!(client.phase, Phase::Voting | Phase::Confirming);
        }
        self.push(Step::new(What::Restart, at, 0), next);
    }

    fn readmit(&mut self, at: usize) {
        let Quarantine::Waits { resyncs, straddled, .. } = self.rules.quarantine else { return };
        if !self.from.nodes[at].out {
            return;
        }
        let mut next = *self.from;
        next.readmitted = true;
        next.nodes[at].out = false;
        if resyncs {
            let counters = self.from.nodes[..self.rules.nodes].iter().map(|node| node.counter);
            next.nodes[at].counter = counters.max().unwrap_or(0);
        }
        for client in &mut next.clients {
            let is_under_way = matches!(client.phase, Phase::Voting | Phase::Confirming);
            if is_under_way && (client.old || !straddled) {
                client.phase = Phase::Gone;
                client.votes = [0; NODES];
            }
            client.old = false;
        }
        let counter = next.nodes[at].counter;
        self.push(Step::new(What::Readmit, at, counter), next);
    }

    /// Clients begin in order.
    fn may_begin(&self, number: usize) -> bool {
        number == 0 || self.from.clients[number - 1].phase != Phase::Idle
    }

    /// The highest token with which any client held the lock.
    fn highest_held(&self) -> u8 {
        let holders = self.from.clients.iter().filter(|client| client.phase == Phase::Held);
        holders.map(|client| client.token).max().unwrap_or(0)
    }

    /// The node's part of a vote: the lock is free, or its lease expires at this moment.
    fn grant(&self, next: &mut State, what: What, number: usize, at: usize) -> Step {
        let node = &mut next.nodes[at];
        let expired = node.owner.replace(number as u8);
        let floor = self.floor(number, next.clients[number].risen);
        node.counter = (node.counter + 1).max(floor);
        next.clients[number].links[at] = next.clients[number].links[at].max(Link::Granted);
        Step { expired, ..Step::new(what, at, node.counter) }
    }

    fn floor(&self, number: usize, risen: bool) -> u8 {
        match self.rules.quarantine {
            Quarantine::Waits { rise, .. } if risen => self.rules.floors[number] + rise,
            _ => self.rules.floors[number],
        }
    }

    /// The client's part of a vote. It may have its answer now, or so late that it counts for nothing.
    fn answer(&mut self, step: Step, mut next: State, number: usize, at: usize) {
        let vote = next.nodes[at].counter;
        let client = &mut next.clients[number];
        match client.phase {
            Phase::Voting => {
                client.votes[at] = vote;
                self.push(step, next);
                self.choose(step, next, number, at);
            }
            Phase::Confirming | Phase::Held if self.rules.fast && vote == client.token => {
                client.links[at] = Link::Confirmed;
                self.settle(step, next, number);
            }
            _ => self.push(step, next),
        }
    }

    /// The client chooses the highest token of any quorum of votes, of which the last came just now.
    fn choose(&mut self, step: Step, state: State, number: usize, last: usize) {
        let votes = state.clients[number].votes;
        for quorum in 0_u32..1 << self.rules.nodes {
            let is_in = |at: &usize| quorum & 1 << at != 0;
            let is_new = is_in(&last) && quorum.count_ones() >= self.rules.quorum();
            if !is_new || (0..NODES).filter(is_in).any(|at| votes[at] == 0) {
                continue;
            }
            let token = (0..NODES).filter(is_in).map(|at| votes[at]).max().unwrap_or(0);
            let mut next = state;
            let client = &mut next.clients[number];
            client.phase = Phase::Confirming;
            client.token = token;
            client.votes = [0; NODES];
            for at in (0..NODES).filter(|at| votes[*at] > 0) {
                if self.rules.confirming == Confirming::Never
                    || (self.rules.fast && votes[at] == token)
                {
                    client.links[at] = Link::Confirmed;
                }
            }
            self.settle(Step { chosen: Some(token), ..step }, next, number);
        }
    }

    /// The client holds the lock if enough nodes have confirmed its token.
    fn settle(&mut self, mut step: Step, mut next: State, number: usize) {
        let client = &mut next.clients[number];
        let confirmed = client.links.iter().filter(|link| **link == Link::Confirmed).count();
        if client.phase == Phase::Confirming && confirmed as u32 >= self.rules.quorum() {
            client.phase = Phase::Held;
            step.held = Some(client.token);
            step.fault = fault(self.rules, &next, number);
        }
        self.push(step, next);
    }

    fn push(&mut self, step: Step, next: State) {
        self.steps.push((step, next));
    }
}

/// Whether this client must not hold the lock with its token, given the earlier holders.
fn fault(rules: &Rules, state: &State, number: usize) -> Option<Fault> {
    let (token, before) = (state.clients[number].token, state.clients[number].before);
    let mut others = (0..rules.clients).filter(|other| *other != number);
    let is_repeated = others.any(|other| {
        state.clients[other].phase == Phase::Held && state.clients[other].token == token
    });
    match () {
        () if is_repeated => Some(Fault::Repeated),
        () if token <= before => Some(Fault::Turned { before }),
        () => None,
    }
}

impl Step {
    fn new(what: What, node: usize, counter: u8) -> Self {
        Self { what, node, counter, expired: None, chosen: None, held: None, fault: None }
    }

    fn client(&self) -> Option<usize> {
        match self.what {
            What::Vote(client)
            | What::Repeat(client, _)
            | What::Confirm(client)
            | What::Replant(client) => Some(client),
            What::Restart | What::Readmit => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, counter, .. } = self;
        match self.what {
            What::Vote(client) => write!(f, "n{node} votes for c{client} with {counter}")?,
            What::Repeat(client, heard) => {
                let heard = if heard { "" } else { ", unheard" };
                write!(f, "n{node} votes for c{client} once more, with {counter}{heard}")?;
            }
            What::Confirm(client) => write!(f, "n{node} confirms to c{client}, at {counter}")?,
            What::Replant(client) => {
                write!(f, "c{client} plants its lease on n{node}, at {counter}")?
            }
            What::Restart => write!(f, "n{node} restarts empty")?,
            What::Readmit => write!(f, "n{node} votes again, from {counter}")?,
        }
        if let Some(expired) = self.expired {
            write!(f, " (c{expired}'s lease there has expired)")?;
        }
        let Some(client) = self.client() else { return Ok(()) };
        if let Some(chosen) = self.chosen {
            write!(f, "; c{client} chooses {chosen}")?;
        }
        if let Some(held) = self.held {
            write!(f, "; c{client} holds the lock with {held}")?;
        }
        match self.fault {
            Some(Fault::Repeated) => write!(f, ", as another did"),
            Some(Fault::Turned { before, .. }) => {
                write!(f, " after another had held it with {before}")
            }
            None => Ok(()),
        }
    }
}
