//! A waker owns the guard that its waiter waits for, as the waker of a task that owns a guard does. The drop of the
//! last clone gives the lock back.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use futures::executor::block_on;
use lock_sync::Semaphore;

use super::waits::{self, Held, Scene, Waiting};
use super::{in_time, poll, poll_into_line, until};
use crate::support::Pair;

struct Owning {
    _held: Held,
}

impl Wake for Owning {
    fn wake(self: Arc<Self>) {}
}

type Setting = fn(&Pair) -> Scene;

struct Parked {
    waiting: Waiting,
    ends: bool,
    closes: Option<Arc<Semaphore>>,
}

/// Parks a waker that owns the lock: the engine has the only clone afterwards.
fn park(setting: Setting, pair: &Pair) -> Parked {
    let Scene { held, mut waiting, ends, closes } = setting(pair);
    poll_into_line(&mut waiting);
    let waker = Waker::from(Arc::new(Owning { _held: held }));
    assert!(poll(&mut waiting, &waker).is_pending());
    Parked { waiting, ends, closes }
}

fn nothing_is_held(pair: &Pair) {
    until("all leases are released", || pair.store.live_leases() == 0);
}

fn dropped_by_a_cancelled_future(pair: &Pair, Parked { waiting, .. }: Parked) {
    drop(waiting);
    nothing_is_held(pair);
}

fn dropped_by_the_next_waker(pair: &Pair, Parked { mut waiting, ends, .. }: Parked) {
    let polled = poll(&mut waiting, Waker::noop());
    if ends && polled.is_pending() {
        block_on(waiting);
    } else {
        drop(waiting);
    }
    nothing_is_held(pair);
}

fn dropped_by_the_shutdown(pair: &Pair, Parked { waiting, ends, .. }: Parked) {
    // The store answers some requests only when the waker is gone, and the shutdown waits for the answers.
    block_on(pair.here.shutdown_timeout(Duration::from_millis(100)));
    if ends {
        block_on(waiting);
    } else {
        drop(waiting);
    }
    nothing_is_held(pair);
}

fn dropped_by_close(pair: &Pair, Parked { waiting, closes, .. }: Parked) {
    closes.unwrap().close();
    assert!(!block_on(waiting), "a closed handle has a permit");
    nothing_is_held(pair);
}

fn dropped_by_close_for_all(pair: &Pair, Parked { waiting, closes, .. }: Parked) {
    block_on(closes.unwrap().close_for_all()).unwrap();
    assert!(!block_on(waiting), "a closed semaphore has a permit");
    nothing_is_held(pair);
}

macro_rules! each {
    ($module:ident, $drops:ident: $($name:ident: $setting:path;)*) => {
        mod $module {
            use super::{Pair, in_time, park, waits};

            $(#[test]
            fn $name() {
                in_time(stringify!($name), || {
                    let pair = Pair::threaded();
                    let parked = park($setting, &pair);
                    super::$drops(&pair, parked);
                });
            })*
        }
    };
}

macro_rules! settings {
    ($($settings:tt)*) => {
        each!(cancelled, dropped_by_a_cancelled_future: $($settings)*);
        each!(replaced, dropped_by_the_next_waker: $($settings)*);
        each!(shut_down, dropped_by_the_shutdown: $($settings)*);
    };
}

settings! {
    mutex: waits::mutex;
    named: waits::a_name;
    reader: waits::a_reader;
    writer: waits::a_writer;
    upgradable: waits::an_upgradable_reader;
    upgrade: waits::an_upgrade;
    reader_above_the_maximum: waits::a_reader_above_the_maximum;
    writer_above_the_maximum: waits::a_writer_above_the_maximum;
    semaphore: waits::the_last_permit;
    poll_semaphore: waits::a_polled_permit;
    declaration: waits::a_declaration;
    declared_semaphore: waits::a_permit_after_a_declaration;
    slots: waits::a_slot;
    reentrant: waits::an_owner;
    scope: waits::a_scope;
    lock_all: waits::several_locks;
    stored: waits::a_stored_value;
    versions: waits::a_stream_of_versions;
    once_cell: waits::an_initialization;
    once_cell_wait: waits::an_initialized_value;
    election: waits::a_campaign;
    observer: waits::the_next_leader;
    barrier: waits::a_barrier;
    lost: waits::a_loss;
    extended: waits::an_extension;
}

// Closing one handle, or all of them, wakes the waiters.

each! { closed, dropped_by_close:
    semaphore: waits::the_last_permit;
    poll_semaphore: waits::a_polled_permit;
    declaration: waits::a_declaration;
    declared_semaphore: waits::a_permit_after_a_declaration;
}

// No request to close a semaphore for all has an answer while a declaration has none.
each! { closed_for_all, dropped_by_close_for_all:
    semaphore: waits::the_last_permit;
    poll_semaphore: waits::a_polled_permit;
    declared_semaphore: waits::a_permit_after_a_declaration;
}
