//! The events of locks and stores, as they happen: for metrics, traces and logs.
//!
//! An app implements [`Observer`], and gives it to the builders of its locks and of their store. The observer hears of
//! acquisitions, holds, leases, requests, connections, and the health of the driver. Every method has a default that
//! does nothing, so an observer implements only the methods for the events that it needs.
//!
//! # Pairs
//!
//! - [`acquire_begun`](Observer::acquire_begun) and [`acquire_ended`](Observer::acquire_ended) come in pairs, with one
//!   [`AcquisitionId`], also if the wait is dropped, fails or panics. So their difference is the number of callers that
//!   have no outcome yet, if each event counts for what it [stands for](AcquireBegun::stands_for).
//! - [`hold_begun`](Observer::hold_begun) and [`hold_ended`](Observer::hold_ended) come in pairs, with one [`HoldId`].
//!   So their difference is the number of guards that exist, counted in the same way. [`HoldBegun::acquisition`] says
//!   which acquisition led to the hold.
//! - [`lease_lost`](Observer::lease_lost) names the holds that lost the lease. Their guards live on, so each hold ends
//!   later.
//! - [`node_kept_out`](Observer::node_kept_out) and [`node_back`](Observer::node_back) alternate for each node.
//!
//! # Samples
//!
//! The events of one acquisition cost some 100 ns. That matters for a lock that goes from task to task within a process
//! all the time. Of such a lock, `lock-sync` reports a sample of the acquisitions and their holds. An acquisition in
//! the sample has all its events, and each event says how many acquisitions it [stands for](AcquireEnded::stands_for).
//! For every other lock, that number is 1. `lock_sync::Builder::observe_one_in` fixes one sample for all locks instead.
//! Add these numbers up instead of counting events. Losses, renewals and hand-overs to other processes are never
//! sampled.
//!
//! # Events
//!
//! An event is a plain struct. A later version may add fields. So an observer reads the fields that it needs, and a
//! pattern for an event ends in `..`.
//!
//! # Where an observer runs
//!
//! The locks call the observer on the thread that learns the fact, and while they hold none of their internal locks. So
//! an observer may use the lock that it observes. [`acquire_begun`](Observer::acquire_begun),
//! [`acquire_waits`](Observer::acquire_waits) and the end of an acquisition with an outcome run in the task of the
//! caller, so the span of the caller is the current span. All other methods may run on the driver, which serves all
//! locks: an observer must be quick, and must not block. [`driver_stalled`](Observer::driver_stalled) reports an
//! observer that blocks the driver.
//!
//! The locks catch a panic of an observer, and go on. The next event comes as usual.
//!
//! Events on different threads come in any order. Events about one acquisition or hold come in the order of the facts.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicI64, Ordering};
//! use lock_core::observer::{AcquireBegun, AcquireEnded, Observer};
//!
//! /// How many callers wait for a lock.
//! #[derive(Default)]
//! struct Waiting(AtomicI64);
//!
//! impl Observer for Waiting {
//!     fn acquire_begun(&self, event: &AcquireBegun<'_>) {
//!         self.0.fetch_add(event.stands_for.into(), Ordering::Relaxed);
//!     }
//!
//!     fn acquire_ended(&self, event: &AcquireEnded<'_>) {
//!         self.0.fetch_sub(event.stands_for.into(), Ordering::Relaxed);
//!     }
//! }
//!
//! let waiting = Arc::new(Waiting::default());
//! // Give a clone to `lock_sync::Builder::observer`, for example.
//! let observer: Arc<dyn Observer> = waiting.clone();
//! # drop(observer);
//! assert_eq!(waiting.0.load(Ordering::Relaxed), 0);
//! ```

mod acquisitions;
mod forwarding;
mod health;
mod leases;
mod observers;
mod store;
mod telling;

pub use acquisitions::{
    AcquireBegun, AcquireEnd, AcquireEnded, AcquireWaits, AcquisitionId, Entered, HoldBegun,
    HoldEnd, HoldEnded, HoldId,
};
pub use health::{ClockJumped, DriverStalled, RenewalLate};
pub use leases::{HandedOver, LeaseRenewed, Loss, LossReason, RenewalOutcome};
pub use observers::Observers;
pub use store::{
    Connected, Disconnected, NodeBack, NodeKeptOut, Redirected, StoreAnswered, WhyKeptOut,
};
pub use telling::{Telling, Told};

/// Hears what happens to the locks of an app.
///
/// See the [module](self) for the order of events, and for where an observer runs.
///
/// # Examples
///
/// An observer that prints what it hears:
///
/// ```
/// use lock_core::observer::*;
///
/// struct Prints;
///
/// impl Observer for Prints {
///     fn acquire_begun(&self, event: &AcquireBegun<'_>) {
///         println!("{} wants {} as {:?}", event.id.get(), event.key, event.mode.kind());
///     }
///     fn acquire_waits(&self, event: &AcquireWaits<'_>) {
///         println!("{} waits", event.id.get());
///     }
///     fn acquire_ended(&self, event: &AcquireEnded<'_>) {
///         println!("{} {} after {:?}", event.id.get(), event.outcome.name(), event.waited);
///         if let AcquireEnd::Granted { hold, entered } = event.outcome {
///             println!("it is hold {hold}, entered: {}", entered.name());
///         }
///     }
///     fn hold_begun(&self, event: &HoldBegun<'_>) {
///         println!("{} holds {} under token {}", event.id, event.key, event.token);
///     }
///     fn hold_ended(&self, event: &HoldEnded<'_>) {
///         println!("{} {} after {:?}", event.id, event.how.name(), event.held);
///     }
///     fn lease_renewed(&self, event: &LeaseRenewed<'_>) {
///         println!("{}: {} in {:?}", event.key, event.outcome.name(), event.took);
///     }
///     fn lease_lost(&self, event: &Loss<'_>) {
///         eprintln!("{}: {}, for {} holds", event.key, event.reason, event.holds.len());
///     }
///     fn handed_over(&self, event: &HandedOver<'_>) {
///         println!("{} goes to another process", event.key);
///     }
///     fn store_answered(&self, event: &StoreAnswered<'_>) {
///         println!("{} {} took {:?}", event.server, event.verb, event.took);
///     }
///     fn connected(&self, event: &Connected<'_>) {
///         println!("connected to {}, again: {}", event.server, event.again);
///     }
///     fn disconnected(&self, event: &Disconnected<'_>) {
///         eprintln!("no connection to {}", event.server);
///     }
///     fn redirected(&self, event: &Redirected<'_>) {
///         println!("{} names {:?}", event.from, event.to);
///     }
///     fn node_kept_out(&self, event: &NodeKeptOut<'_>) {
///         eprintln!("{} takes no part: {}", event.node, event.why.name());
///     }
///     fn node_back(&self, event: &NodeBack<'_>) {
///         println!("{} is back after {:?}", event.node, event.after);
///     }
///     fn driver_stalled(&self, event: &DriverStalled) {
///         eprintln!("the driver was {:?} late", event.late);
///     }
///     fn clock_jumped(&self, event: &ClockJumped) {
///         eprintln!("the computer was suspended for {:?}", event.by);
///     }
///     fn renewal_late(&self, event: &RenewalLate<'_>) {
///         eprintln!("{}: {:?} late, {:?} left", event.key, event.late, event.left);
///     }
/// }
///
/// let mut observers = Observers::none();
/// observers.add(std::sync::Arc::new(Prints));
/// observers.tell(|it| it.connected(&Connected { server: "db:6379", again: false }));
/// ```
pub trait Observer: Send + Sync {
    /// A caller wants a lock. The locks call this method in the task of the caller, in the first
    /// poll.
    fn acquire_begun(&self, event: &AcquireBegun<'_>) {
        let _ = event;
    }

    /// The caller has become a waiter, because it did not get the lock at once. The locks call this method at most once
    /// for each acquisition, in the task of the caller, after [`acquire_begun`](Self::acquire_begun).
    fn acquire_waits(&self, event: &AcquireWaits<'_>) {
        let _ = event;
    }

    /// The acquisition has its outcome, or the caller has given up.
    fn acquire_ended(&self, event: &AcquireEnded<'_>) {
        let _ = event;
    }

    /// A holder has a guard or a permit from now on. If the hold comes from an acquisition, the event comes right
    /// after [`acquire_ended`](Self::acquire_ended).
    fn hold_begun(&self, event: &HoldBegun<'_>) {
        let _ = event;
    }

    /// A guard or a permit has gone. The event comes before `release` returns, and may come after the next holder
    /// has the lock.
    fn hold_ended(&self, event: &HoldEnded<'_>) {
        let _ = event;
    }

    /// A renewal has its outcome: an answer of the store, or a failure.
    fn lease_renewed(&self, event: &LeaseRenewed<'_>) {
        let _ = event;
    }

    /// A lease is lost while holders have it.
    fn lease_lost(&self, event: &Loss<'_>) {
        let _ = event;
    }

    /// The lock goes to another process.
    fn handed_over(&self, event: &HandedOver<'_>) {
        let _ = event;
    }

    /// A request to the store is over.
    fn store_answered(&self, event: &StoreAnswered<'_>) {
        let _ = event;
    }

    /// A connection to a server was opened.
    fn connected(&self, event: &Connected<'_>) {
        let _ = event;
    }

    /// A connection to a server has ended, or could not be opened.
    fn disconnected(&self, event: &Disconnected<'_>) {
        let _ = event;
    }

    /// A server has redirected a request to another server.
    fn redirected(&self, event: &Redirected<'_>) {
        let _ = event;
    }

    /// From now on, a node of a quorum does not take part.
    fn node_kept_out(&self, event: &NodeKeptOut<'_>) {
        let _ = event;
    }

    /// A node of a quorum takes part again.
    fn node_back(&self, event: &NodeBack<'_>) {
        let _ = event;
    }

    /// The driver was late: its thread was blocked, or got no processor.
    fn driver_stalled(&self, event: &DriverStalled) {
        let _ = event;
    }

    /// The clock of the leases went on while this process did not: the computer was suspended.
    fn clock_jumped(&self, event: &ClockJumped) {
        let _ = event;
    }

    /// A renewal leaves so late that an outage of the store may end the lease.
    fn renewal_late(&self, event: &RenewalLate<'_>) {
        let _ = event;
    }
}
