//! The places of this client in the queues, and when each of them ends. Pure.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::{Claim, Instant, Key, OwnerToken};

/// The places of one session.
#[derive(Debug, Default)]
pub(crate) struct Places(HashMap<Claim, Place>);

/// A place in a queue, or the grant that has come of it, until the claim asks again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its number in the document. `None` for a conversion, whose place ends with its lease.
    pub(crate) number: Option<u32>,
    /// When the claim has not asked again in time.
    pub(crate) ends: Instant,
    /// How long its owner may take to claim a grant.
    pub(crate) claim: Duration,
    pub(crate) is_granted: bool,
}

impl Places {
    pub(crate) fn join(&mut self, claim: Claim, place: Place) {
        self.0.insert(claim, place);
    }

    pub(crate) fn leave(&mut self, claim: &Claim) -> Option<Place> {
        self.0.remove(claim)
    }

    /// The place of the claim ends at this instant, and no later.
    pub(crate) fn end(&mut self, claim: &Claim, now: Instant) {
        if let Some(place) = self.0.get_mut(claim) {
            place.ends = place.ends.min(now);
        }
    }

    pub(crate) fn has(&self, claim: &Claim) -> bool {
        self.0.contains_key(claim)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the claim has a place, and has not heard of a grant.
    pub(crate) fn waits(&self, claim: &Claim) -> bool {
        self.0.get(claim).is_some_and(|place| !place.is_granted)
    }

    /// News of a grant have come. Returns until when the owner may claim it, if the client still has the place with
    /// this number and can end it then.
    pub(crate) fn grant(
        &mut self,
        key: &Key,
        owner: OwnerToken,
        number: u32,
        now: Instant,
    ) -> Option<Instant> {
        let is_it = |claim: &Claim| claim.key == *key && claim.owner == owner;
        let mut places = self.0.iter_mut().filter(|(claim, _)| is_it(claim));
        let is_new = |place: &Place| place.number == Some(number) && !place.is_granted;
        let (_, place) = places.find(|(_, place)| is_new(place))?;
        place.is_granted = true;
        place.ends = now + place.claim;
        Some(place.ends)
    }

    /// Takes the places that end now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<(Claim, Place)> {
        self.0.extract_if(|_, place| place.ends <= now).collect()
    }

    /// When the first of them ends.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.values().map(|place| place.ends).min()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use lock_core::Mode;

    use super::*;

    const START: Instant = Instant::from_nanos(1 << 40);

    fn at(seconds: u64) -> Instant {
        START + Duration::from_secs(seconds)
    }

    fn claim(key: &str, owner: u8) -> Claim {
        Claim::exclusive(Key::new(key).unwrap(), OwnerToken::from_bytes([owner; 16]))
    }

    fn place(number: Option<u32>, ends: u64) -> Place {
        Place { number, ends: at(ends), claim: Duration::from_secs(3), is_granted: false }
    }

    #[test]
    fn a_place_ends_unless_its_claim_asks_again() {
        let (one, other) = (claim("a", 1), claim("b", 1));
        let mut places = Places::default();
        assert_eq!((places.next(), places.is_empty()), (None, true));
        places.join(one.clone(), place(Some(1), 10));
        places.join(other.clone(), place(None, 12));
        places.join(one.clone(), place(Some(1), 20));
        assert_eq!(places.next(), Some(at(12)));
        assert_eq!(places.take_due(at(11)), []);
        assert_eq!(places.take_due(at(12)), [(other, place(None, 12))]);
        places.end(&one, at(30));
        assert_eq!(places.next(), Some(at(20)), "an end moves no place to a later time");
        places.end(&one, at(15));
        assert_eq!(places.next(), Some(at(15)));
        places.end(&claim("c", 1), at(13));
        assert_eq!(places.leave(&one), Some(place(Some(1), 15)));
        assert_eq!((places.leave(&one), places.is_empty()), (None, true));
    }

    #[test]
    fn a_grant_that_is_not_claimed_ends() {
        let waiting = claim("a", 1);
        let (key, owner) = (waiting.key.clone(), waiting.owner);
        let mut places = Places::default();
        assert_eq!(places.grant(&key, owner, 1, at(5)), None);
        places.join(waiting.clone(), place(Some(1), 100));
        assert!(places.waits(&waiting) && !places.waits(&claim("b", 1)));
        assert_eq!(places.grant(&claim("b", 1).key, owner, 1, at(5)), None);
        assert_eq!(places.grant(&key, claim("a", 2).owner, 1, at(5)), None);
        assert_eq!(places.grant(&key, owner, 1, at(5)), Some(at(8)));
        assert!(!places.waits(&waiting));
        // The same news again move no deadline.
        assert_eq!(places.grant(&key, owner, 1, at(6)), None);
        assert_eq!(places.take_due(at(8)).len(), 1);
        // The lease of a conversion lives on, so its holder keeps it.
        places.join(waiting, place(None, 100));
        assert_eq!(places.grant(&key, owner, 1, at(5)), None);
    }
    #[test]
    fn a_grant_of_an_earlier_place_is_none_of_a_later_one() {
        let waiting = claim("a", 1);
        let (key, owner) = (waiting.key.clone(), waiting.owner);
        let mut places = Places::default();
        places.join(waiting.clone(), place(Some(1), 100));
        places.leave(&waiting);
        places.join(waiting.clone(), place(Some(2), 100));
        places.join(waiting.clone().in_mode(Mode::Shared), place(Some(3), 100));
        assert_eq!(places.grant(&key, owner, 1, at(5)), None);
        assert_eq!((places.next(), places.waits(&waiting)), (Some(at(100)), true));
        assert_eq!(places.grant(&key, owner, 3, at(5)), Some(at(8)));
        assert_eq!(places.grant(&key, owner, 2, at(6)), Some(at(9)));
    }
}
