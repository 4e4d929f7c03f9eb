//! What a client does with the value beside a lock.

use lock_core::{Cell, CellBackend, Claim, FencingToken, Key, Mode, Stored};

use crate::client::{Client, Held, some_of};
use crate::plan::Flaw;
use crate::values::{Answer, Found, Load};

impl Client {
    /// Loads the value of a key, as a holder if there is a lease.
    pub(crate) async fn may_load(&mut self, key: &Key, held: Option<&Held>) {
        if !self.world.plan.faults.values || self.rng.chance(50) {
            return;
        }
        let began = self.world.history(|history| history.values.step());
        let polls = self.polls();
        let loaded = match held {
            Some(held) => some_of(self.quorum.load_under(&held.request.claim), polls).await,
            None => some_of(self.quorum.load(key), polls).await,
        };
        self.log(|| format!("loads, and is answered {loaded:?}"));
        let Some(Ok(cell)) = loaded else { return };
        let found = cell.map(|cell| self.found(&cell));
        let under = held.map(|held| held.grant.tokens.first());
        let key = self.number_of(key);
        self.world.history(|history| {
            let ended = history.values.step();
            history.values.loaded(Load { key, under, began, ended, found });
        });
    }

    fn found(&self, cell: &Cell) -> Found {
        let number = cell.value.as_slice().try_into().map(u64::from_le_bytes).unwrap();
        let settled = cell.settled || self.world.plan.flaw == Flaw::TrustsAnyValue;
        Found { write: number.try_into().unwrap(), token: cell.token, settled }
    }

    /// Loads the value as its holder, and stores or erases it. Each value of a lease has another token.
    pub(crate) async fn may_store(&mut self, held: &mut Held) {
        let claim = held.request.claim.clone();
        if claim.mode != Mode::Exclusive {
            return;
        }
        self.may_load(&claim.key, Some(held)).await;
        if !self.world.plan.faults.values || self.rng.chance(40) {
            return;
        }
        let Some(token) = held.grant.tokens.nth(held.stored) else { return };
        held.stored += 1;
        let erases = self.rng.chance(20);
        let key = self.number_of(&claim.key);
        let write = self.world.history(|history| history.values.begin(key, token, erases));
        let value = (!erases).then(|| u64::try_from(write).unwrap().to_le_bytes());
        for _ in 0..=self.rng.below(2) {
            let answer = self.store(&claim, token, value.as_ref().map(|value| &value[..])).await;
            self.log(|| format!("stores {write} under {token}, and is answered {answer:?}"));
            self.world.history(|history| history.values.answered(write, answer));
            if answer != Answer::Unknown {
                break;
            }
        }
    }

    async fn store(&mut self, claim: &Claim, token: FencingToken, value: Option<&[u8]>) -> Answer {
        let polls = self.polls();
        let store = self.quorum.store(claim, token, value);
        match some_of(store, polls).await {
            Some(Ok(Stored::Written)) => Answer::Written,
            Some(Ok(Stored::NotHeld)) => Answer::Refused,
            _ => Answer::Unknown,
        }
    }
}
