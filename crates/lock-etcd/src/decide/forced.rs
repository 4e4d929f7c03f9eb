//! Forced releases. Pure.

use std::collections::HashSet;

use lock_core::OwnerToken;
use lock_core::document::{Document, Visit};

use crate::member::Member;

/// Ends the leases of these owners, whose leases of etcd are over, and tells them so. Returns how many leases there
/// were. None if one of the owners has taken another lease meanwhile.
pub(crate) fn end_all(
    document: &mut Document<Member>,
    owners: &HashSet<OwnerToken>,
    visit: &mut Visit<'_, Member>,
) -> Option<u64> {
    let is_ended = |(owner, it): (_, &Member)| !owners.contains(&owner) || it.lease().is_none();
    if !document.holders().all(is_ended) {
        return None;
    }
    if document.holders().all(|(owner, _)| owners.contains(&owner)) {
        return Some(document.force_release(visit));
    }
    // A claim that was waiting has the key by now, and keeps it.
    document.tell_former_holders(visit);
    Some(0)
}
