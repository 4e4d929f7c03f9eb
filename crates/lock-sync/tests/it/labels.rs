//! When the store is told of labels, and how little that costs.

use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{ErrorKind, InspectBackend, Key, Label};
use lock_sync::Locks;
use tokio::runtime::Handle;
use tokio::time::advance;

const MOMENT: Duration = Duration::from_millis(100);
const PERIOD: Duration = Duration::from_secs(300);

fn locks(store: &MemoryBackend) -> Locks<MemoryBackend> {
    Locks::builder(store.clone()).on_runtime(Handle::current()).build().unwrap()
}

/// Lets time pass, and the driver do what it has to.
async fn pass(time: Duration) {
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    advance(time).await;
    for _ in 0..9 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_label_is_told_after_a_moment_and_then_once_in_a_period() {
    let store = MemoryBackend::new();
    let locks = locks(&store);
    let told = || store.stats().introductions;
    pass(PERIOD).await;
    assert_eq!(told(), 0, "no lock was asked for");
    drop(locks.lock("it").await.unwrap());
    pass(MOMENT * 2).await;
    assert_eq!(told(), 1);
    for _ in 0..100 {
        drop(locks.lock("it").await.unwrap());
    }
    pass(PERIOD / 2).await;
    assert_eq!(told(), 1);
    pass(PERIOD / 2 + MOMENT).await;
    pass(MOMENT * 2).await;
    assert_eq!(told(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_label_of_a_lock_is_told_while_the_lock_exists() {
    let store = MemoryBackend::new();
    let locks = locks(&store);
    let label = Label::new("import of May").unwrap();
    let one = locks.mutex("it", ()).unwrap().with_label(label.clone());
    let same = locks.mutex("other", ()).unwrap().with_label(label.clone());
    let guard = one.lock().await.unwrap();
    pass(MOMENT * 2).await;
    assert_eq!(store.stats().introductions, 2, "that of the process, and that of the locks");
    let seen = store.client().inspect(&Key::new("it").unwrap()).await.unwrap();
    assert_eq!(seen.holders[0].label, Some(label));
    drop(guard);
    drop(one);
    pass(PERIOD + MOMENT).await;
    pass(MOMENT * 2).await;
    assert_eq!(store.stats().introductions, 4, "the other lock still has the label");
    drop(same);
    pass(PERIOD + MOMENT).await;
    pass(MOMENT * 2).await;
    assert_eq!(store.stats().introductions, 5);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_keeps_no_labels_is_told_once() {
    for (kind, after_a_while, after_a_period) in
        [(ErrorKind::Unsupported, 1, 1), (ErrorKind::Denied, 1, 2), (ErrorKind::Unreachable, 2, 3)]
    {
        let store = MemoryBackend::new();
        let locks = locks(&store);
        store.faults().on(Verb::Introduce).fail(kind);
        let guard = locks.lock("it").await.unwrap();
        pass(MOMENT * 2).await;
        assert_eq!(store.stats().introductions, 1, "{kind:?}");
        assert_eq!(locks.inspect("it").await.unwrap().holders[0].label, None);
        pass(Duration::from_secs(10) + MOMENT).await;
        pass(MOMENT * 2).await;
        assert_eq!(store.stats().introductions, after_a_while, "{kind:?}");
        pass(PERIOD).await;
        pass(MOMENT * 2).await;
        assert_eq!(store.stats().introductions, after_a_period, "{kind:?}");
        drop(guard);
    }
}

#[test]
fn a_label_that_is_none_is_refused_before_a_lock_has_it() {
    for (bad, why) in [
        ("", "a label cannot be empty"),
        ("two\nlines", "a label cannot have the control character '\\n' at byte 3"),
        ("\u{7f}", "a label cannot have the control character '\\u{7f}' at byte 0"),
        (&"x".repeat(129), "a label of 129 bytes is too long: 128 at most"),
    ] {
        let error = Label::new(bad).unwrap_err();
        assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::InvalidConfig, why));
    }
}
