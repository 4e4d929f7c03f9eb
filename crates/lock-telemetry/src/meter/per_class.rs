//! The metrics that depend on the lock: once for all locks, or once for each class of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use lock_core::observer::{AcquireEnd, HoldEnd, LossReason, RenewalOutcome};
use lock_core::{Key, Mode};
use metrics::{Counter, Gauge, Histogram, Label};

use super::handles::{Group, Handles};
use super::labels::{HandOff, Value, Way};
use super::names;

/// The name of the label with the class of a lock.
const LABEL: &str = "lock";
/// The class of all locks whose own class is beyond the limit.
const REST: &str = "other";

/// The handles for one class of locks.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) group: Group,
    pub(super) acquire: Handles<Histogram>,
    pub(super) hold: Handles<Histogram>,
    pub(super) ratio: Handles<Histogram>,
    pub(super) renew: Handles<Histogram>,
    pub(super) held: Handles<Gauge>,
    pub(super) waiting: Handles<Gauge>,
    pub(super) lost: Handles<Counter>,
    pub(super) handoffs: Handles<Counter>,
}

impl Class {
    fn new(group: Group) -> Self {
        let ways = AcquireEnd::COUNT * Mode::COUNT * Way::COUNT;
        let class = Self {
            group,
            acquire: Handles::new(&names::ACQUIRE_DURATION, ways),
            hold: Handles::new(&names::HOLD_DURATION, HoldEnd::COUNT * Mode::COUNT),
            ratio: Handles::new(&names::HOLD_TTL_RATIO, 1),
            renew: Handles::new(&names::RENEW_DURATION, RenewalOutcome::COUNT),
            held: Handles::new(&names::HELD, Mode::COUNT),
            waiting: Handles::new(&names::WAITING, Mode::COUNT),
            lost: Handles::new(&names::LOST, LossReason::COUNT),
            handoffs: Handles::new(&names::HANDOFFS, HandOff::COUNT),
        };
        class.begin();
        class
    }

    /// Registers the counters: a counter that begins with its first event shows no rate for that event.
    fn begin(&self) {
        use LossReason::{DriverStopped, Expired, HeldTooLong, Revoked};
        for reason in [Expired, Revoked, HeldTooLong, DriverStopped] {
            self.lost.by(&self.group, &reason);
        }
        for kind in HandOff::ALL {
            self.handoffs.by(&self.group, &kind);
        }
    }
}

/// Maps a lock to its class.
pub(super) type Classify = dyn Fn(&Key) -> Cow<'_, str> + Send + Sync;

/// The classes of locks.
pub(super) enum Classes {
    /// One class of all locks.
    One(Box<Class>),
    /// The classes of the app.
    Many { classify: Box<Classify>, most: usize, group: Group, known: RwLock<Known> },
}

/// The classes by their names.
type Known = HashMap<Box<str>, Place>;
/// The name of a class, and its metrics once they are registered.
type Place = Arc<(String, OnceLock<Class>)>;

impl Classes {
    pub(super) fn one(group: Group) -> Self {
        Self::One(Box::new(Class::new(group)))
    }

    pub(super) fn many(group: Group, most: usize, classify: Box<Classify>) -> Self {
        Self::Many { classify, most, group, known: RwLock::default() }
    }

    /// Records a fact about this lock.
    #[inline]
    pub(super) fn with<R>(&self, key: &Key, record: impl FnOnce(&Class) -> R) -> R {
        match self {
            Self::One(class) => record(class),
            Self::Many { classify, most, group, known } => {
                let name = classify(key);
                let found = known.read().unwrap_or_else(PoisonError::into_inner);
                let place = found.get(&*name).cloned();
                drop(found);
                let place = place.unwrap_or_else(|| add(known, *most, &name));
                // Outside the lock of the table: the recorder is code of others.
                record(place.1.get_or_init(|| named(group, &place.0)))
            }
        }
    }
}

/// The place of the class with this name, or the place of the rest if there are too many classes already.
#[cold]
fn add(known: &RwLock<Known>, most: usize, name: &str) -> Place {
    let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
    let name = if known.contains_key(name) || known.len() < most { name } else { REST };
    let new = || Arc::new((name.to_owned(), OnceLock::new()));
    Arc::clone(known.entry(name.into()).or_insert_with(new))
}

/// The metrics of the class with this name.
fn named(group: &Group, name: &str) -> Class {
    let mut group = group.clone();
    group.labels.push(Label::new(LABEL, name.to_owned()));
    Class::new(group)
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(_) => f.write_str("One"),
            Self::Many { most, .. } => {
                f.debug_struct("Many").field("most", most).finish_non_exhaustive()
            }
        }
    }
}
