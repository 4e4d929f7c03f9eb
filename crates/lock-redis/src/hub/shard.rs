//! The inbox in a slot.
//!
//! In a cluster, a server sends what is published on a channel to all other servers, except for a channel of a slot. So
//! a client also listens to a channel in one of the slots of the server, if the server knows such channels, and its
//! claims name that inbox: the digits of its own inbox, and before them the tag that has the slot. A script publishes
//! there first. If no client hears, for example because the slot has moved, the script publishes on the own inbox, as
//! scripts do at other servers. So it is the own inbox that decides whether a client has gone, and a claim whose slot
//! has moved keeps its place and hears of its grant.

use super::channel::Channel;
use super::inbox::Inbox;
use crate::slot;

/// The inbox in a slot, of a client that has an inbox of its own as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) slot: u16,
    /// `inbox:{tag}digits`: the channel in the slot.
    pub(super) channel: Channel,
    /// `inbox:tagdigits`: as claims name it. On this channel clients publish that know of no channels in slots.
    pub(super) named: Channel,
}

impl Shard {
    /// The inbox in this slot, beside this own inbox.
    pub(super) fn of(own: &[u8], slot: u16) -> Self {
        let (stem, digits) = own.split_at(own.len().saturating_sub(Inbox::DIGITS));
        let tag = slot::text_in(slot);
        let channel = [stem, b"{", tag.as_bytes(), b"}", digits].concat().into();
        let named = [stem, tag.as_bytes(), digits].concat().into();
        Self { slot, channel, named }
    }
}

/// Whether this is the own inbox, or has been one in a slot beside it.
pub(super) fn is_beside(own: &[u8], channel: &[u8]) -> bool {
    let (stem, digits) = own.split_at(own.len().saturating_sub(Inbox::DIGITS));
    channel.len() >= own.len() && channel.starts_with(stem) && channel.ends_with(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &[u8] = b"lock:inbox:0123456789abcdef";

    #[test]
    fn the_channel_is_in_the_slot_and_the_name_has_its_tag() {
        for slot in [0, 7, 16_383] {
            let shard = Shard::of(OWN, slot);
            assert_eq!(slot::slot(&shard.channel), slot);
            let tag = slot::text_in(slot);
            let texts = [&shard.channel, &shard.named].map(|it| String::from_utf8_lossy(it));
            assert_eq!(texts[0], format!("lock:inbox:{{{tag}}}0123456789abcdef"));
            assert_eq!(texts[1], format!("lock:inbox:{tag}0123456789abcdef"));
            assert_eq!(Inbox(shard.named).id(), format!("{tag}0123456789abcdef").as_bytes());
        }
    }

    #[test]
    fn only_names_of_this_client_are_beside_its_inbox() {
        let Shard { channel, named, .. } = Shard::of(OWN, 7);
        for ours in [OWN, &channel, &named] {
            assert!(is_beside(OWN, ours), "{}", ours.escape_ascii());
        }
        let other = Shard::of(b"lock:inbox:0123456789abcdee", 7);
        for other in [&other.channel, &other.named, &b"inbox:0123456789abcdef"[..], &OWN[..20], b""]
        {
            assert!(!is_beside(OWN, other), "{}", other.escape_ascii());
        }
    }
}
