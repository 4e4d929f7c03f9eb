//! A backend of one's own that does no more than it must.

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Clock, Error, Key, Released, Renew, Renewal, Watch,
};
use lock_sync::{Locks, Owner};

struct Plain;

#[async_trait::async_trait]
impl Backend for Plain {
    async fn try_acquire(&self, _request: &Acquire) -> Result<AcquireOutcome, Error> {
        Ok(AcquireOutcome::Busy { retry_after: None })
    }

    async fn renew(&self, _request: &Renew) -> Renewal {
        Renewal::Lost
    }

    async fn release(&self, _claim: &Claim) -> Result<Released, Error> {
        Ok(Released::NotHeld)
    }

    async fn watch(&self, _key: &Key) -> Result<Watch, Error> {
        Err(Error::new(lock_core::ErrorKind::Unsupported, "no hints"))
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }
}

fn main() {
    let locks = Locks::new(Plain);
    let _ = locks.mutex("a", ());
    let _ = locks.rwlock("d", ());
    let _ = locks.semaphore("b", 1);
    let _ = locks.reentrant_mutex("c", ());
    let _ = locks.owner(&Owner::new().unwrap().pass());
}
