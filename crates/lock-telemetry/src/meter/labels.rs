//! The values of labels as small numbers, which find the handle of a metric without a look-up.

use lock_core::observer::{AcquireEnd, Entered, HoldEnd, LossReason, RenewalOutcome};
use lock_core::{ErrorKind, Mode};

/// The value for variants that a later version of lock-core may add.
const OTHER: &str = "other";

/// A value of a label.
pub(super) trait Value {
    /// How many values there are.
    const COUNT: usize;

    /// The number of this value, below `COUNT`.
    fn index(&self) -> usize;

    /// The value as a text.
    fn text(&self) -> &'static str;
}

/// Numbers the variants of an enum in the order of these lines. The last number is for variants that are not named
/// here.
macro_rules! values {
    ($type:ty { $($pattern:pat => $text:literal),* $(,)? }) => {
        impl Value for $type {
            const COUNT: usize = [$($text),*].len() + 1;

            #[inline]
            #[allow(unused_assignments, reason = "the number after the last line is that of the rest")]
            fn index(&self) -> usize {
                let mut index = 0;
                $(
                    if matches!(self, $pattern) {
                        return index;
                    }
                    index += 1;
                )*
                index
            }

            #[allow(unreachable_patterns, reason = "some enums are closed")]
            fn text(&self) -> &'static str {
                match self {
                    $($pattern => $text,)*
                    _ => OTHER,
                }
            }
        }
    };
}

values!(Mode {
    Mode::Exclusive => "exclusive",
    Mode::Shared => "shared",
    Mode::Upgradable => "upgradable",
    Mode::Permits { .. } => "permits",
    Mode::Joint { .. } => "joint",
});

values!(AcquireEnd<'_> {
    AcquireEnd::Granted { .. } => "granted",
    AcquireEnd::Busy => "busy",
    AcquireEnd::Timeout(_) => "timeout",
    AcquireEnd::Closed => "closed",
    AcquireEnd::Failed(_) => "failed",
    AcquireEnd::Lost(_) => "lost",
    AcquireEnd::Abandoned => "abandoned",
});

values!(Entered {
    Entered::HandOff => "handoff",
    Entered::Free => "free",
    Entered::Granted => "granted",
    Entered::Cached => "cached",
    Entered::Joined => "joined",
    Entered::Upgraded => "upgraded",
});

values!(HoldEnd {
    HoldEnd::Dropped => "dropped",
    HoldEnd::Released => "released",
    HoldEnd::Lost(_) => "lost",
    HoldEnd::Forgotten => "forgotten",
    HoldEnd::Committed => "committed",
});

values!(LossReason {
    LossReason::Expired => "expired",
    LossReason::Revoked => "revoked",
    LossReason::HeldTooLong => "held_too_long",
    LossReason::DriverStopped => "driver_stopped",
    LossReason::Released => "released",
});

values!(RenewalOutcome<'_> {
    RenewalOutcome::Renewed => "renewed",
    RenewalOutcome::Held => "held",
    RenewalOutcome::Lost => "lost",
    RenewalOutcome::Failed(_) => "failed",
});

/// The way of a lock from one holder to the next. Two processes count a hand-over between them: each counts its own
/// side.
#[derive(Clone, Copy)]
pub(super) enum HandOff {
    /// From a holder of this process to another one: a hand-off.
    Local,
    /// From another process to this one.
    Remote,
    /// From this process to another one.
    Given,
}

impl HandOff {
    /// All kinds.
    pub(super) const ALL: [Self; 3] = [Self::Local, Self::Remote, Self::Given];

    /// The hand-over that has ended an acquisition, if there was one.
    pub(super) fn of(outcome: &AcquireEnd<'_>) -> Option<Self> {
        match outcome {
            AcquireEnd::Granted { entered: Entered::HandOff, .. } => Some(Self::Local),
            AcquireEnd::Granted { entered: Entered::Granted, .. } => Some(Self::Remote),
            _ => None,
        }
    }
}

values!(HandOff {
    HandOff::Local => "local",
    HandOff::Remote => "remote",
    HandOff::Given => "given",
});

/// The outcome of an acquisition, and the way to the lock if there is one.
pub(super) enum Way {
    In(Entered),
    Nowhere,
}

impl Way {
    pub(super) fn of(outcome: &AcquireEnd<'_>) -> Self {
        match outcome {
            AcquireEnd::Granted { entered, .. } => Self::In(*entered),
            _ => Self::Nowhere,
        }
    }
}

impl Value for Way {
    const COUNT: usize = Entered::COUNT + 1;

    fn index(&self) -> usize {
        match self {
            Self::In(entered) => entered.index(),
            Self::Nowhere => Entered::COUNT,
        }
    }

    fn text(&self) -> &'static str {
        match self {
            Self::In(entered) => entered.text(),
            Self::Nowhere => "none",
        }
    }
}

/// The outcome of a request to the store: the kind of the error, or none.
pub(super) struct Answer(pub(super) Option<ErrorKind>);

values!(Answer {
    Answer(None) => "ok",
    Answer(Some(ErrorKind::Unreachable)) => "unreachable",
    Answer(Some(ErrorKind::Timeout)) => "timeout",
    Answer(Some(ErrorKind::NotReady)) => "not_ready",
    Answer(Some(ErrorKind::OutOfMemory)) => "out_of_memory",
    Answer(Some(ErrorKind::Denied)) => "denied",
    Answer(Some(ErrorKind::ForeignKey)) => "foreign_key",
    Answer(Some(ErrorKind::QueueFull)) => "queue_full",
    Answer(Some(ErrorKind::NotHeld)) => "not_held",
    Answer(Some(ErrorKind::Closed)) => "closed",
    Answer(Some(ErrorKind::Protocol)) => "protocol",
    Answer(Some(ErrorKind::Unsupported)) => "unsupported",
});

/// What is wrong with the driver.
#[derive(Clone, Copy)]
pub(super) enum Alarm {
    Stalled,
    ClockJumped,
    RenewalLate,
}

values!(Alarm {
    Alarm::Stalled => "stalled",
    Alarm::ClockJumped => "clock_jumped",
    Alarm::RenewalLate => "renewal_late",
});

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lock_core::Error;

    use super::*;

    /// Each value has a number of its own below the count, and the name that lock-core gives it.
    fn check<V: Value>(values: &[V], name: impl Fn(&V) -> &'static str) {
        let indexes: BTreeSet<usize> = values.iter().map(Value::index).collect();
        assert_eq!(indexes, (0..V::COUNT - 1).collect());
        for value in values {
            assert_eq!(value.text(), name(value));
        }
    }

    #[test]
    fn the_labels_are_the_names_of_the_core() {
        use AcquireEnd as A;
        let (error, lost) = (Error::new(ErrorKind::Timeout, "late"), LossReason::Expired);
        let hold = lock_core::observer::HoldId::new(1, 1);
        let granted = A::Granted { hold, entered: Entered::Free };
        let outcomes = [granted, A::Busy, A::Timeout(None), A::Closed, A::Failed(&error)];
        check(&[&outcomes[..], &[A::Lost(lost), A::Abandoned]].concat(), A::name);
        use Entered as E;
        let ways = [E::Free, E::Granted, E::HandOff, E::Cached, E::Joined, E::Upgraded];
        check(&ways, |way| way.name());
        use HoldEnd as H;
        let ends = [H::Released, H::Dropped, H::Lost(lost), H::Forgotten, H::Committed];
        check(&ends, |end| end.name());
        use RenewalOutcome as R;
        check(&[R::Renewed, R::Held, R::Lost, R::Failed(&error)], R::name);
        use LossReason as L;
        let reasons = [lost, L::Revoked, L::HeldTooLong, L::DriverStopped, L::Released];
        check(&reasons, |reason| reason.name());
    }
}
