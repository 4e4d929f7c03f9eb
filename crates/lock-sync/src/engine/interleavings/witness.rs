//! What is true of the holds of one process, whatever the order of events.

use lock_core::{Demand, OwnerToken};

use super::super::machine::{Machine, Ticket};
use crate::handoff::Handoff;

/// Looks on under the machine's lock.
#[derive(Debug, Default)]
pub(super) struct Witness {
    arrivals: u32,
    last_served: u32,
    last_token: u64,
    /// A task has a guard, valid or not.
    guarded: bool,
    /// A request or a release is on its way.
    asking: bool,
    turn: Turn,
}

/// What counts against the budget.
#[derive(Debug, Default)]
struct Turn {
    owner: Option<OwnerToken>,
    quiet: bool,
    holders: u32,
}

/// The machine at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    owner: Option<OwnerToken>,
    held: bool,
    demand: Option<Demand>,
}

impl Look {
    pub(super) fn at<W>(machine: &Machine<W>) -> Self {
        Self { owner: machine.owner(), held: machine.is_held(), demand: machine.demand() }
    }
}

impl Witness {
    /// Somebody takes a place in the line, or the lock at once.
    pub(super) fn arrives(&mut self) -> u32 {
        self.arrivals += 1;
        self.arrivals
    }

    pub(super) fn served(&mut self, arrival: u32, ticket: &Ticket) {
        assert!(!self.guarded, "a second guard, even if the first is lost");
        self.guarded = true;
        assert!(arrival > self.last_served, "{arrival} was served after {}", self.last_served);
        self.last_served = arrival;
        assert!(ticket.token.get() > self.last_token, "tokens must increase");
        self.last_token = ticket.token.get();
    }

    pub(super) fn lets_go(&mut self) {
        self.guarded = false;
    }

    /// The store is asked, or told of a release.
    pub(super) fn asks(&mut self) {
        assert!(!std::mem::replace(&mut self.asking, true), "two requests under way");
    }

    pub(super) fn is_answered(&mut self) {
        self.asking = false;
    }

    /// A renewal says that nobody waits: the machine hears it even while it is giving up.
    pub(super) fn hears_of_quiet(&mut self, owner: OwnerToken) {
        if self.turn.owner == Some(owner) {
            self.turn.quiet = true;
            self.turn.holders = self.turn.holders.min(1);
        }
    }

    /// An event has happened. Unless it is known that nobody waits elsewhere, the holders that follow
    /// one another on one lease are counted.
    pub(super) fn event(&mut self, by_holder: bool, before: Look, after: Look, handoff: Handoff) {
        let turn = &mut self.turn;
        if after.owner != turn.owner {
            *turn = Turn { owner: after.owner, quiet: false, holders: 0 };
        }
        let next_holder = after.held && (!before.held || by_holder);
        if next_holder && !(turn.quiet && turn.holders > 0) {
            turn.holders += 1;
        }
        let allowed = match handoff {
            Handoff::Never | Handoff::Fair => 0,
            Handoff::Budget { handoffs, .. } => handoffs,
        };
        assert!(turn.holders <= 1 + allowed, "others may wait, and the budget is used up");
        if let Some(demand) = after.demand {
            turn.quiet = demand == Demand::Quiet;
        }
        if turn.quiet {
            turn.holders = turn.holders.min(1);
        }
    }
}
