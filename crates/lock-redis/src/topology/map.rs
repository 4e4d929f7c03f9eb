//! Which server of a cluster serves which slot; pure.

use std::fmt;

use crate::slot::SLOTS;
use crate::wire::{Address, Redirect, Reply};

/// The primary of each slot, as far as it is known.
#[derive(Clone)]
pub(super) struct SlotMap {
    /// For each slot the place of its primary in the list, or `NONE`.
    owners: Box<[u16]>,
    /// Some of these may serve no slot any more.
    primaries: Vec<Address>,
    /// The other servers. They know the primaries.
    replicas: Vec<Address>,
}

const NONE: u16 = u16::MAX;

impl SlotMap {
    /// A map without a single primary.
    pub(super) fn empty() -> Self {
        let owners = vec![NONE; usize::from(SLOTS)].into();
        Self { owners, primaries: Vec::new(), replicas: Vec::new() }
    }

    /// Reads the reply to `CLUSTER SLOTS` of the server that was asked. `None` for every other reply, and for a map
    /// without a single slot.
    pub(super) fn read(reply: &Reply, asked: &Address) -> Option<Self> {
        let Reply::List(ranges) = reply else { return None };
        let mut map = Self::empty();
        for range in ranges {
            let Reply::List(parts) = range else { return None };
            let [Reply::Int(first), Reply::Int(last), servers @ ..] = parts.as_slice() else {
                return None;
            };
            let slots = usize::try_from(*first).ok()?..=usize::try_from(*last).ok()?;
            let mut servers = servers.iter().map(|server| address(server, asked));
            let primary = servers.next()??;
            let Some(primary) = primary else { continue };
            map.replicas.extend(servers.flatten().flatten());
            let primary = map.place_of(primary)?;
            map.owners.get_mut(slots)?.fill(primary);
        }
        (!map.primaries.is_empty()).then_some(map)
    }

    /// The primary of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Address> {
        let place = *self.owners.get(usize::from(slot))?;
        self.primaries.get(usize::from(place))
    }

    /// Whether each slot has the primary that it has on the other map.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        (0..SLOTS).all(|slot| self.owner(slot) == other.owner(slot))
    }

    /// Notes what a server said of one slot. Returns whether that is news.
    pub(super) fn learn(&mut self, redirect: &Redirect) -> bool {
        let Some(address) = &redirect.address else { return false };
        if self.owner(redirect.slot) == Some(address) {
            return false;
        }
        let place = self.place_of(address.clone());
        match (place, self.owners.get_mut(usize::from(redirect.slot))) {
            (Some(place), Some(owner)) => {
                *owner = place;
                true
            }
            _ => false,
        }
    }

    /// The servers that serve a slot.
    pub(super) fn primaries(&self) -> Vec<&Address> {
        let mut serves = vec![false; self.primaries.len()];
        for owner in &self.owners {
            if let Some(serves) = serves.get_mut(usize::from(*owner)) {
                *serves = true;
            }
        }
        let serving = self.primaries.iter().zip(serves);
        serving.filter_map(|(address, serves)| serves.then_some(address)).collect()
    }

    /// All servers that were named.
    pub(super) fn servers(&self) -> impl Iterator<Item = &Address> {
        self.primaries.iter().chain(&self.replicas)
    }

    /// How many slots have a primary.
    pub(super) fn covered(&self) -> usize {
        self.owners.iter().filter(|owner| **owner != NONE).count()
    }

    fn place_of(&mut self, address: Address) -> Option<u16> {
        let known = self.primaries.iter().position(|other| *other == address);
        let place = known.unwrap_or_else(|| {
            self.primaries.push(address);
            self.primaries.len() - 1
        });
        u16::try_from(place).ok().filter(|place| *place < NONE)
    }
}

impl fmt::Debug for SlotMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SlotMap").field(&self.primaries()).finish()
    }
}

/// Reads `host port …`. The outer `None` stands for nonsense, the inner one for a host that is unknown.
fn address(server: &Reply, asked: &Address) -> Option<Option<Address>> {
    let Reply::List(parts) = server else { return None };
    let [host, Reply::Int(port), ..] = parts.as_slice() else { return None };
    let host = match host {
        Reply::Text(host) => std::str::from_utf8(host).ok()?,
        Reply::Nil => "",
        _ => return None,
    };
    Some(Address::named(host, u16::try_from(*port).ok()?, asked))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    fn at(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    fn server(host: Reply, port: i64) -> Reply {
        let id = Reply::Text(b"0123".to_vec());
        Reply::List(vec![host, Reply::Int(port), id, Reply::List(Vec::new())])
    }

    fn range(first: i64, last: i64, servers: Vec<Reply>) -> Reply {
        let mut parts = vec![Reply::Int(first), Reply::Int(last)];
        parts.extend(servers);
        Reply::List(parts)
    }

    fn text(text: &str) -> Reply {
        Reply::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn maps_agree_if_each_slot_has_one_primary_on_both() {
        let map = |ranges: Vec<Reply>| SlotMap::read(&Reply::List(ranges), &at("a", 1)).unwrap();
        let (a, b) = (|| server(text("a"), 1), || server(text("b"), 2));
        let whole = map(vec![range(0, 9, vec![a()]), range(10, 20, vec![b()])]);
        let parts = [range(10, 20, vec![b(), a()]), range(5, 9, vec![a()]), range(0, 4, vec![a()])];
        assert!(whole.agrees(&map(parts.into())));
        assert!(!whole.agrees(&map(vec![range(0, 10, vec![a()]), range(11, 20, vec![b()])])));
        assert!(!whole.agrees(&SlotMap::empty()));
    }

    #[test]
    fn the_first_server_of_a_range_is_its_primary() {
        let reply = Reply::List(vec![
            range(0, 5_000, vec![server(text("a"), 1), server(text("b"), 2)]),
            range(5_001, 16_383, vec![server(text("c"), 3)]),
        ]);
        let map = SlotMap::read(&reply, &at("x", 9)).unwrap();
        for (slot, owner) in [(0, at("a", 1)), (5_000, at("a", 1)), (5_001, at("c", 3))] {
            assert_eq!(map.owner(slot), Some(&owner));
        }
        assert_eq!(map.owner(16_384), None);
        assert_eq!(map.covered(), 16_384);
        assert_eq!(map.primaries(), [&at("a", 1), &at("c", 3)]);
        assert_eq!(map.servers().count(), 3);
    }

    #[test]
    fn a_server_without_a_host_has_that_of_the_server_that_was_asked() {
        for host in [text(""), Reply::Nil] {
            let reply = Reply::List(vec![range(7, 7, vec![server(host, 1)])]);
            let map = SlotMap::read(&reply, &at("x", 9)).unwrap();
            assert_eq!((map.owner(7), map.owner(8)), (Some(&at("x", 1)), None));
        }
        let reply = Reply::List(vec![range(7, 7, vec![server(text("?"), 1)])]);
        assert!(SlotMap::read(&reply, &at("x", 9)).is_none());
    }

    #[test]
    fn a_slot_that_moved_is_at_its_new_server_alone() {
        let reply = Reply::List(vec![range(0, 16_383, vec![server(text("a"), 1)])]);
        let mut map = SlotMap::read(&reply, &at("x", 9)).unwrap();
        let moved = |address| Redirect { slot: 7, address };
        assert!(map.learn(&moved(Some(at("b", 2)))));
        assert!(!map.learn(&moved(Some(at("b", 2)))) && !map.learn(&moved(None)));
        assert_eq!((map.owner(7), map.owner(8)), (Some(&at("b", 2)), Some(&at("a", 1))));
        assert!(map.learn(&moved(Some(at("a", 1)))));
        assert_eq!(map.primaries(), [&at("a", 1)]);
    }

    /// Replies of which many are nearly maps.
    fn replies() -> impl Strategy<Value = Reply> {
        let number = prop_oneof![4 => 0i64..16_384, 1 => any::<i64>()];
        let host = prop_oneof![4 => Just(text("a")), 1 => garbage::replies()];
        let server = (host, number.clone()).prop_map(|(host, port)| server(host, port));
        let servers =
            prop::collection::vec(prop_oneof![9 => server, 1 => garbage::replies()], 0..3);
        let range = (number.clone(), number, servers).prop_map(|(a, b, c)| range(a, b, c));
        let range = prop_oneof![9 => range, 1 => garbage::replies()];
        prop_oneof![
            9 => prop::collection::vec(range, 0..4).prop_map(Reply::List),
            1 => garbage::replies(),
        ]
    }

    proptest! {
        #[test]
        fn no_reply_does_harm(reply in replies(), slot: u16, to in 0u16..4) {
            if let Some(mut map) = SlotMap::read(&reply, &at("x", 9)) {
                prop_assert!(map.servers().count() > 0);
                let redirect = Redirect { slot, address: Some(at("b", to)) };
                prop_assert_eq!(map.learn(&redirect), slot < SLOTS);
                prop_assert_eq!(map.owner(slot).is_some(), slot < SLOTS);
            }
        }
    }
}
