//! Hints from the server's tracking of the keys that its clients have read.
//!
//! The server reports a key that was read once, when anything happens to the key. The client then reads
//! the key again, which tells what happened and makes the server report the next change.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, ErrorKind};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{self, Instant};

use super::channel::{Channel, Generation, Seen};
use super::registry::Registry;
use crate::link::Live;
use crate::scripts::LOOK;
use crate::wire::{Call, Command, Failure, Reply};

/// The shortest time between two reads of a key that changes all the time.
const PAUSE: Duration = Duration::from_millis(20);

/// Reads keys that may have changed, until it is dropped.
#[derive(Debug)]
pub(super) struct Tracking(AbortHandle);

impl Tracking {
    /// Has the server track the keys of tracked calls. `None` if the server does not support that, or
    /// this user has no right to it.
    ///
    /// # Errors
    ///
    /// The connection is of no use.
    pub(super) async fn start(
        live: &Arc<Live>,
        registry: &Arc<Registry>,
        generation: Generation,
    ) -> Result<Option<Self>, Error> {
        if let Err(error) = switch_on(live).await {
            if error.is_retryable() {
                return Err(error);
            }
            tracing::debug!(%error, "the client goes on without tracking");
            return Ok(None);
        }
        let bell = Arc::new(Notify::new());
        registry.wake_reader(generation, Arc::clone(&bell));
        let task = tokio::spawn(run(Arc::clone(live), Arc::clone(registry), bell));
        Ok(Some(Self(task.abort_handle())))
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Has the server track the keys of tracked calls.
pub(crate) async fn switch_on(live: &Live) -> Result<(), Error> {
    let command = Command::words(&["CLIENT", "TRACKING", "ON", "OPTIN"]);
    match live.call(&command).await.map_err(Failure::into_error)? {
        Reply::Text(said) if said == b"OK" => Ok(()),
        _ => Err(Error::new(ErrorKind::Protocol, "CLIENT TRACKING was answered with nonsense")),
    }
}

/// Reads a key, and asks for a report of its next change. Returns the failure if another server has the key.
pub(super) async fn look(
    live: &Live,
    registry: &Registry,
    lock: &Channel,
    happened: bool,
) -> Result<Option<Failure>, Error> {
    let mut call = Call::new(&LOOK, 1, lock.len());
    call.bytes(lock);
    let outcome = match live.run(call.tracked()).await {
        Err(failure @ (Failure::Moved(..) | Failure::Asks(..))) => return Ok(Some(failure)),
        outcome => outcome.map_err(Failure::into_error),
    };
    match outcome {
        Ok(answer) => registry.see(lock, seen(&answer.reply), happened),
        // The key holds something that is no lock of ours.
        Err(error) if error.kind() == ErrorKind::ForeignKey => {
            registry.see(lock, Some(0), happened);
        }
        Err(error) => return Err(error),
    }
    Ok(None)
}

async fn run(live: Arc<Live>, registry: Arc<Registry>, bell: Arc<Notify>) {
    let mut pending = Pending::default();
    loop {
        tokio::select! {
            () = bell.notified() => match registry.changed(&bell) {
                Some(changed) => changed.into_iter().for_each(|lock| pending.add(lock)),
                None => return,
            },
            lock = pending.next() => {
                if !registry.watches(&lock) {
                    continue;
                }
                if let Err(error) = look(&live, &registry, &lock, true).await {
                    tracing::debug!(%error, "cannot read a tracked key");
                    // Without a connection the server tracks nothing, and all watchers get a hint.
                    if live.is_closed() {
                        return;
                    }
                    pending.add(lock);
                }
            }
        }
    }
}

/// The keys to read, each with its time.
#[derive(Debug, Default)]
struct Pending {
    due: Vec<(Instant, Channel)>,
    /// The times of recent reads.
    read: HashMap<Channel, Instant>,
}

impl Pending {
    fn add(&mut self, lock: Channel) {
        if self.due.iter().any(|(_, other)| *other == lock) {
            return;
        }
        let now = Instant::now();
        self.read.retain(|_, last| now.duration_since(*last) < PAUSE);
        let at = self.read.get(&lock).map_or(now, |last| *last + PAUSE);
        self.due.push((at, lock));
    }

    /// The next key, once its time has come.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    async fn next(&mut self) -> Channel {
        let times = self.due.iter().enumerate().map(|(index, (at, _))| (*at, index));
        let Some((at, index)) = times.min() else { return std::future::pending().await };
        time::sleep_until(at).await;
        let (_, lock) = self.due.swap_remove(index);
        self.read.insert(Arc::clone(&lock), Instant::now());
        lock
    }
}

/// Equal hashes of unequal values are harmless: a hint need not be right.
fn seen(reply: &Reply) -> Seen {
    match reply {
        Reply::Nil => None,
        Reply::Text(text) => Some(BuildHasherDefault::<DefaultHasher>::new().hash_one(text)),
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    fn key(name: &str) -> Channel {
        name.as_bytes().into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_read_at_once_and_then_not_too_often() {
        let mut pending = Pending::default();
        let begin = Instant::now();
        pending.add(key("a"));
        pending.add(key("a"));
        assert_eq!(pending.next().await, key("a"));
        assert_eq!(begin.elapsed(), Duration::ZERO);
        pending.add(key("a"));
        pending.add(key("b"));
        assert_eq!(pending.next().await, key("b"));
        assert_eq!(begin.elapsed(), Duration::ZERO);
        assert_eq!(pending.next().await, key("a"));
        // The timer counts in whole milliseconds.
        assert!(begin.elapsed() >= PAUSE && begin.elapsed() < PAUSE * 2);
        assert!(time::timeout(PAUSE, pending.next()).await.is_err());
    }

    #[test]
    fn values_that_differ_are_told_apart() {
        let text = |text: &str| seen(&Reply::Text(text.into()));
        assert_eq!(seen(&Reply::Nil), None);
        assert_eq!(text("a"), text("a"));
        assert_ne!(text("a"), text("b"));
    }

    proptest! {
        /// Only an absent key is free.
        #[test]
        fn a_value_of_any_type_makes_a_key_exist(reply in garbage::replies()) {
            prop_assert_eq!(seen(&reply).is_none(), reply == Reply::Nil);
        }
    }
}
