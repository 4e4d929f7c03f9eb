//! The drop of a value asks for the lock that guards the value.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::Waker;
use std::thread;

use futures::executor::block_on;
use lock_core::memory::MemoryBackend;
use lock_sync::{Locks, OnceCell};
use serde::ser::{Error as _, SerializeStruct};
use serde::{Deserialize, Serialize, Serializer};

use super::{in_time, poll, until};
use crate::support::Pair;

thread_local! {
    /// Where the values of this thread find their lock.
    static LOCKS: RefCell<Option<Locks<MemoryBackend>>> = const { RefCell::new(None) };
    /// How many values have asked and had an answer.
    static ANSWERS: Cell<u32> = const { Cell::new(0) };
}

#[derive(Deserialize)]
struct Value {
    #[serde(skip)]
    is_broken: bool,
}

impl Value {
    fn new() -> Self {
        Self { is_broken: false }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_broken {
            return Err(S::Error::custom("the value cannot be stored"));
        }
        serializer.serialize_struct("Value", 0)?.end()
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let Some(locks) = LOCKS.with_borrow(Clone::clone) else { return };
        let mut asks = Box::pin(Arc::new(locks.mutex("it", ()).unwrap()).try_lock_owned());
        while poll(&mut asks, Waker::noop()).is_pending() {
            thread::yield_now();
        }
        ANSWERS.set(ANSWERS.get() + 1);
    }
}

/// Runs this, in which so many values are dropped.
fn drops(values: u32, name: &'static str, work: fn(&Locks<MemoryBackend>)) {
    in_time(name, move || {
        let pair = Pair::threaded();
        LOCKS.set(Some(pair.here.clone()));
        work(&pair.here);
        LOCKS.set(None);
        assert_eq!(ANSWERS.get(), values, "{name}");
        until("all leases are released", || pair.store.live_leases() == 0);
    });
}

#[test]
fn a_value_of_a_mutex_may_ask_for_its_lock_when_it_is_dropped() {
    drops(1, "replaced under the guard", |locks| {
        let mutex = Arc::new(locks.mutex("it", Value::new()).unwrap());
        *block_on(mutex.lock()).unwrap() = Value::new();
        std::mem::forget(mutex);
    });
    drops(1, "dropped with the guard", |locks| {
        let mutex = Arc::new(locks.mutex("it", Value::new()).unwrap());
        drop(block_on(mutex.lock_owned()).unwrap());
    });
    drops(1, "dropped with a future that waits", |locks| {
        let held = block_on(Arc::new(locks.mutex("it", ()).unwrap()).lock_owned()).unwrap();
        let mutex = Arc::new(locks.mutex("it", Value::new()).unwrap());
        let mut waiting = Box::pin(mutex.lock_owned());
        assert!(poll(&mut waiting, Waker::noop()).is_pending());
        drop(waiting);
        drop(held);
    });
}

#[test]
fn a_value_of_an_rwlock_may_ask_for_its_lock_when_it_is_dropped() {
    drops(1, "replaced under the guard", |locks| {
        let lock = Arc::new(locks.rwlock("it", Value::new()).unwrap());
        *block_on(lock.write()).unwrap() = Value::new();
        std::mem::forget(lock);
    });
    drops(1, "dropped with the last reader", |locks| {
        let lock = Arc::new(locks.rwlock("it", Value::new()).unwrap());
        let readers = [lock.clone(), lock].map(|lock| block_on(lock.read_owned()).unwrap());
        drop(readers);
    });
    drops(1, "dropped with the writer", |locks| {
        let lock = Arc::new(locks.rwlock("it", Value::new()).unwrap());
        drop(block_on(lock.write_owned()).unwrap());
    });
}

#[test]
fn a_value_of_a_once_cell_may_ask_for_its_lock_when_it_is_dropped() {
    fn cell(locks: &Locks<MemoryBackend>) -> OnceCell<Value> {
        locks.once_cell("it").unwrap()
    }
    drops(1, "a value that cannot be stored", |locks| {
        assert!(block_on(cell(locks).get_or_init(async || Value { is_broken: true })).is_err());
    });
    drops(2, "a value that comes too late", |locks| {
        let (first, second) = (cell(locks), cell(locks));
        assert!(block_on(first.set(Value::new())).is_ok());
        assert!(block_on(second.set(Value::new())).is_err());
        std::mem::forget(first);
    });
    drops(2, "taken, and erased", |locks| {
        let mut cell = cell(locks);
        block_on(cell.get_or_init(async || Value::new())).unwrap();
        drop(cell.take());
        block_on(cell.wait()).unwrap();
        block_on(cell.reset()).unwrap();
    });
}

#[test]
fn a_value_of_a_stored_mutex_may_ask_for_its_lock_when_it_is_dropped() {
    drops(3, "encoded, replaced under the guard, and dropped with the guard", |locks| {
        let mutex = locks.stored_mutex("it", Value::new()).unwrap();
        let mut guard = block_on(mutex.lock()).unwrap();
        *guard = Value::new();
        drop(guard);
    });
    drops(2, "encoded, and committed", |locks| {
        let mutex = locks.stored_mutex("it", Value::new()).unwrap();
        block_on(block_on(mutex.lock()).unwrap().commit()).unwrap();
    });
}
