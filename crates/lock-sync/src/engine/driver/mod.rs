//! The driver runs everything that must not depend on the tasks that use the locks: renewals, releases of dropped
//! guards, requests whose task went away, watches and timers.
//!
//! By default it runs on a thread of its own. So a blocked executor does not end a lease, and a runtime that shuts
//! down does not keep a lock.

mod flights;
mod health;
mod timers;

use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use lock_core::{Error, ErrorKind, runtime};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::foreign::survive;

pub(crate) use flights::{Flight, Flights};
pub(crate) use timers::{Timed, Timers};

/// Something for the driver to do. Sending it never blocks, never panics and returns no error, because `Drop` sends
/// errands.
pub(crate) trait Errand: Send + 'static {
    /// Begins the errand, on the driver.
    fn begin(self);

    /// Handles an errand that comes after the driver has gone. This is called at once, on the sender's thread, so the
    /// sender must not hold the lock of an entry.
    fn refuse(self);
}

/// A handle to the driver.
pub(crate) struct Driver<C> {
    runtime: Handle,
    commands: UnboundedSender<C>,
}

impl<C: Errand> Driver<C> {
    /// Starts a driver on this runtime, or on a thread of its own. The driver also polls `beside` while it works, and
    /// calls `gone` when it ends, for whatever reason.
    pub(crate) fn start(
        runtime: Option<Handle>,
        timers: &Arc<Timers<impl Timed>>,
        flights: &Arc<Flights>,
        beside: impl Future<Output = ()> + Send + 'static,
        gone: impl FnOnce() + Send + 'static,
    ) -> Result<Self, Error> {
        let (sender, commands) = unbounded_channel::<C>();
        let (timers, flights) = (Arc::clone(timers), Arc::clone(flights));
        let driver = run(Obituary(Some(gone)), commands, timers, flights, beside);
        let runtime = match runtime {
            Some(runtime) => {
                runtime.spawn(driver);
                runtime
            }
            None => runtime::spawn_thread("lock-driver", driver).map_err(|error| {
                let message = "could not start the driver of the locks";
                Error::with_source(ErrorKind::Other, message, error)
            })?,
        };
        Ok(Self { runtime, commands: sender })
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Whether the driver still takes errands.
    pub(crate) fn is_running(&self) -> bool {
        !self.commands.is_closed()
    }

    /// Sends an errand. The caller must not hold the lock of an entry: see [`Errand::refuse`].
    pub(crate) fn send(&self, errand: C) {
        if let Err(refused) = self.commands.send(errand) {
            refused.0.refuse();
        }
    }
}

/// How many commands the driver begins before it looks at the timers again.
const AT_ONCE: usize = 4096;

/// Works until every handle is gone, and then until no request is under way.
///
/// The first parameter is dropped last: when it says that the driver has gone, the driver no longer takes commands.
async fn run(
    _obituary: Obituary<impl FnOnce()>,
    mut commands: UnboundedReceiver<impl Errand>,
    timers: Arc<Timers<impl Timed>>,
    flights: Arc<Flights>,
    beside: impl Future<Output = ()>,
) {
    let mut batch = Vec::new();
    let mut health = timers.health();
    let mut beside = pin!(beside.fuse());
    loop {
        tokio::select! {
            count = commands.recv_many(&mut batch, AT_ONCE) => match count {
                0 => break,
                // All commands of one look at the timers begin at once, with no other task in between, so that
                // a backend can send their requests together.
                _ => batch.drain(..).for_each(|command| survive(|| command.begin())),
            },
            due = timers.due(&mut health) => {
                due.into_iter().for_each(|entry| survive(|| entry.tick()));
            }
            () = &mut beside => {}
        }
    }
    flights.all_landed().await;
}

/// Calls back when the driver ends, for whatever reason.
struct Obituary<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Obituary<F> {
    fn drop(&mut self) {
        if let Some(gone) = self.0.take() {
            gone();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Mutex;
    use std::time::Duration;

    use lock_core::Clock;
    use lock_core::observer::{ClockJumped, DriverStalled, Observer, Observers};
    use tokio::task::yield_now;

    use super::*;
    use crate::engine::Deadline;

    const HOUR: Duration = Duration::from_secs(3600);

    struct Entry;

    impl Timed for Entry {
        fn tick(self: &Arc<Self>) {
            unreachable!("its deadline is far ahead");
        }
    }

    enum Nothing {}

    impl Errand for Nothing {
        fn begin(self) {
            match self {}
        }

        fn refuse(self) {
            match self {}
        }
    }

    #[derive(Default)]
    struct Alarms(Mutex<Vec<(&'static str, Duration)>>);

    impl Observer for Alarms {
        fn driver_stalled(&self, event: &DriverStalled) {
            self.0.lock().unwrap().push(("stalled", event.late));
        }

        fn clock_jumped(&self, event: &ClockJumped) {
            self.0.lock().unwrap().push(("jumped", event.by));
        }
    }

    /// What a driver tells after its clock has gone on by an hour at once, with a deadline after two hours.
    async fn alarms(
        timers: impl FnOnce(Timers<Entry>) -> Timers<Entry>,
    ) -> (&'static str, Duration) {
        let (clock, alarms) = (Clock::tokio(), Arc::new(Alarms::default()));
        let mut observers = Observers::none();
        observers.add(alarms.clone());
        let timers = Arc::new(timers(Timers::new(clock, Duration::ZERO, observers)));
        let runtime = Some(Handle::current());
        let driver =
            Driver::<Nothing>::start(runtime, &timers, &Arc::default(), pending(), || {}).unwrap();
        let (entry, at) = (Arc::new(Entry), clock.now() + 2 * HOUR);
        timers.arm(&entry, None, Deadline { at, flexible: false });
        // The test never sleeps: otherwise the runtime would advance the clock by itself.
        while !timers.is_asleep() {
            yield_now().await;
        }
        assert_eq!(alarms.0.lock().unwrap()[..], []);
        tokio::time::advance(HOUR).await;
        let told = loop {
            if let [told, ..] = alarms.0.lock().unwrap()[..] {
                break told;
            }
            yield_now().await;
        };
        assert_eq!(alarms.0.lock().unwrap().len(), 1);
        drop(driver);
        told
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_goes_on_without_the_driver_has_jumped() {
        let (what, by) = alarms(Timers::counting_suspend).await;
        assert_eq!(what, "jumped");
        assert!(by <= HOUR && by > HOUR * 9 / 10, "{by:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_driver_that_comes_late_on_a_clock_that_stops_with_the_computer_has_stalled() {
        let (what, late) = alarms(|timers| timers).await;
        assert_eq!(what, "stalled");
        assert!(late < HOUR && late > HOUR * 9 / 10, "{late:?}");
    }
}
