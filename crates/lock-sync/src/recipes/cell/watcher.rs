//! Watching a value for changes.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::Stream;
use lock_core::{Backoff, Hint, Watch};

use crate::bare::{Alarm, BareLock};
use crate::foreign::survive;

/// The first pause before the watcher sets an ended watch up again.
const AGAIN: Duration = Duration::from_millis(20);

/// Says when to load a value again: after a hint, and after some time without a hint.
///
/// Load the value after every [`changed`](Self::changed). The first call returns once the watch is set up, or cannot
/// be set up.
pub(crate) struct Watcher {
    bare: BareLock,
    interval: Duration,
    hints: Hints,
    /// Rings when it is time to load the value without a hint, or to set the watch up again.
    alarm: Option<Alarm>,
    backoff: Backoff,
}

enum Hints {
    /// The watch has to be set up.
    Wanted,
    /// The mutex is never locked: it makes the futures that hold a watch `Sync`.
    Heard(Mutex<Watch>),
    /// The watch has ended, or could not be set up. The watcher sets it up again after this time.
    Broken(Duration),
    /// The store gives no hints.
    Lacking,
}

impl Watcher {
    pub(super) fn new(bare: &BareLock, interval: Duration) -> Self {
        Self {
            bare: bare.clone(),
            interval,
            hints: Hints::Wanted,
            alarm: None,
            backoff: Backoff::new(AGAIN, interval),
        }
    }

    /// Waits until the value may have changed. It does not miss a change between two calls.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no change.
    pub(crate) async fn changed(&mut self) {
        loop {
            let pause = match &self.hints {
                Hints::Wanted => return self.listen().await,
                Hints::Heard(_) | Hints::Lacking => self.interval,
                Hints::Broken(pause) => *pause,
            };
            let alarm = self.alarm.get_or_insert_with(|| self.bare.alarm(pause));
            tokio::select! {
                hint = next_hint(&mut self.hints) => match hint {
                    // Neither of these hints says anything about the value.
                    Some(Hint::Contended | Hint::Granted { .. }) => {}
                    Some(_) => {
                        self.backoff.reset();
                        return;
                    }
                    None => self.break_off(),
                },
                () = alarm => {
                    self.alarm = None;
                    match self.hints {
                        Hints::Broken(_) => self.hints = Hints::Wanted,
                        _ => return,
                    }
                }
            }
        }
    }

    async fn listen(&mut self) {
        match self.bare.watch().await {
            Ok(watch) => self.hints = Hints::Heard(Mutex::new(watch)),
            Err(error) if error.is_retryable() => self.break_off(),
            Err(_) => self.hints = Hints::Lacking,
        }
    }

    fn break_off(&mut self) {
        self.hints = Hints::Broken(self.backoff.fail());
        self.alarm = None;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // A watch that ends may wake the task that listened to it.
        let hints = std::mem::replace(&mut self.hints, Hints::Lacking);
        survive(|| drop(hints));
    }
}

async fn next_hint(hints: &mut Hints) -> Option<Hint> {
    let Hints::Heard(watch) = hints else { return pending().await };
    poll_fn(|context| {
        let watch = watch.get_mut().unwrap_or_else(PoisonError::into_inner);
        Pin::new(watch).poll_next(context)
    })
    .await
}
