//! The historic designs of a lock on Redis, each in the circumstances in which it fails. The page `guide::history` of
//! lock-redis tells the history.

use lock_tests::chaos::check::Property::*;

use super::cases::{Case, Scene, case};

/// Each design fails in one way.
pub(super) const CASES: &[Case] = &[
    case("setnx-delete", Exclusion, Scene::OnePauses),
    case("setnx-nil", Exclusion, Scene::Calm),
    case("setnx-getset", Exclusion, Scene::Calm),
    case("setnx-expire", Recovery, Scene::SinglesKilled),
    case("plain-delete", Exclusion, Scene::Pauses),
    case("get-then-delete", Exclusion, Scene::Pauses),
];

/// The pattern of today does not fail in these ways, although its clients poll as well. (It has no order: other
/// properties may not hold.)
pub(super) const KEPT: &[Case] = &[
    case("set-nx-px", Exclusion, Scene::OnePauses),
    case("set-nx-px", Exclusion, Scene::Calm),
    case("set-nx-px", Recovery, Scene::SinglesKilled),
    case("set-nx-px", Exclusion, Scene::Pauses),
];
