//! The choices for a plan.

use crate::chaos::{Deployment, Fault};

/// The choices for a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Scope {
    pub(super) deployments: Vec<Deployment>,
    pub(super) faults: Vec<Fault>,
    pub(super) steps: usize,
    /// Whether each fault occurs once, rather than a random one each time.
    pub(super) each: bool,
}

impl Default for Scope {
    /// Every deployment, every fault, four steps.
    fn default() -> Self {
        Self {
            deployments: Deployment::ALL.to_vec(),
            faults: Fault::ALL.to_vec(),
            steps: 4,
            each: false,
        }
    }
}

impl Scope {
    /// The part for the plan with this number in a suite: each deployment in turn, and in turn every fault that
    /// can hit it, this many in each plan.
    ///
    /// The first ten plans contain every fault between them, and the first [`rounds`](Self::rounds) every fault
    /// in every deployment.
    ///
    /// # Panics
    ///
    /// If a plan is to have no faults.
    pub fn turn(number: usize, faults: usize) -> Self {
        assert!(faults > 0, "a plan without faults has nothing to take turns");
        let which = number % Deployment::ALL.len();
        let deployment = Deployment::ALL[which];
        let possible = possible(deployment);
        // Deployments begin in different places, so that a few plans cover much.
        let servers = Deployment::ALL.len() - 1;
        let begin = which.saturating_sub(1) * possible.len() / servers;
        let begin = begin + number / Deployment::ALL.len() * faults;
        let taken =
            (0..faults.min(possible.len())).map(|at| possible[(begin + at) % possible.len()]);
        Self {
            deployments: vec![deployment],
            faults: taken.collect(),
            steps: faults.min(possible.len()),
            each: true,
        }
    }

    /// How many plans it takes until every fault has hit every deployment that it can hit.
    pub fn rounds(faults: usize) -> usize {
        let most = Deployment::ALL.map(|deployment| possible(deployment).len()).into_iter().max();
        most.unwrap_or_default().div_ceil(faults.max(1)) * Deployment::ALL.len()
    }

    /// Only these deployments.
    pub fn over(self, deployments: &[Deployment]) -> Self {
        Self { deployments: deployments.to_vec(), ..self }
    }

    /// Only these faults.
    pub fn of(self, faults: &[Fault]) -> Self {
        Self { faults: faults.to_vec(), each: false, ..self }
    }

    /// Each of these faults once.
    pub fn each_of(self, faults: &[Fault]) -> Self {
        Self { faults: faults.to_vec(), steps: faults.len(), each: true, ..self }
    }

    /// This many steps.
    pub fn steps(self, steps: usize) -> Self {
        Self { steps, each: false, ..self }
    }

    /// Its faults that can hit a deployment.
    pub(super) fn faults_of(&self, deployment: Deployment) -> Vec<Fault> {
        self.faults.iter().copied().filter(|fault| fault.can_befall(deployment)).collect()
    }
}

fn possible(deployment: Deployment) -> Vec<Fault> {
    Fault::ALL.into_iter().filter(|fault| fault.can_befall(deployment)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_few_plans_have_every_fault_and_some_more_have_it_everywhere() {
        for faults in [4, 5] {
            let seen = |plans: usize| -> HashSet<_> {
                let scopes = (0..plans).map(|number| Scope::turn(number, faults));
                scopes
                    .flat_map(|it| {
                        it.faults.into_iter().map(move |fault| (it.deployments[0], fault))
                    })
                    .collect()
            };
            let first: HashSet<_> = seen(10).into_iter().map(|(_, fault)| fault).collect();
            let missing = |fault: &Fault| {
                let can_be = Deployment::ALL.iter().any(|it| fault.can_befall(*it));
                can_be && !first.contains(fault)
            };
            assert!(!Fault::ALL.iter().any(missing), "{faults}: {first:?}");
            let pairs = Deployment::ALL.map(|deployment| possible(deployment).len());
            assert_eq!(seen(Scope::rounds(faults)).len(), pairs.iter().sum::<usize>());
        }
        assert_eq!(Scope::rounds(4), 35);
    }
}
