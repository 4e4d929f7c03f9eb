//! Asks a backend of another crate for a capability that it lacks.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Clock, Error, Key, PermitBackend, Released};
use lock_core::{Renew, Renewal, Watch};

struct Own<B>(B);

#[async_trait]
impl<B: Backend> Backend for Own<B> {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        self.0.try_acquire(request).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        self.0.renew(request).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        self.0.release(claim).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        self.0.watch(key).await
    }

    fn clock(&self) -> Clock {
        self.0.clock()
    }
}

fn acquire_many<B: PermitBackend>(_backend: Arc<B>) {}

fn app(backend: Box<dyn PermitBackend>) {
    acquire_many(Arc::new(Own(backend)));
}

fn main() {}
