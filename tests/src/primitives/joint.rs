//! Locks that an owner enters in several processes.

use lock_sync::{Owner, OwnerGuard};

use super::{Joining, Pair, until_held, waits};
use crate::soon;

/// Two clients of one owner are one holder, and either of them may leave first.
pub async fn an_owner_that_was_sent_to_another_client_enters_there<S: Joining>() {
    for first_leaves in [true, false] {
        let pair = Pair::<S>::new().await;
        let (here, there) = pair.both(|locks| locks.reentrant_mutex("it", ()).unwrap());
        let (mut owner, mut stranger) = (Owner::new().unwrap(), Owner::new().unwrap());
        let mut copy = pair.there.owner(&owner.pass()).unwrap();
        let first = soon(here.lock_as(&mut owner)).await.unwrap();
        let mut waiting = Box::pin(there.lock_as(&mut stranger));
        waits(&mut waiting).await;
        let second = soon(there.lock_as(&mut copy)).await.unwrap();
        assert_eq!(
            OwnerGuard::lease(&second).fencing_token(),
            OwnerGuard::lease(&first).fencing_token(),
            "they are one holder"
        );
        assert!(OwnerGuard::lease(&first).is_valid() && OwnerGuard::lease(&second).is_valid());
        until_held(&pair.there, "it", 2).await;

        let (leaves, stays) = if first_leaves { (first, second) } else { (second, first) };
        OwnerGuard::release(leaves).await.unwrap();
        waits(&mut waiting).await;
        assert!(OwnerGuard::lease(&stays).is_valid());
        let token = OwnerGuard::lease(&stays).fencing_token();
        drop(stays);
        let next = soon(waiting).await.unwrap();
        assert!(OwnerGuard::lease(&next).fencing_token() > token);
        drop(next);
        pair.all_free().await;
    }
}
