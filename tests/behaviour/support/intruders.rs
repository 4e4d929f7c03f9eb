//! Clients that try to get in, all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lock_sync::RwLock;
use lock_tests::resp::Value;
use lock_tests::{RedisServer, eventually_async};

use super::{LOCK, SOON, would_block};

/// A client that tries to write all the time, and another library that tries to set the key.
pub(crate) struct Intruders {
    state: Arc<State>,
    writing: tokio::task::JoinHandle<()>,
    setting: std::thread::JoinHandle<()>,
}

#[derive(Default)]
struct State {
    forbidden: AtomicBool,
    over: AtomicBool,
    tries: [AtomicU64; 2],
}

impl Intruders {
    pub(crate) fn begin(server: &RedisServer, lock: &Arc<RwLock<u32>>) -> Self {
        let state = Arc::<State>::default();
        let mut raw = server.connect().unwrap();
        let seen = Arc::clone(&state);
        let setting = std::thread::spawn(move || {
            while !seen.over.load(Ordering::SeqCst) {
                if seen.forbidden.load(Ordering::SeqCst) {
                    let set = raw.command(&["SET", LOCK, "intruder", "NX", "PX", "60000"]).unwrap();
                    let still = seen.forbidden.load(Ordering::SeqCst);
                    assert!(!still || set == Value::Nil, "there was no lock for a moment");
                    if set != Value::Nil {
                        raw.command(&["DEL", LOCK]).unwrap();
                    }
                    seen.tries[0].fetch_add(1, Ordering::SeqCst);
                } else {
                    std::thread::yield_now();
                }
            }
        });
        let (seen, lock) = (Arc::clone(&state), Arc::clone(lock));
        let writing = tokio::spawn(async move {
            while !seen.over.load(Ordering::SeqCst) {
                if seen.forbidden.load(Ordering::SeqCst) {
                    let tried = lock.try_write().await;
                    let still = seen.forbidden.load(Ordering::SeqCst);
                    assert!(!still || would_block(&tried), "{tried:?}");
                    seen.tries[1].fetch_add(1, Ordering::SeqCst);
                }
                tokio::task::yield_now().await;
            }
        });
        Self { state, writing, setting }
    }

    /// From now on they fail the test if they get in.
    pub(crate) fn may_not(&self) {
        self.state.forbidden.store(true, Ordering::SeqCst);
    }

    /// They stop for the time being.
    pub(crate) fn may(&self) {
        self.state.forbidden.store(false, Ordering::SeqCst);
    }

    /// Returns once both have tried several more times.
    pub(crate) async fn has_tried(&self) {
        let tries = || self.state.tries.each_ref().map(|tries| tries.load(Ordering::SeqCst));
        let before = tries();
        eventually_async("they have tried", SOON, async || {
            std::iter::zip(tries(), before).all(|(now, before)| now >= before + 3)
        })
        .await;
    }

    pub(crate) async fn end(self) {
        self.state.over.store(true, Ordering::SeqCst);
        self.setting.join().unwrap();
        self.writing.await.unwrap();
    }
}
