//! The least rights of a user on the server, feature by feature.
//!
//! The table in `features` names the rights of each feature, and beside each right a part of the
//! feature that fails without it. So the tests prove that the rights are enough, and that each of them
//! is needed. A test compares the page of the docs with the table.

mod docs;
mod features;
mod laws;
mod primitives;
mod scenes;
mod world;

use std::sync::Mutex;
use std::thread;

use lock_core::conformance::Verdict;
use tokio::runtime::Builder;

use self::features::{Feature, all};
use self::laws::Law;
use self::world::World;

/// The most runs at once.
const AT_ONCE: usize = 6;

#[test]
fn with_its_least_rights_a_feature_does_all_that_it_does() {
    let mut runs = Vec::new();
    for feature in all() {
        let rules = feature.rules(None);
        for &setup in feature.setups {
            for &law in &feature.laws {
                let (rules, name, events) = (rules.clone(), feature.name, feature.events);
                runs.push(move || {
                    let verdict = verdict(law, &World::new(&rules, events, setup));
                    (verdict != Verdict::Holds).then(|| format!("{name}: {law:?}: {verdict:?}"))
                });
            }
        }
    }
    assert!(runs.len() > 300, "{} runs", runs.len());
    none_complains(runs);
}

#[test]
fn without_any_one_of_its_least_rights_a_feature_does_less() {
    let mut runs = Vec::new();
    for feature in all() {
        for &(right, law) in &feature.rights {
            for &setup in feature.setups {
                let rules = feature.rules(Some(right));
                let (name, events) = (feature.name, feature.events);
                runs.push(move || {
                    let world = World::new(&rules, events, setup).impatient();
                    let verdict = verdict(law, &world);
                    // Without the right the feature does less, too, if the contract allows it to do
                    // nothing.
                    let holds = verdict == Verdict::Holds;
                    holds.then(|| format!("{name} without {right}: {law:?} holds"))
                });
            }
        }
    }
    assert!(runs.len() > 200, "{} runs", runs.len());
    none_complains(runs);
}

/// The verdict on a law in a world.
fn verdict(law: Law, world: &World) -> Verdict {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(law.run(world))
}

/// Carries out all runs on a few threads, and fails if a run complains. A thread stands still while a server starts.
fn none_complains(runs: Vec<impl FnOnce() -> Option<String> + Send>) {
    let (runs, complaints) = (Mutex::new(runs.into_iter()), Mutex::new(Vec::new()));
    let next = || runs.lock().unwrap().next();
    let carry_out = || {
        while let Some(run) = next() {
            let complaint = run();
            complaint.iter().for_each(|complaint| println!("{complaint}"));
            complaints.lock().unwrap().extend(complaint);
        }
    };
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(carry_out))));
    let complaints = complaints.into_inner().unwrap();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

impl Feature {
    /// The rights in the form of `ACL SETUSER`, without one of them.
    fn rules(&self, without: Option<&str>) -> Vec<&'static str> {
        let rights = self.rights.iter().map(|(right, _)| *right);
        let rights: Vec<_> = rights.filter(|right| Some(*right) != without).collect();
        ["resetkeys", "resetchannels", "-@all"].into_iter().chain(rights).collect()
    }
}
