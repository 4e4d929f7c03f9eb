//! A breadth-first search for small models.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash};

use crate::explorer::Mixer;

/// How many states there are until the first one of these, and the shortest story that ends with it.
pub(crate) fn search<S: Copy + Eq + Hash, T>(
    initial: S,
    next: impl Fn(&S, &mut Vec<(T, S)>),
    is_end: impl Fn(&S) -> bool,
) -> (usize, Option<Vec<T>>) {
    let mut seen: HashSet<S, BuildHasherDefault<Mixer>> = HashSet::from_iter([initial]);
    let mut states = vec![(initial, 0_usize)];
    let mut steps = Vec::new();
    let mut at = 0;
    while at < states.len() {
        let (state, _) = states[at];
        if is_end(&state) {
            return (states.len(), Some(story(&states, at, next)));
        }
        next(&state, &mut steps);
        for (_, next) in steps.drain(..) {
            if seen.insert(next) {
                states.push((next, at));
            }
        }
        at += 1;
    }
    (states.len(), None)
}

/// The steps that lead to state `at`.
fn story<S: Copy + Eq, T>(
    states: &[(S, usize)],
    at: usize,
    next: impl Fn(&S, &mut Vec<(T, S)>),
) -> Vec<T> {
    let way = std::iter::successors(Some(at), |&at| (at > 0).then(|| states[at].1));
    let mut way: Vec<_> = way.map(|at| states[at].0).collect();
    way.reverse();
    let mut story = Vec::new();
    for pair in way.windows(2) {
        let mut steps = Vec::new();
        next(&pair[0], &mut steps);
        let step = steps.into_iter().find(|(_, state)| *state == pair[1]);
        story.push(step.expect("a state was reached by no step").0);
    }
    story
}
