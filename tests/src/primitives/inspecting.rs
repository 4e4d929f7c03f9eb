//! What an operator can see of a lock, and can do to it.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::{InspectBackend, Inspection, Kind, Label, List, Listed};
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

/// An inspection comes after all that this client has released, without a pause.
pub async fn an_inspection_shows_no_guard_that_was_dropped<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (mutex, lock) = (pair.here.mutex("it", ()).unwrap(), pair.here.rwlock("rw", ()).unwrap());
    drop(soon(mutex.lock()).await.unwrap());
    assert_eq!(pair.here.inspect("it").await.unwrap().holding, 0);
    let readers = (soon(lock.read()).await.unwrap(), soon(lock.read()).await.unwrap());
    drop(readers);
    assert_eq!(pair.here.inspect("rw").await.unwrap().holding, 0);
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

/// Each client lists what the other one holds, with labels, and no lock of another prefix.
pub async fn a_list_shows_the_locks_of_both_clients<S: Stage>() {
    const LOCKS: usize = 7;
    let pair = Pair::<S>::new().await;
    let label = Label::new("import of May").unwrap();
    let here = pair.here.clone().with_label(label.clone());
    let mut guards = vec![soon(here.lock("aside/0")).await.unwrap()];
    let names: Vec<_> = (0..LOCKS).map(|number| format!("*/{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let locks = if number % 2 == 0 { &here } else { &pair.there };
        guards.push(soon(locks.lock(name.as_str())).await.unwrap());
    }
    let read = pair.here.rwlock("*/read", ()).unwrap();
    let reader = soon(read.read()).await.unwrap();
    for locks in [&pair.here, &pair.there] {
        let expected = names.iter().map(String::as_str).chain(["*/read"]).collect::<BTreeSet<_>>();
        let seen = all_pages(locks, "*/").await;
        let found: BTreeSet<_> = seen.iter().map(|lock| lock.key.as_bytes()).collect();
        assert_eq!(found, expected.iter().map(|name| name.as_bytes()).collect());
        assert!(seen.iter().all(|lock| lock.inspection.holding == 1), "{seen:?}");
    }
    let labelled = async || {
        let seen = all_pages(&pair.there, "*/0").await;
        seen.iter().all(|lock| lock.inspection.holders[0].label.as_ref() == Some(&label))
    };
    eventually_async("the list shows labels", SOON, labelled).await;
    drop((guards, reader));
    pair.all_free().await;
    let empty = async || all_pages(&pair.here, "").await.is_empty();
    eventually_async("no lock is listed", SOON, empty).await;
}

/// The locks of all pages of a list, with small pages.
async fn all_pages<B: InspectBackend>(locks: &Locks<B>, prefix: &str) -> Vec<Listed> {
    let mut list = List::of(prefix).pages_of(NonZeroU32::new(3).unwrap());
    let mut seen = Vec::new();
    loop {
        let page = locks.list(&list).await.unwrap();
        seen.extend(page.locks);
        let Some(next) = page.next else { return seen };
        list = list.from(next);
    }
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
    let tokens: BTreeSet<_> = seen.holders.iter().filter_map(|holder| holder.token).collect();
    let leases = [&one, &other].map(|guard| RwLockReadGuard::lease(guard).fencing_token());
    assert_eq!(tokens.len(), 2, "{seen:?}");
    assert!(S::VOTES || tokens == BTreeSet::from(leases), "{leases:?} are shown as {seen:?}");
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
