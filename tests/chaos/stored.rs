//! Runs in which the workers do nothing but change, read and follow one stored value.

use lock_tests::chaos::{Deployment, Plan, Scope};

use crate::first_seed;
use crate::machine::{cast, failures};

/// The faults of a run.
const STEPS: usize = 3;

/// The seed.
const SEED: u64 = 3;

/// `CHAOS_SEED` gives another seed. `lock-chaos run 60 --primitives stored` takes new seeds.
#[test]
fn no_fault_loses_a_committed_value() {
    let seed = first_seed(SEED);
    let plan = |over| Plan::draw(seed, &Scope::default().over(&[over]).steps(STEPS));
    let plans = [Deployment::Memory, Deployment::Redis, Deployment::Quorum(3)].map(plan);
    let failures = failures(&plans, &cast(Some("stored")));
    assert!(failures.is_empty(), "CHAOS_SEED={seed}:\n{}", failures.join("\n"));
}
