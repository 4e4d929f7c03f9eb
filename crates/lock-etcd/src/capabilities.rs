//! What the backend can do beside the verbs.

use async_trait::async_trait;
use lock_core::document::{Document, Visit};
use lock_core::{
    AcquireOutcome, Cell, CellBackend, Claim, Clock, Committed, Convert, ConvertBackend,
    Convertible, Error, ErrorKind, FencingToken, InspectBackend, Inspection, JointBackend, Key,
    List, Page, PermitBackend, Permits, Released, Resize, Resized, SharedBackend, Stored,
};

use crate::backend::EtcdBackend;
use crate::decide::{Ask, Refresh};
use crate::member::Member;

impl SharedBackend for EtcdBackend {
    type Conversion = Convertible;
}

impl JointBackend for EtcdBackend {}

#[async_trait]
impl ConvertBackend for EtcdBackend {
    async fn convert(&self, request: &Convert) -> Result<AcquireOutcome, Error> {
        let request = request.clone();
        self.ask(|core| async move { core.convert(&request).await }).await
    }
}

#[async_trait]
impl PermitBackend for EtcdBackend {
    async fn permits(&self, key: &Key, of: u32) -> Result<Permits, Error> {
        let key = key.clone();
        self.ask(|core| async move {
            let ask = Ask::about(&key);
            let done =
                core.decide(ask, Refresh::Never, |_, document, visit| document.permits(of, visit));
            done.await?.answer
        })
        .await
    }

    async fn resize(&self, key: &Key, of: u32, change: Resize) -> Result<Resized, Error> {
        let key = key.clone();
        self.ask(|core| async move {
            let ask = Ask::about(&key);
            let done = core.decide(ask, Refresh::Never, |_, document, visit| {
                document.resize(of, change, visit)
            });
            done.await?.answer
        })
        .await
    }

    async fn forget(&self, claim: &Claim) -> Result<Released, Error> {
        if !claim.mode.counts() {
            return Err(Error::new(ErrorKind::InvalidConfig, "only permits can be forgotten"));
        }
        let claim = claim.clone();
        self.ask(|core| async move {
            let act = |_, document: &mut Document<Member>, visit: &mut Visit<'_, Member>| {
                document.forget_permits(&claim, visit)
            };
            core.give_up(&claim, act).await?.answer
        })
        .await
    }

    async fn close(&self, key: &Key, of: u32) -> Result<(), Error> {
        let key = key.clone();
        self.ask(|core| async move {
            let ask = Ask::about(&key);
            let done =
                core.decide(ask, Refresh::Never, |_, document, visit| document.close(of, visit));
            done.await?.answer
        })
        .await
    }

    async fn undeclare(&self, claim: &Claim) -> Result<bool, Error> {
        Permits::check_undeclaring(claim)?;
        let claim = claim.clone();
        self.ask(|core| async move {
            let done = core.decide(Ask::of_holder(&claim), Refresh::Never, |_, document, _| {
                document.undeclare(&claim, Clock::boot().now())
            });
            Ok(done.await?.answer)
        })
        .await
    }
}

#[async_trait]
impl CellBackend for EtcdBackend {
    async fn load(&self, key: &Key) -> Result<Option<Cell>, Error> {
        let key = key.clone();
        self.ask(|core| async move { core.bounded(core.load(&key)).await }).await
    }

    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored, Error> {
        Cell::check(claim, value)?;
        let (claim, value) = (claim.clone(), value.map(<[u8]>::to_vec));
        self.ask(|core| async move {
            let done = core.decide(Ask::of_holder(&claim), Refresh::Never, |_, document, visit| {
                document.store(&claim, token, value.as_deref(), visit)
            });
            Ok(done.await?.answer)
        })
        .await
    }

    async fn commit(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: &[u8],
    ) -> Result<Committed, Error> {
        Cell::check(claim, Some(value))?;
        let (claim, value) = (claim.clone(), value.to_vec());
        self.ask(|core| async move {
            let done = core.decide(Ask::of(&claim), Refresh::Never, |_, document, visit| {
                document.commit(&claim, token, &value, visit)
            });
            Ok(done.await?.answer)
        })
        .await
    }
}

#[async_trait]
impl InspectBackend for EtcdBackend {
    async fn inspect(&self, key: &Key) -> Result<Inspection, Error> {
        let key = key.clone();
        self.ask(|core| async move { core.bounded(core.inspect(&key)).await }).await
    }

    async fn list(&self, list: &List) -> Result<Page, Error> {
        let list = list.clone();
        self.ask(|core| async move { core.bounded(core.list(&list)).await }).await
    }

    async fn force_release(&self, key: &Key) -> Result<u64, Error> {
        let key = key.clone();
        self.ask(|core| async move { core.bounded(core.force_release(&key)).await }).await
    }
}
