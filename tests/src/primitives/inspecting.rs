//! What an operator can see of a lock, and can do to it.

use std::time::Duration;

use lock_core::{InspectBackend, Inspection, Kind, Label};
use lock_sync::{Locks, LossReason, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

use super::{LONG, Pair, Stage, waits};
use crate::{SOON, eventually_async, soon};

/// The holder that an inspection shows loses the lock, and the waiter of another client gets it.
pub async fn a_forced_release_ends_what_an_inspection_shows<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.mutex("it", ()).unwrap());
    assert_eq!(pair.there.inspect("it").await.unwrap(), Inspection::default());
    let guard = soon(here.lock()).await.unwrap();
    let mut waiting = Box::pin(there.lock());
    waits(&mut waiting).await;
    let seen = pair.there.inspect("it").await.unwrap();
    assert_eq!((seen.holding, seen.holders.len()), (1, 1));
    let holder = &seen.holders[0];
    assert_eq!(holder.kind, Kind::Exclusive);
    // Of several tokens of a lease, the inspection shows the highest.
    assert!(holder.token >= Some(MutexGuard::lease(&guard).fencing_token()), "{holder:?}");
    assert!(holder.remaining.is_some_and(|left| left > Duration::ZERO && left <= LONG));

    assert_eq!(pair.there.force_release("it").await.unwrap(), 1);
    let next = soon(waiting).await.unwrap();
    assert!(
        MutexGuard::lease(&next).is_valid()
            && MutexGuard::lease(&next).fencing_token() > MutexGuard::lease(&guard).fencing_token()
    );
    assert_eq!(soon(MutexGuard::lease(&guard).lost()).await.reason(), LossReason::Revoked);
    assert!(!MutexGuard::lease(&guard).is_valid());
    // The old guard takes nothing from the next holder.
    drop(guard);
    assert_eq!(pair.here.inspect("it").await.unwrap().holding, 1);
    drop(next);
    pair.all_free().await;
    assert_eq!(pair.there.force_release("it").await.unwrap(), 0);
}

/// Each client sees the label of the other one: that of a single lock, or that of its process.
pub async fn a_holder_is_shown_with_its_label<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let label = Label::new("import of May").unwrap();
    let here = pair.here.mutex("it", ()).unwrap().with_label(label.clone());
    let there = pair.there.mutex("it", ()).unwrap();
    let guard = soon(here.lock()).await.unwrap();
    until_labelled(&pair.there, &label).await;
    drop(guard);
    let guard = soon(there.lock()).await.unwrap();
    until_labelled(&pair.here, &Label::of_process()).await;
    drop(guard);
    pair.all_free().await;
}

/// Waits until the only holder of the lock "it" is shown with this label.
async fn until_labelled<B: InspectBackend>(locks: &Locks<B>, label: &Label) {
    let shown = async || {
        let holders = locks.inspect("it").await.unwrap().holders;
        assert_eq!(holders.len(), 1);
        holders[0].label.as_ref() == Some(label)
    };
    eventually_async(&format!("the holder is shown as {label}"), SOON, shown).await;
}

/// Every reader that an inspection shows loses the lock, and the writer that waits gets it.
pub async fn a_forced_release_ends_every_reader<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.rwlock("it", ()).unwrap());
    let (one, other) = (soon(here.read()).await.unwrap(), soon(there.read()).await.unwrap());
    let third = pair.third().await.rwlock("it", ()).unwrap();
    let mut writer = Box::pin(third.write());
    waits(&mut writer).await;
    let seen = pair.here.inspect("it").await.unwrap();
    assert_eq!(seen.holding, 2);
    let tokens: Vec<_> = seen.holders.iter().filter_map(|holder| holder.token).collect();
    assert!(
        [&one, &other]
            .iter()
            .all(|guard| tokens.contains(&RwLockReadGuard::lease(guard).fencing_token()))
    );
    assert!(seen.holders.iter().all(|holder| holder.kind == Kind::Shared));

    assert_eq!(pair.there.force_release("it").await.unwrap(), 2);
    let writer = soon(writer).await.unwrap();
    for reader in [&one, &other] {
        assert_eq!(soon(RwLockReadGuard::lease(reader).lost()).await.reason(), LossReason::Revoked);
        assert!(
            !RwLockReadGuard::lease(reader).is_valid()
                && RwLockReadGuard::lease(reader).fencing_token()
                    < RwLockWriteGuard::lease(&writer).fencing_token()
        );
    }
    drop((one, other, writer));
    pair.all_free().await;
}
