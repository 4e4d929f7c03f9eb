//! Futures of readers, of an upgrade and of several permits, which are dropped at every possible
//! point.
//!
//! As in `cancel.rs`, a leak would keep the other client waiting for longer than a test allows.

use lock_sync::RwLockReadGuard;
use std::sync::Arc;

use crate::support::{Leftovers, Pair, after_polls, give_up_at_every_poll, rwlock, soon};

const ROUNDS: usize = 64;

/// The lock is free: each client can write.
async fn assert_free_to_write(pair: &Pair) {
    for client in [&pair.there, &pair.here] {
        drop(soon(rwlock(client).write()).await.unwrap());
    }
    pair.server.assert_all_free();
}

#[tokio::test]
async fn a_reader_that_waits_for_a_writer() {
    let pair = Pair::new();
    let (here, there) = (rwlock(&pair.here), rwlock(&pair.there));
    let (dropped, had) = give_up_at_every_poll(ROUNDS, async || {
        let held = soon(there.write()).await.unwrap();
        (held, Arc::clone(&here).read_owned())
    })
    .await;
    assert!(dropped > ROUNDS && had > ROUNDS, "{dropped} dropped, {had} had");
    assert_free_to_write(&pair).await;
}

#[tokio::test]
async fn a_reader_that_comes_to_readers() {
    let pair = Pair::new();
    let (here, there) = (rwlock(&pair.here), rwlock(&pair.there));
    let (dropped, had) = give_up_at_every_poll(ROUNDS, async || {
        let held = soon(there.read()).await.unwrap();
        (held, Arc::clone(&here).read_owned())
    })
    .await;
    assert!(dropped > ROUNDS && had > ROUNDS, "{dropped} dropped, {had} had");
    assert_free_to_write(&pair).await;
}

#[tokio::test]
async fn a_writer_that_waits_for_readers_here_and_there() {
    let pair = Pair::new();
    let (here, there) = (rwlock(&pair.here), rwlock(&pair.there));
    let (dropped, had) = give_up_at_every_poll(ROUNDS, async || {
        let held = (soon(there.read()).await.unwrap(), soon(here.read()).await.unwrap());
        (held, Arc::clone(&here).write_owned())
    })
    .await;
    assert!(dropped > ROUNDS && had > ROUNDS, "{dropped} dropped, {had} had");
    assert_free_to_write(&pair).await;
}

#[tokio::test]
async fn an_upgrade_that_waits_for_a_reader() {
    let pair = Pair::new();
    let (here, there) = (rwlock(&pair.here), rwlock(&pair.there));
    let (dropped, had) = give_up_at_every_poll(ROUNDS, async || {
        let climbing = soon(Arc::clone(&here).upgradable_read_owned()).await.unwrap();
        let held = soon(there.read()).await.unwrap();
        (held, climbing.upgrade())
    })
    .await;
    assert!(dropped > ROUNDS && had > ROUNDS, "{dropped} dropped, {had} had");
    assert_free_to_write(&pair).await;
}

#[tokio::test]
async fn an_upgrade_without_other_readers() {
    let pair = Pair::new();
    let here = rwlock(&pair.here);
    let (dropped, had) = give_up_at_every_poll(ROUNDS, async || {
        let climbing = soon(Arc::clone(&here).upgradable_read_owned()).await.unwrap();
        ((), climbing.upgrade())
    })
    .await;
    assert!(dropped > ROUNDS && had > ROUNDS, "{dropped} dropped, {had} had");
    assert_free_to_write(&pair).await;
}

#[tokio::test]
async fn a_request_for_several_permits_that_gathers_them() {
    let pair = Pair::new();
    let here = Arc::new(pair.here.semaphore("it", 4).unwrap());
    let there = pair.there.semaphore("it", 4).unwrap();
    let (dropped, had) = give_up_at_every_poll(ROUNDS, async || {
        // Released one after the other.
        let mut held = soon(there.acquire_many(3)).await.unwrap();
        let one = held.split(1).unwrap();
        ((one, held), Arc::clone(&here).acquire_many_owned(3))
    })
    .await;
    assert!(dropped > ROUNDS && had > ROUNDS, "{dropped} dropped, {had} had");
    for semaphore in [&there, &here] {
        drop(soon(semaphore.acquire_many(4)).await.unwrap());
    }
    pair.server.assert_all_free();
}

#[tokio::test]
async fn a_downgrade_and_a_part_of_permits_that_were_released_without_their_futures() {
    let pair = Pair::new();
    let (here, there) = (rwlock(&pair.here), rwlock(&pair.there));
    let permits = pair.here.semaphore("them", 3).unwrap();
    let theirs = pair.there.semaphore("them", 3).unwrap();
    for polls in (0..4).cycle().take(200) {
        let reading = soon(here.write()).await.unwrap().downgrade();
        drop(after_polls(RwLockReadGuard::release(reading), polls).await);
        drop(soon(there.write()).await.unwrap());
        let mut permit = soon(permits.acquire_many(3)).await.unwrap();
        let part = permit.split(2).unwrap();
        drop(after_polls(part.release(), polls).await);
        drop(soon(theirs.acquire_many(2)).await.unwrap());
        drop(permit);
    }
    drop(soon(theirs.acquire_many(3)).await.unwrap());
    assert_free_to_write(&pair).await;
}
