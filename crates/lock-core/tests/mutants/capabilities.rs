//! Bugs of the other capabilities.

use std::num::NonZeroU32;

use async_trait::async_trait;
use lock_core::{
    AcquireOutcome, Convert, ConvertBackend, Convertible, JointBackend, Key, Released,
};
use lock_core::{Backend, Cell, CellBackend, Claim, Committed, FencingToken, InspectBackend};
use lock_core::{Inspection, List, Page, Result, SharedBackend, Stored, Ttl};
use tokio::task::yield_now;

use crate::bug::Bug;
use crate::line::put_back;
use crate::mutant::Mutant;

impl Mutant {
    fn take_late(&self, key: &Key) -> Option<Cell> {
        self.shared().late.remove(key)
    }
}

impl SharedBackend for Mutant {
    type Conversion = Convertible;
}

#[async_trait]
impl ConvertBackend for Mutant {
    async fn convert(&self, request: &Convert) -> Result<AcquireOutcome> {
        let from = self.confused_mode(request.from);
        let mut request = request.request.clone();
        request.claim = self.confused(&request.claim);
        let answer = self.acquire_wrongly(request, Some(from)).await;
        self.failing(answer).await
    }
}

impl JointBackend for Mutant {}

#[async_trait]
impl CellBackend for Mutant {
    async fn load(&self, key: &Key) -> Result<Option<Cell>> {
        if let Some(cell) = self.shared().values.get(key) {
            return Ok(Some(cell.clone()));
        }
        let Some(mut cell) = self.store.load(key).await? else { return Ok(None) };
        cell.held |= self.bug == Bug::SaysThatWritersAlwaysHold;
        cell.settled &= self.bug != Bug::SettlesNothing;
        Ok((cell.held || self.bug != Bug::ValuesEndWithTheirLease).then_some(cell))
    }

    async fn load_under(&self, claim: &Claim) -> Result<Option<Cell>> {
        if let Some(late) = self.take_late(&claim.key) {
            self.shared().values.insert(claim.key.clone(), late);
        }
        let cell = self.load(&claim.key).await?;
        let is_its = |cell: &Cell| cell.held || self.bug != Bug::HoldersLoadWhatTheyStored;
        Ok(cell.filter(is_its))
    }

    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored> {
        let is_too_long = value.is_some_and(|value| value.len() > Cell::MAX_LEN);
        match (self.bug, value) {
            (Bug::DropsTooLongValues, _) if is_too_long => return Ok(Stored::Written),
            (Bug::StoringTwiceFails, Some(value))
                if self.load(&claim.key).await?.is_some_and(|cell| cell.value == value) =>
            {
                return Ok(Stored::NotHeld);
            }
            (Bug::StoresLate, Some(value)) => {
                let late = Cell::new(value.into(), token, false);
                self.shared().late.insert(claim.key.clone(), late);
                yield_now().await;
                self.take_late(&claim.key);
            }
            _ => {}
        }
        let (token, stored_value) = match (self.bug, value) {
            (Bug::CutsValuesShort, Some(value)) => {
                (token, value.split(|byte| *byte == b' ').next())
            }
            (Bug::ErasingEmpties, None) => (token, Some(&b""[..])),
            (Bug::IgnoresTokensOfValues, value) => (FencingToken::new(1), value),
            (_, value) => (token, value),
        };
        let stored = CellBackend::store(&self.store, claim, token, stored_value).await?;
        if let (Bug::AnybodyCanStore, Stored::NotHeld, Some(value)) = (self.bug, stored, value) {
            let cell = Cell::new(value.into(), token, false);
            self.shared().values.insert(claim.key.clone(), cell);
            return Ok(Stored::Written);
        }
        Ok(stored)
    }

    async fn commit(&self, claim: &Claim, token: FencingToken, value: &[u8]) -> Result<Committed> {
        let done = Committed::Done { told: 0 };
        let committed = match self.bug {
            Bug::CommitKeepsTheLease => {
                return Ok(
                    match CellBackend::store(&self.store, claim, token, Some(value)).await? {
                        Stored::Written => done,
                        _ => Committed::NotHeld,
                    },
                );
            }
            Bug::CommittingTwiceFails
                if self.load(&claim.key).await?.is_some_and(|cell| cell.token == token) =>
            {
                return Ok(Committed::NotHeld);
            }
            Bug::CommitsWithoutServing => {
                let line = self.take_out_all_of(&claim.key).await?;
                let committed = self.store.commit(claim, token, value).await?;
                put_back(line).await?;
                committed
            }
            _ => self.store.commit(claim, token, value).await?,
        };
        Ok(if self.bug == Bug::AnybodyCanCommit { done } else { committed })
    }
}

#[async_trait]
impl InspectBackend for Mutant {
    async fn inspect(&self, key: &Key) -> Result<Inspection> {
        let mut inspection = self.store.inspect(key).await?;
        match self.bug {
            Bug::HidesWaiters => {
                inspection.waiters.clear();
                inspection.waiting = 0;
            }
            Bug::ShowsTheLabelOfTheHolder => {
                let label = inspection.holders.first().and_then(|holder| holder.label.clone());
                inspection.waiters.iter_mut().for_each(|it| it.label.clone_from(&label));
            }
            Bug::ShowsTheWaitOfTheFirst => {
                let waited = inspection.waiters.first().and_then(|waiter| waiter.waited);
                inspection.waiters.iter_mut().for_each(|it| it.waited = waited);
            }
            Bug::WaitsAnewWithEachRequest => {
                let since = |left| Ttl::MAX.duration() - left;
                inspection.waiters.iter_mut().for_each(|it| it.waited = Some(since(it.remaining)));
            }
            Bug::InspectsOnce => {
                let mut shared = self.shared();
                return Ok(shared.inspections.entry(key.clone()).or_insert(inspection).clone());
            }
            Bug::ShowsOwners => {
                let shared = self.shared();
                for holder in &mut inspection.holders {
                    let is_its = |first| Some(first) == holder.token;
                    let lease = shared.leases.iter().find(|(_, it)| is_its(it.tokens.first()));
                    let Some((owner, _)) = lease else { continue };
                    let half = String::from_utf8_lossy(&owner.expose()[..16]).into_owned();
                    holder.token = u64::from_str_radix(&half, 16).ok().map(FencingToken::new);
                }
            }
            _ => {}
        }
        Ok(inspection)
    }

    async fn list(&self, list: &List) -> Result<Page> {
        let mut list = list.clone();
        match self.bug {
            Bug::ListsEveryPrefix => list.prefix.clear(),
            Bug::ListsAllAtOnce => list.most = NonZeroU32::MAX,
            _ => {}
        }
        let mut page = self.store.list(&list).await?;
        match self.bug {
            Bug::ListsOnePage => page.next = None,
            Bug::ListsHoldersAlone => {
                for lock in &mut page.locks {
                    lock.inspection.waiters.clear();
                    lock.inspection.waiting = 0;
                }
            }
            _ => {}
        }
        Ok(page)
    }

    async fn force_release(&self, key: &Key) -> Result<u64> {
        match self.bug {
            Bug::ForcesOneLease => {
                let leases = self.leases_of(key);
                for claim in leases {
                    if let Released::Freed { .. } = self.store.release(&claim).await? {
                        return Ok(1);
                    }
                }
                Ok(0)
            }
            Bug::ForcesWithoutServing => {
                let line = self.take_out_all_of(key).await?;
                let ended = self.store.force_release(key).await?;
                put_back(line).await?;
                Ok(ended)
            }
            _ => self.store.force_release(key).await,
        }
    }
}
