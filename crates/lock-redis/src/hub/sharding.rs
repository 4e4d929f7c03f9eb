//! In which slot the inbox of this client is: makes the subscription on the server the wanted one.
//!
//! The server has the slots of the locks that this client watches there, so the inbox is in one of these slots. If the
//! server loses that slot, it ends the subscription, and the inbox goes to another slot.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::Error;
use tokio::sync::Notify;
use tokio::time;

use super::channel::Generation;
use super::registry::Registry;
use super::shard::Shard;
use super::subscriber::{InSlot, Subscriber};

/// How long no slot is tried after the server had none of those that were tried.
const PAUSE: Duration = Duration::from_secs(1);
/// After this time the client asks again: the user may have got the right since.
const REFUSED: Duration = Duration::from_secs(300);
/// The most slots that are tried one after another.
const MOST_SLOTS: usize = 8;

/// The inbox in a slot, as far as the present connection has one.
#[derive(Debug)]
pub(super) struct Sharding {
    state: State,
    /// Woken when the server ends the subscription.
    lost: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The server is in no cluster.
    Never,
    Wanted,
    Heard,
    /// Wanted from this instant on.
    Later(Instant),
    /// The server or the user has no such channels. The next watch after this instant tries again.
    Refused(Instant),
}

impl Sharding {
    pub(super) fn new(is_cluster: bool, lost: Arc<Notify>) -> Self {
        let state = if is_cluster { State::Wanted } else { State::Never };
        Self { state, lost }
    }

    /// The connection is of no more use.
    pub(super) fn hang_up(&mut self) {
        if self.state != State::Never {
            self.state = State::Wanted;
        }
    }

    /// Returns when it is time to seek.
    pub(super) async fn due(&self) {
        match self.state {
            State::Heard => self.lost.notified().await,
            State::Later(at) => time::sleep_until(at.into()).await,
            State::Never | State::Wanted | State::Refused(_) => std::future::pending().await,
        }
    }

    /// The slots to try, out of these; none if there is to be no other subscription now.
    pub(super) fn due_slots(
        &mut self,
        registry: &Registry,
        slots: impl Iterator<Item = u16>,
    ) -> Vec<u16> {
        if !self.is_due(registry.hears_in_slot()) {
            return Vec::new();
        }
        let mut slots = slots.peekable();
        if slots.peek().is_none() {
            // The next watch brings one.
            self.state = State::Wanted;
            return Vec::new();
        }
        let candidates = self.candidates(registry.last_slot(), slots);
        if candidates.is_empty() {
            // The slot that the server has lost may come back.
            self.state = State::Later(Instant::now() + PAUSE);
        }
        candidates
    }

    /// Subscribes in the first of these slots that the server has. Returns whether claims may name an inbox in another
    /// slot than before.
    ///
    /// # Errors
    ///
    /// The connection is of no more use.
    pub(super) async fn seek(
        &mut self,
        subscriber: &Subscriber,
        registry: &Registry,
        by: Generation,
        slots: Vec<u16>,
    ) -> Result<bool, Error> {
        let Some(own) = registry.inbox().filter(|_| !slots.is_empty()) else { return Ok(false) };
        let before = registry.last_slot();
        for slot in slots {
            let shard = Shard::of(&own, slot);
            if !registry.seek_in_slot(by, &shard) {
                // The inbox is in the care of a later task.
                self.state = State::Never;
                return Ok(false);
            }
            self.state = match subscriber.subscribe_in_slot(&shard).await? {
                InSlot::Heard if registry.hear_in_slot(by, shard) => State::Heard,
                InSlot::Heard | InSlot::Elsewhere => continue,
                InSlot::Refused => State::Refused(Instant::now() + REFUSED),
            };
            return Ok(before.is_some() && registry.last_slot() != before);
        }
        self.state = State::Later(Instant::now() + PAUSE);
        Ok(false)
    }

    fn is_due(&self, is_heard: bool) -> bool {
        match self.state {
            State::Never => false,
            State::Wanted => true,
            State::Heard => !is_heard,
            State::Later(at) | State::Refused(at) => Instant::now() >= at,
        }
    }

    /// The slots to try: first the one from before, which claims may name, unless the server has just lost it.
    fn candidates(&self, before: Option<u16>, slots: impl Iterator<Item = u16>) -> Vec<u16> {
        let (before, lost) = match self.state {
            State::Heard => (None, before),
            _ => (before, None),
        };
        let mut candidates = Vec::with_capacity(MOST_SLOTS);
        for slot in before.into_iter().chain(slots).filter(|slot| Some(*slot) != lost) {
            if candidates.len() == MOST_SLOTS {
                break;
            }
            if !candidates.contains(&slot) {
                candidates.push(slot);
            }
        }
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Push;

    fn sharding(state: State) -> Sharding {
        Sharding { state, lost: Arc::default() }
    }

    #[test]
    fn the_slots_to_try_are_different_and_few() {
        for (state, before, slots, tried) in [
            (State::Wanted, None, vec![3, 3, 4, 3], vec![3, 4]),
            (State::Wanted, Some(9), vec![3, 9], vec![9, 3]),
            // The server has lost this one.
            (State::Heard, Some(9), vec![9, 3, 9], vec![3]),
            (State::Wanted, None, vec![], vec![]),
            (State::Wanted, Some(0), (0..100).collect(), (0..8).collect()),
        ] {
            assert_eq!(sharding(state).candidates(before, slots.into_iter()), tried);
        }
    }

    #[test]
    fn a_slot_that_was_lost_is_tried_again_later() {
        let registry = Registry::new(Some(b"lock:inbox:0123456789abcdef"[..].into()));
        let (by, lost) = registry.take_over();
        let mut sharding = Sharding::new(true, lost);
        assert_eq!(sharding.due_slots(&registry, [7].into_iter()), [7]);
        let shard = Shard::of(&registry.inbox().unwrap(), 7);
        assert!(registry.seek_in_slot(by, &shard) && registry.hear_in_slot(by, shard.clone()));
        sharding.state = State::Heard;
        assert!(sharding.due_slots(&registry, [7].into_iter()).is_empty());
        registry.hear(Push::Ended { channel: &shard.channel });
        assert!(sharding.due_slots(&registry, [7].into_iter()).is_empty());
        assert!(matches!(sharding.state, State::Later(_)));
        sharding.state = State::Later(Instant::now());
        assert_eq!(sharding.due_slots(&registry, [7].into_iter()), [7]);
        // Without watches nothing is tried.
        assert!(sharding.due_slots(&registry, [].into_iter()).is_empty());
        assert_eq!(sharding.state, State::Wanted);
    }

    #[test]
    fn a_subscription_is_sought_while_there_is_none_and_there_may_be_one() {
        let (over, to_come) = (Instant::now(), Instant::now() + Duration::from_secs(3_600));
        for (state, is_due) in [
            (State::Never, [false, false]),
            (State::Wanted, [true, true]),
            (State::Heard, [true, false]),
            (State::Later(over), [true, true]),
            (State::Later(to_come), [false, false]),
            (State::Refused(over), [true, true]),
            (State::Refused(to_come), [false, false]),
        ] {
            let sharding = sharding(state);
            assert_eq!([false, true].map(|heard| sharding.is_due(heard)), is_due, "{state:?}");
        }
        let mut never = Sharding::new(false, Arc::default());
        never.hang_up();
        assert!(!never.is_due(false) && Sharding::new(true, Arc::default()).is_due(false));
    }
}
