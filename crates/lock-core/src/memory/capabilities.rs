//! The capabilities. Each method visits the entry of a key.

use async_trait::async_trait;

use super::{MemoryBackend, Verb};
use crate::Convertible;
use crate::{
    AcquireOutcome, Backend, Cell, CellBackend, Claim, Committed, Convert, ConvertBackend,
};
use crate::{FencingToken, InspectBackend, Inspection, JointBackend, Key, List, Page};
use crate::{PermitBackend, Permits, Released, Resize, Resized, Result, SharedBackend, Stored};

impl SharedBackend for MemoryBackend {
    type Conversion = Convertible;
}

#[async_trait]
impl ConvertBackend for MemoryBackend {
    async fn convert(&self, request: &Convert) -> Result<AcquireOutcome> {
        let sent = self.clock().now();
        let Self { store, connection } = self;
        let convert = || store.convert(request, connection, sent);
        connection.carry(Verb::Acquire, convert).await?
    }
}

impl JointBackend for MemoryBackend {}

#[async_trait]
impl PermitBackend for MemoryBackend {
    async fn permits(&self, key: &Key, of: u32) -> Result<Permits> {
        let Self { store, connection } = self;
        let sent = self.clock().now();
        let look =
            || store.at(key, connection, sent, |document, visit| document.permits(of, &visit));
        connection.carry(Verb::Count, look).await?
    }

    async fn resize(&self, key: &Key, of: u32, change: Resize) -> Result<Resized> {
        let Self { store, connection } = self;
        let sent = self.clock().now();
        let resize = || {
            store.at(key, connection, sent, |document, mut visit| {
                document.resize(of, change, &mut visit)
            })
        };
        connection.carry(Verb::Count, resize).await?
    }

    async fn forget(&self, claim: &Claim) -> Result<Released> {
        let Self { store, connection } = self;
        let sent = self.clock().now();
        let forget = || {
            store.at(&claim.key, connection, sent, |document, mut visit| {
                document.forget_permits(claim, &mut visit)
            })
        };
        connection.carry(Verb::Count, forget).await?
    }

    async fn close(&self, key: &Key, of: u32) -> Result<()> {
        let Self { store, connection } = self;
        let sent = self.clock().now();
        let close = || {
            store.at(key, connection, sent, |document, mut visit| document.close(of, &mut visit))
        };
        connection.carry(Verb::Count, close).await?
    }

    async fn undeclare(&self, claim: &Claim) -> Result<bool> {
        Permits::check_undeclaring(claim)?;
        let undeclare =
            || self.store.look(&claim.key, |document, now| document.undeclare(claim, now));
        Ok(self.connection.carry(Verb::Count, undeclare).await?.unwrap_or(false))
    }
}

#[async_trait]
impl CellBackend for MemoryBackend {
    async fn load(&self, key: &Key) -> Result<Option<Cell>> {
        let load = || self.store.look(key, |document, now| document.load(now)).flatten();
        self.connection.carry(Verb::Cell, load).await
    }

    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored> {
        Cell::check(claim, value)?;
        let Self { store, connection } = self;
        let sent = self.clock().now();
        let write = || {
            store.at_known(&claim.key, connection, sent, |document, mut visit| {
                document.store(claim, token, value, &mut visit)
            })
        };
        Ok(connection.carry(Verb::Cell, write).await?.unwrap_or(Stored::NotHeld))
    }

    async fn commit(&self, claim: &Claim, token: FencingToken, value: &[u8]) -> Result<Committed> {
        Cell::check(claim, Some(value))?;
        let Self { store, connection } = self;
        let sent = self.clock().now();
        let commit = || {
            store.at_known(&claim.key, connection, sent, |document, mut visit| {
                document.commit(claim, token, value, &mut visit)
            })
        };
        Ok(connection.carry(Verb::Cell, commit).await?.unwrap_or(Committed::NotHeld))
    }
}

#[async_trait]
impl InspectBackend for MemoryBackend {
    async fn inspect(&self, key: &Key) -> Result<Inspection> {
        let look = || self.store.inspect(key);
        Ok(self.connection.carry(Verb::Inspect, look).await?.unwrap_or_default())
    }

    async fn list(&self, list: &List) -> Result<Page> {
        self.connection.carry(Verb::Inspect, || self.store.list(list)).await
    }

    async fn force_release(&self, key: &Key) -> Result<u64> {
        let Self { store, connection } = self;
        let sent = self.clock().now();
        let end = || {
            store.at_known(key, connection, sent, |document, mut visit| {
                document.force_release(&mut visit)
            })
        };
        Ok(connection.carry(Verb::Inspect, end).await?.unwrap_or(0))
    }
}
