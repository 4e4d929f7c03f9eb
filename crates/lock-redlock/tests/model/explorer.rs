//! A breadth-first search through everything that can happen.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use crate::rules::{CLIENTS, Rules};
use crate::state::{Client, Packed, Phase, State};
use crate::steps::{self, Step};

/// What was found.
#[derive(Debug)]
pub(crate) struct Exploration {
    /// How many states there are, but for those that differ in nothing that matters.
    pub(crate) states: usize,
    /// The tokens with which each held the lock, or nought, in all ways in which it went.
    pub(crate) outcomes: HashSet<[u8; CLIENTS]>,
    pub(crate) counterexample: Option<Story>,
}

/// The shortest way to a fault.
#[derive(Debug)]
pub(crate) struct Story {
    steps: Vec<Step>,
}

/// Goes everywhere, or to the nearest fault.
pub(crate) fn explore(rules: &Rules) -> Exploration {
    let mut explorer = Explorer::new(rules);
    let mut steps = Vec::new();
    let mut at = 0;
    while at < explorer.states.len() {
        let state = State::unpacked(rules, explorer.states[at]);
        steps::from(rules, &state, &mut steps);
        if steps.iter().any(|(step, _)| step.fault.is_some()) {
            let story = Story { steps: explorer.path(at) };
            return explorer.found(Some(story));
        }
        for (step, next) in steps.drain(..) {
            if step.held.is_some() {
                explorer.outcomes.insert(tokens(&next));
            }
            explorer.reach(next, at);
        }
        at += 1;
    }
    explorer.found(None)
}

struct Explorer<'a> {
    rules: &'a Rules,
    seen: HashSet<Packed, BuildHasherDefault<Mixer>>,
    /// All states, in the order in which they were reached, and from where.
    states: Vec<Packed>,
    parents: Vec<u32>,
    outcomes: HashSet<[u8; CLIENTS]>,
}

impl<'a> Explorer<'a> {
    fn new(rules: &'a Rules) -> Self {
        let initial = State::initial(rules).reduced(rules).packed(rules);
        Self {
            rules,
            seen: HashSet::from_iter([initial]),
            states: vec![initial],
            parents: vec![0],
            outcomes: HashSet::new(),
        }
    }

    fn reach(&mut self, state: State, parent: usize) {
        let packed = state.reduced(self.rules).packed(self.rules);
        if self.seen.insert(packed) {
            self.states.push(packed);
            self.parents.push(u32::try_from(parent).expect("more states than are counted here"));
        }
    }

    fn found(self, counterexample: Option<Story>) -> Exploration {
        Exploration { states: self.states.len(), outcomes: self.outcomes, counterexample }
    }

    /// The steps that lead to state `at`, and from there to the fault, with the real names of nodes and clients.
    fn path(&self, mut at: usize) -> Vec<Step> {
        let mut way = Vec::new();
        while at > 0 {
            way.push(self.states[at]);
            at = self.parents[at] as usize;
        }
        let mut path = Vec::new();
        let mut state = State::initial(self.rules);
        for packed in way.into_iter().rev() {
            let is_next = |next: &State| next.reduced(self.rules).packed(self.rules) == packed;
            path.push(self.follow(&mut state, |_, next| is_next(next)));
        }
        path.push(self.follow(&mut state, |step, _| step.fault.is_some()));
        path
    }

    fn follow(&self, state: &mut State, is_next: impl Fn(&Step, &State) -> bool) -> Step {
        let mut steps = Vec::new();
        steps::from(self.rules, state, &mut steps);
        let next = steps.into_iter().find(|(step, next)| is_next(step, next));
        let (step, next) = next.expect("a state was reached by no step");
        *state = next;
        step
    }
}

fn tokens(state: &State) -> [u8; CLIENTS] {
    let held = |client: Client| if client.phase == Phase::Held { client.token } else { 0 };
    state.clients.map(held)
}

impl Story {
    /// The last thing that happened.
    pub(crate) fn end(&self) -> String {
        self.steps.last().map(ToString::to_string).unwrap_or_default()
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "    {step}"))
    }
}

/// A hash of one state: states by the million need a quick one.
#[derive(Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(16) {
            let mut all = [0; 16];
            all[..chunk.len()].copy_from_slice(chunk);
            self.write_u128(u128::from_le_bytes(all));
        }
    }

    fn write_u128(&mut self, value: u128) {
        let mut hash =
            self.0.rotate_left(17) ^ (value as u64) ^ ((value >> 64) as u64).rotate_left(29);
        for _ in 0..2 {
            hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        }
        self.0 = hash ^ hash >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
