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

use futures::StreamExt as _;
use lock_core::conformance::Verdict;

use self::features::{Feature, all};
use self::world::World;

/// The most servers at once.
const AT_ONCE: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_its_least_rights_a_feature_does_all_that_it_does() {
    let mut runs = Vec::new();
    for feature in all() {
        let rules = feature.rules(None);
        for &setup in feature.setups {
            for &law in &feature.laws {
                let (rules, name, events) = (rules.clone(), feature.name, feature.events);
                runs.push(async move {
                    let verdict = law.run(&World::new(&rules, events, setup)).await;
                    (verdict != Verdict::Holds).then(|| format!("{name}: {law:?}: {verdict:?}"))
                });
            }
        }
    }
    assert!(runs.len() > 300, "{} runs", runs.len());
    none(futures::stream::iter(runs)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_one_of_its_least_rights_a_feature_does_less() {
    let mut runs = Vec::new();
    for feature in all() {
        for &(right, law) in &feature.rights {
            for &setup in feature.setups {
                let rules = feature.rules(Some(right));
                let (name, events) = (feature.name, feature.events);
                runs.push(async move {
                    let verdict = law.run(&World::new(&rules, events, setup).impatient()).await;
                    // Without the right the feature does less, too, if the contract allows it to do
                    // nothing.
                    let holds = verdict == Verdict::Holds;
                    holds.then(|| format!("{name} without {right}: {law:?} holds"))
                });
            }
        }
    }
    assert!(runs.len() > 200, "{} runs", runs.len());
    none(futures::stream::iter(runs)).await;
}

/// The keys that must not exist.
async fn none(complaints: impl futures::Stream<Item: Future<Output = Option<String>>>) {
    let complaints = complaints.buffer_unordered(AT_ONCE).filter_map(async |complaint| complaint);
    let complaints: Vec<_> = complaints.collect().await;
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
