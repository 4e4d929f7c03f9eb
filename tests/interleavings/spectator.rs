//! Handles of leases, which may outlive their guards, and a thread that looks at them.

use lock_interleavings::{Lease, OwnedMutexGuard};
use shuttle::sync::Mutex;
use shuttle::thread;

use super::chance;

/// How often the spectator looks.
const LOOKS: usize = 24;

/// Has handles of leases, in the order in which tasks got the guards.
#[derive(Debug, Default)]
pub(super) struct Spectator(Mutex<Vec<Lease>>);

impl Spectator {
    /// A task has a guard. Some guards have no handle: for them lock-sync makes nothing that handles share.
    pub(super) fn sees(&self, guard: &OwnedMutexGuard<()>) {
        if chance(1, 2) {
            let lease = OwnedMutexGuard::lease(guard);
            self.0.lock().unwrap().push(lease);
        }
    }

    /// Looks at all handles again and again. A handle that has become invalid stays invalid, even if its lease serves
    /// another hold, or its memory another lease. And of two handles one at most is valid, because guards exclude each
    /// other: a handle that is valid when the spectator reaches it was valid when the look began.
    pub(super) fn watch(&self) {
        let mut over: Vec<bool> = Vec::new();
        for _ in 0..LOOKS {
            let leases = self.0.lock().unwrap().clone();
            over.resize(leases.len(), false);
            let mut valid = 0;
            for (lease, over) in leases.iter().zip(&mut over) {
                let is_valid = lease.is_valid();
                assert!(!is_valid || !*over, "a lease that was over is valid again");
                *over = !is_valid;
                valid += usize::from(is_valid);
            }
            assert!(valid <= 1, "{valid} guards have a valid lease");
            thread::yield_now();
        }
    }
}
