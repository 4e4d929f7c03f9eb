//! The observer that makes spans and log lines.

mod live;

use std::fmt;
use std::sync::{Arc, OnceLock};

use lock_core::observer::{
    AcquireBegun, AcquireEnd, AcquireEnded, AcquireWaits, AcquisitionId, ClockJumped,
    DriverStalled, Entered, HoldBegun, HoldEnded, HoldId, LeaseRenewed, Loss, NodeBack,
    NodeKeptOut, Observer, RenewalLate, RenewalOutcome,
};
use lock_core::{Error, Mode};
use tracing::field::{Empty, display};
use tracing::{Span, info, info_span, warn};

use self::live::Live;
use crate::outage::{News, Outage};

/// An observer that makes [`tracing`] spans for acquisitions and holds, and log lines for troubles and their ends.
///
/// | span | parent | how long |
/// | --- | --- | --- |
/// | `lock.acquire` | the span of the caller | from the first poll to the outcome |
/// | `lock.wait` | `lock.acquire` | while the caller is a waiter; absent if the caller is served at once |
/// | `lock.hold` | the span of the caller; it follows from `lock.acquire` | as long as the guard |
///
/// | event | level |
/// | --- | --- |
/// | a lease is lost, in the span of each hold that loses it; without a span if observers have heard of no such hold | `WARN` |
/// | the first renewal of an outage fails | `WARN` |
/// | renewals succeed again | `INFO` |
/// | the driver is late, the clock jumps, a renewal leaves late | `WARN` |
/// | a node of a quorum is kept out, or is back | `WARN`, `INFO` |
///
/// An outage begins with a failed renewal. It ends with a successful renewal when no lease fails any more. However many
/// leases fail in between, there is one line for the beginning and one for the end.
///
/// The field `stands_for` of an acquisition and a hold says how many they [stand for](lock_core::observer#samples). It
/// is 1 unless the lock is acquired very often, or the app has chosen a sample.
///
/// All spans have the level `INFO` and the target `lock`. While no subscriber wants them, they cost next to nothing.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use lock_core::observer::{Observer, Observers};
/// use lock_telemetry::Traces;
///
/// // `lock_sync::Builder::observer` takes it, and so do the builders of the stores.
/// let traces: Arc<dyn Observer> = Arc::new(Traces::new());
/// let mut observers = Observers::none();
/// observers.add(traces);
/// ```
#[derive(Default)]
pub struct Traces {
    acquiring: Live<AcquisitionId, Acquiring>,
    holding: Live<HoldId, Span>,
    outage: Outage,
}

/// The spans of an acquisition.
struct Acquiring {
    whole: Span,
    wait: OnceLock<Span>,
}

impl Traces {
    /// An observer without spans.
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

impl Observer for Traces {
    fn acquire_begun(&self, event: &AcquireBegun<'_>) {
        let whole = info_span!(
            target: "lock",
            "lock.acquire",
            key = %event.key,
            mode = mode(event.mode),
            stands_for = event.stands_for,
            outcome = Empty,
            entered = Empty,
            error = Empty,
        );
        if !whole.is_disabled() {
            self.acquiring.insert(event.id, Acquiring { whole, wait: OnceLock::new() });
        }
    }

    fn acquire_waits(&self, event: &AcquireWaits<'_>) {
        if let Some(acquiring) = self.acquiring.get(&event.id) {
            let parent = &acquiring.whole;
            acquiring.wait.get_or_init(|| info_span!(target: "lock", parent: parent, "lock.wait"));
        }
    }

    fn acquire_ended(&self, event: &AcquireEnded<'_>) {
        let Some(acquiring) = self.acquiring.remove(&event.id) else { return };
        // The span of the wait ends here. The span of the acquisition may live on in the next event
        // of the caller.
        let whole = acquiring.whole.clone();
        drop(acquiring);
        whole.record("outcome", event.outcome.name());
        let error: Option<&Error> = match event.outcome {
            AcquireEnd::Timeout(error) => error,
            AcquireEnd::Failed(error) => Some(error),
            _ => None,
        };
        if let Some(error) = error {
            whole.record("error", display(error));
        }
        let AcquireEnd::Granted { entered, .. } = event.outcome else { return };
        whole.record("entered", entered.name());
        // An upgrade goes on with the hold and the span of the reader.
        if entered != Entered::Upgraded {
            self.acquiring.insert(event.id, Acquiring { whole, wait: OnceLock::new() });
        }
    }

    fn hold_begun(&self, event: &HoldBegun<'_>) {
        let acquiring = event.acquisition.and_then(|id| self.acquiring.remove(&id));
        let hold = info_span!(
            target: "lock",
            "lock.hold",
            key = %event.key,
            mode = mode(event.mode),
            token = event.token.get(),
            stands_for = event.stands_for,
            outcome = Empty,
        );
        if let Some(acquiring) = acquiring {
            hold.follows_from(&acquiring.whole);
        }
        if !hold.is_disabled() {
            self.holding.insert(event.id, hold);
        }
    }

    fn hold_ended(&self, event: &HoldEnded<'_>) {
        if let Some(hold) = self.holding.remove(&event.id) {
            hold.record("outcome", event.how.name());
        }
        self.outage.gone(event.key);
    }

    fn lease_renewed(&self, event: &LeaseRenewed<'_>) {
        let (news, failing) = self.outage.renewed(event);
        match (news, event.outcome) {
            (Some(News::Begun), RenewalOutcome::Failed(error)) => {
                warn!(target: "lock", key = %event.key, %error, took = ?event.took, "a renewal failed: leases are lost unless the store answers in time");
            }
            (Some(News::Over { after }), _) => {
                info!(target: "lock", key = %event.key, ?after, failing, "renewals succeed again");
            }
            _ => {}
        }
    }

    fn lease_lost(&self, event: &Loss<'_>) {
        self.outage.lost(event.key);
        let tell = |parent: Option<Arc<Span>>| {
            let parent = parent.and_then(|span| span.id());
            warn!(target: "lock", parent: parent, key = %event.key, reason = event.reason.name(), left = ?event.left, since = ?event.since, "the lease is lost");
        };
        let mut spans = event.holds.iter().filter_map(|id| self.holding.get(id));
        match spans.next() {
            None => tell(None),
            Some(first) => [first].into_iter().chain(spans).for_each(|span| tell(Some(span))),
        }
    }

    fn node_kept_out(&self, event: &NodeKeptOut<'_>) {
        warn!(target: "lock", node = event.node, why = event.why.name(), "a node of the quorum is kept out");
    }

    fn node_back(&self, event: &NodeBack<'_>) {
        info!(target: "lock", node = event.node, after = ?event.after, "a node of the quorum is back");
    }

    fn driver_stalled(&self, event: &DriverStalled) {
        warn!(target: "lock", late = ?event.late, "the driver of the locks was late");
    }

    fn clock_jumped(&self, event: &ClockJumped) {
        warn!(target: "lock", by = ?event.by, "the clock went on while this process did not");
    }

    fn renewal_late(&self, event: &RenewalLate<'_>) {
        warn!(target: "lock", key = %event.key, late = ?event.late, left = ?event.left, "a renewal leaves late");
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        Mode::Upgradable => "upgradable",
        Mode::Permits { .. } => "permits",
        Mode::Joint { .. } => "joint",
        _ => "other",
    }
}
