//! A store behind a layer that treats some requests in a way of its own.

use async_trait::async_trait;
use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Capabilities, Claim, Clock, Convert, ConvertBackend,
    Convertible, Error, Key, Released, Renew, Renewal, SharedBackend, Watch,
};

#[async_trait]
pub(crate) trait Layer: Send + Sync + 'static {
    async fn acquire_all(
        &self,
        store: &MemoryBackend,
        all: &[Acquire],
    ) -> Result<Option<Vec<AcquireOutcome>>, Error> {
        store.try_acquire_all(all).await
    }

    async fn release(&self, store: &MemoryBackend, claim: &Claim) -> Result<Released, Error> {
        store.release(claim).await
    }

    async fn convert(
        &self,
        store: &MemoryBackend,
        request: &Convert,
    ) -> Result<AcquireOutcome, Error> {
        store.convert(request).await
    }
}

pub(crate) struct Layered<L> {
    pub(crate) store: MemoryBackend,
    pub(crate) layer: L,
}

#[async_trait]
impl<L: Layer> Backend for Layered<L> {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        self.store.try_acquire(request).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        self.store.renew(request).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        self.layer.release(&self.store, claim).await
    }

    async fn try_acquire_all(&self, all: &[Acquire]) -> Result<Option<Vec<AcquireOutcome>>, Error> {
        self.layer.acquire_all(&self.store, all).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        self.store.watch(key).await
    }

    fn clock(&self) -> Clock {
        self.store.clock()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.store.capabilities().converting(self)
    }
}

#[async_trait]
impl<L: Layer> ConvertBackend for Layered<L> {
    async fn convert(&self, request: &Convert) -> Result<AcquireOutcome, Error> {
        self.layer.convert(&self.store, request).await
    }
}

impl<L: Layer> SharedBackend for Layered<L> {
    type Conversion = Convertible;
}
