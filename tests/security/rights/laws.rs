//! The behaviour that a feature must have with the least rights.

use lock_core::conformance::{self, Suite, Verdict};

use super::scenes::Scene;
use super::world::World;

/// One behaviour of a feature.
#[derive(Clone, Copy, Debug)]
pub(super) enum Law {
    /// A law of every backend.
    Backend(&'static str),
    /// A law of a capability.
    Shared(&'static str),
    Convert(&'static str),
    Joint(&'static str),
    Permits(&'static str),
    Cell(&'static str),
    Node(&'static str),
    /// A behaviour that no law covers.
    Scene(Scene),
}

impl Law {
    pub(super) async fn run(self, world: &World) -> Verdict {
        match self {
            Self::Backend(law) => conformance::run(law, world).await,
            Self::Shared(law) => Suite::shared().run(law, world).await,
            Self::Convert(law) => Suite::convert().run(law, world).await,
            Self::Joint(law) => Suite::joint().run(law, world).await,
            Self::Permits(law) => Suite::permits().run(law, world).await,
            Self::Cell(law) => Suite::cell().run(law, world).await,
            Self::Node(law) => Suite::quorum().run(law, world).await,
            Self::Scene(scene) => scene.run(world).await,
        }
    }
}

/// The laws of every backend from one to another, in the order of their table.
pub(super) fn backend(first: &str, last: &str) -> Vec<Law> {
    let all: Vec<_> = conformance::laws().iter().map(conformance::Law::name).collect();
    let [first, last] = [first, last].map(|name| all.iter().position(|law| *law == name).unwrap());
    all[first..=last].iter().copied().map(Law::Backend).collect()
}

/// All laws of a capability, except those that need another feature.
pub(super) fn capability(
    suite: &Suite<World>,
    law: fn(&'static str) -> Law,
    but: &[&str],
) -> Vec<Law> {
    let names = suite.laws().iter().map(conformance::Law::name);
    names.filter(|name| !but.contains(name)).map(law).collect()
}
