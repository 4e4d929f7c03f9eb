//! The watchers of one lock, and what they wait for.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Cell, Contention, Grant, Hint, Instant, LoadedValue, OwnerToken};

use super::channel::{Id, Seen};
use super::entering::{Sample, valid_until};
use super::inbox::Message;
use super::mailbox::{Mailbox, Woken};

/// The watchers of one lock, and the claims of this client in its queue.
#[derive(Debug, Default)]
pub(super) struct Audience {
    watchers: Vec<(Id, Arc<Mailbox>)>,
    waiting: Vec<Waiting>,
    /// What the last look at the lock found, if there was one.
    seen: Option<Seen>,
}

/// A claim that has a place in the queue, or may have one.
#[derive(Debug)]
struct Waiting {
    owner: OwnerToken,
    /// How long a lease lives that is handed over to this claim.
    claim: Duration,
    /// Whether a grant to this claim is to be confirmed.
    confirms: bool,
    sample: Option<Sample>,
    /// When the place is lost, unless the request is repeated.
    ends: Instant,
    /// The value that came just before a grant, and the instant of that grant on the server's clock.
    value: Option<(u64, Cell)>,
}

impl Audience {
    pub(super) fn add(&mut self, id: Id, mailbox: &Arc<Mailbox>) {
        self.watchers.push((id, Arc::clone(mailbox)));
    }

    /// Removes a watcher. Returns whether it was the last.
    pub(super) fn remove(&mut self, id: Id) -> bool {
        self.watchers.retain(|(watcher, _)| *watcher != id);
        self.watchers.is_empty()
    }

    /// Notes that a claim is about to ask for a place in the queue.
    ///
    /// A claim without an explicit end of its wait is forgotten when the server has forgotten its
    /// place.
    pub(super) fn expect(&mut self, request: &Acquire, confirms: bool, now: Instant) {
        let owner = request.claim.owner;
        let ends = now + request.ttl.for_place().duration();
        self.waiting.retain(|waiting| waiting.ends > now || waiting.owner == owner);
        let claim = request.ttl.for_grant().duration();
        match self.find(owner) {
            Some(waiting) => {
                (waiting.claim, waiting.confirms, waiting.ends) = (claim, confirms, ends);
            }
            None => {
                self.waiting.push(Waiting {
                    owner,
                    claim,
                    confirms,
                    sample: None,
                    ends,
                    value: None,
                });
            }
        }
    }

    /// Notes how the clocks stood when a claim got its place. The latest note counts: the shorter the
    /// time between the note and the grant, the more is known of the lease.
    pub(super) fn compare(&mut self, owner: OwnerToken, sample: Sample) {
        if let Some(waiting) = self.find(owner) {
            let later = |before: &Sample| before.sent < sample.sent;
            if waiting.sample.as_ref().is_none_or(later) {
                waiting.sample = Some(sample);
            }
        }
    }

    /// Whether the store has confirmed the place of a claim, and no later message ended it.
    pub(super) fn has_place(&self, owner: OwnerToken) -> bool {
        self.waiting.iter().any(|waiting| waiting.owner == owner && waiting.sample.is_some())
    }

    /// Notes that a claim has stopped waiting.
    pub(super) fn forget(&mut self, owner: OwnerToken) {
        self.waiting.retain(|waiting| waiting.owner != owner);
    }

    /// Turns a message into a hint, if it concerns a claim or a lock of this client.
    pub(super) fn hear(&mut self, message: Message, received: Instant) -> Woken {
        let hint = match message {
            Message::Wanted => Hint::Contended,
            Message::Value { owner, at, cell } => {
                if let Some(waiting) = self.find(owner) {
                    waiting.value = Some((at, cell));
                }
                return Woken::default();
            }
            Message::Next { owner, after } => match self.find(owner) {
                // The claim may ask at once.
                Some(_) if after.is_zero() => Hint::Granted { owner, grant: None },
                Some(_) => Hint::Next { owner, after },
                None => return Woken::default(),
            },
            Message::Granted { owner, tokens, pushed, wanted } => {
                // No script grants a claim that this client has not queued.
                let Some(waiting) = self.find(owner) else { return Woken::default() };
                let known = waiting.sample.filter(|_| !waiting.confirms);
                let until =
                    known.and_then(|sample| valid_until(sample, pushed, waiting.claim, received));
                let contention = if wanted { Contention::Contended } else { Contention::Quiet };
                // A value that came with another grant may be out of date.
                let value = waiting.value.take().filter(|(at, _)| *at == pushed.at);
                let grant = until.map(|until| {
                    let grant = Grant::new(tokens, until).with_contention(contention);
                    match value {
                        Some((_, cell)) => grant.bringing(LoadedValue::new(Some(cell))),
                        None => grant,
                    }
                });
                if grant.is_some() {
                    self.forget(owner);
                }
                Hint::Granted { owner, grant }
            }
        };
        self.tell(&hint)
    }

    /// Turns what a look at the lock found into a hint, if an earlier look found something else. A lock
    /// that was taken is no reason to wake up. If the lock holds nothing, and something `happened` to
    /// it, then it may have been taken and released between two looks.
    pub(super) fn see(&mut self, seen: Seen, happened: bool) -> Woken {
        let before = self.seen.replace(seen).flatten();
        match (before, seen) {
            (Some(_), None) => self.tell(&Hint::Released),
            (None, None) if happened => self.tell(&Hint::Released),
            (Some(before), Some(now)) if before != now => self.tell(&Hint::Changed),
            _ => Woken::default(),
        }
    }

    pub(super) fn tell(&self, hint: &Hint) -> Woken {
        tell(&self.watchers, hint)
    }

    fn find(&mut self, owner: OwnerToken) -> Option<&mut Waiting> {
        self.waiting.iter_mut().find(|waiting| waiting.owner == owner)
    }
}

/// Leaves a hint for these watchers.
pub(super) fn tell(watchers: &[(Id, Arc<Mailbox>)], hint: &Hint) -> Woken {
    let mut woken = Woken::default();
    for (_, mailbox) in watchers {
        woken.and(mailbox.post(hint.clone()));
    }
    woken
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker;
    use lock_core::{Claim, FencingToken, Key, TokenRange, Ttl};
    use std::task::{Context, Poll};

    use super::*;
    use crate::hub::entering::Pushed;

    const NOON: u64 = 1_795_000_000_000_000;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1 << 40) + Duration::from_millis(millis)
    }

    fn owner(byte: u8) -> OwnerToken {
        OwnerToken::from_bytes([byte; 16])
    }

    fn request(owner: OwnerToken) -> Acquire {
        let claim = Claim::exclusive(Key::new("a").unwrap(), owner);
        Acquire::new(claim, Ttl::new(Duration::from_secs(9)).unwrap()).queued()
    }

    fn granted(owner: OwnerToken, after: u64) -> Message {
        let tokens = TokenRange::single(FencingToken::new(7));
        let pushed = Pushed { at: NOON + after * 1_000, lease: Duration::from_secs(1) };
        Message::Granted { owner, tokens, pushed, wanted: true }
    }

    struct Scene {
        audience: Audience,
        mailbox: Arc<Mailbox>,
    }

    impl Scene {
        fn new() -> Self {
            let (mut audience, mailbox) = (Audience::default(), Arc::default());
            audience.add(1, &mailbox);
            Self { audience, mailbox }
        }

        fn next(&self) -> Option<Hint> {
            let waker = noop_waker();
            match self.mailbox.poll_next(&Context::from_waker(&waker)) {
                Poll::Ready(hint) => hint,
                Poll::Pending => None,
            }
        }

        /// The grant in the hint for this message, if there is one.
        fn hear(&mut self, message: Message, received: Instant) -> Option<Option<Grant>> {
            drop(self.audience.hear(message, received));
            match self.next() {
                Some(Hint::Granted { grant, .. }) => Some(grant),
                _ => None,
            }
        }
    }

    #[test]
    fn a_grant_with_enough_facts_is_entered() {
        let mut scene = Scene::new();
        scene.audience.expect(&request(owner(1)), false, at(0));
        scene.audience.compare(owner(1), Sample { sent: at(0), seen: NOON });
        let grant = scene.hear(granted(owner(1), 5), at(5)).unwrap().unwrap();
        assert_eq!(grant.contention, Contention::Contended);
        assert!(grant.valid_until > at(900) && grant.valid_until < at(1_005));
        // A second copy of the message concerns no claim.
        assert_eq!(scene.hear(granted(owner(1), 5), at(6)), None);
    }

    #[test]
    fn a_grant_that_overtakes_its_reply_is_asked_about() {
        let mut scene = Scene::new();
        scene.audience.expect(&request(owner(1)), false, at(0));
        assert_eq!(scene.hear(granted(owner(1), 5), at(5)), Some(None));
    }

    #[test]
    fn a_grant_that_is_to_be_confirmed_is_asked_about() {
        let mut scene = Scene::new();
        scene.audience.expect(&request(owner(1)), true, at(0));
        scene.audience.compare(owner(1), Sample { sent: at(0), seen: NOON });
        // Another claim of this client needs no confirmation.
        scene.audience.expect(&request(owner(2)), false, at(0));
        scene.audience.compare(owner(2), Sample { sent: at(0), seen: NOON });
        assert_eq!(scene.hear(granted(owner(1), 5), at(5)), Some(None));
        assert!(scene.hear(granted(owner(2), 5), at(5)).unwrap().is_some());
        // The claim still has to ask, and hears if the server repeats itself.
        assert_eq!(scene.hear(granted(owner(1), 5), at(6)), Some(None));
    }

    #[test]
    fn a_message_about_another_owner_is_not_heard() {
        let mut scene = Scene::new();
        scene.audience.expect(&request(owner(1)), false, at(0));
        assert_eq!(scene.hear(granted(owner(2), 5), at(5)), None);
        scene.audience.forget(owner(1));
        assert_eq!(scene.hear(granted(owner(1), 5), at(5)), None);
    }

    #[test]
    fn the_latest_comparison_of_the_clocks_counts() {
        let mut scene = Scene::new();
        scene.audience.expect(&request(owner(1)), false, at(0));
        for (sent, seen) in [(3_000, 3_001), (0, 1)] {
            let sample = Sample { sent: at(sent), seen: NOON + seen * 1_000 };
            scene.audience.compare(owner(1), sample);
        }
        // An old message, sent before the place was renewed.
        assert_eq!(scene.hear(granted(owner(1), 2_000), at(3_100)), Some(None));
        assert!(scene.hear(granted(owner(1), 3_050), at(3_100)).unwrap().is_some());
    }

    #[test]
    fn what_a_lock_is_found_to_hold_is_told_when_it_differs() {
        let mut scene = Scene::new();
        for (seen, happened, hint) in [
            (None, false, None),
            (Some(1), true, None),
            (Some(1), true, None),
            (Some(2), true, Some(Hint::Changed)),
            (None, true, Some(Hint::Released)),
            (None, false, None),
            (None, true, Some(Hint::Released)),
            (Some(2), true, None),
            (None, false, Some(Hint::Released)),
        ] {
            drop(scene.audience.see(seen, happened));
            assert_eq!(scene.next(), hint);
        }
    }

    #[test]
    fn places_that_no_client_gave_up_are_forgotten() {
        let mut scene = Scene::new();
        for byte in 0..100 {
            scene.audience.expect(&request(owner(byte)), false, at(0));
        }
        scene.audience.expect(&request(owner(100)), false, at(9_001));
        assert_eq!(scene.audience.waiting.len(), 1);
    }
}
