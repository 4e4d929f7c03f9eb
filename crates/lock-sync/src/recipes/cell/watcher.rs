//! Hearing of changes.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::Stream;
use lock_core::{Backoff, Hint, Watch};

use crate::bare::{BareLock, Bell};
use crate::foreign::survive;

/// The pause before a watch that has ended is put in place again for the first time.
const AGAIN: Duration = Duration::from_millis(20);

/// Tells when to look at a value again: at hints, and by the clock in case there are none.
///
/// Look after every [`changed`](Self::changed): the first returns once changes are sure to be heard, or
/// cannot be.
pub(crate) struct Watcher {
    bare: BareLock,
    interval: Duration,
    hints: Hints,
    /// Rings when the value is to be looked at in any case, or the watch to be put in place again.
    bell: Option<Bell>,
    backoff: Backoff,
}

enum Hints {
    /// To be listened for from now on.
    Wanted,
    /// The mutex is never locked: it makes the futures that hold a watch `Sync`.
    Heard(Mutex<Watch>),
    /// The watch has ended, or could not be put in place. It is wanted again after this time.
    Broken(Duration),
    /// The store has none to give.
    Lacking,
}

impl Watcher {
    pub(super) fn new(bare: &BareLock, interval: Duration) -> Self {
        Self {
            bare: bare.clone(),
            interval,
            hints: Hints::Wanted,
            bell: None,
            backoff: Backoff::new(AGAIN, interval),
        }
    }

    /// Waits until the value may have changed. What happens between two calls is not missed.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(crate) async fn changed(&mut self) {
        loop {
            let pause = match &self.hints {
                Hints::Wanted => return self.listen().await,
                Hints::Heard(_) | Hints::Lacking => self.interval,
                Hints::Broken(pause) => *pause,
            };
            let bell = self.bell.get_or_insert_with(|| self.bare.alarm(pause));
            tokio::select! {
                hint = next_hint(&mut self.hints) => match hint {
                    // Neither says anything of the value.
                    Some(Hint::Wanted | Hint::Granted { .. }) => {}
                    Some(_) => {
                        self.backoff.reset();
                        return;
                    }
                    None => self.break_off(),
                },
                () = bell => {
                    self.bell = None;
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
        self.bell = None;
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
