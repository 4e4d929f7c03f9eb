//! Writes the value, and finds out whether the store has it.

use lock_core::{Cell, Claim, Committed, Error, ErrorKind, FencingToken, LoadedValue, Stored};

use super::RemoteCell;
use crate::bare::{Denial, Hold, Limit, Retries, Wait, Write};
use crate::error::LeaseLost;

/// Why a write failed, or may have failed.
pub(crate) enum Unwritten {
    /// The store has refused the value. The hold goes on.
    Refused(Error),
    /// The lease is over, and nothing was written.
    Lost(LeaseLost),
    /// The store did not say whether the value was written.
    Unknown(Error),
}

/// Why a write has no clear answer.
enum Unclear {
    /// A later answer settles the outcome.
    Clear(Unwritten),
    /// A request was not answered, and the lease may be over.
    Doubt(Error),
}

impl RemoteCell {
    /// The value for this holder: the value that came with the lease, or else the value in the store. Writes a value
    /// that is not settled once more.
    pub(crate) async fn value_under(
        &self,
        hold: &mut Hold,
        limit: Limit,
    ) -> Result<LoadedValue, Denial> {
        let settled = |value: &LoadedValue| value.cell().is_none_or(|cell| cell.settled);
        if let Some(value) = hold.value().filter(settled) {
            return Ok(value);
        }
        let loaded = LoadedValue::new(self.load_under(hold, limit).await?);
        let Some(cell) = loaded.cell().filter(|cell| !cell.settled) else {
            hold.loaded(&loaded);
            return Ok(loaded);
        };
        self.save(hold, &cell.value).await.map_err(|unwritten| match unwritten {
            Unwritten::Lost(lost) => Denial::Lost(lost),
            Unwritten::Refused(error) | Unwritten::Unknown(error) => Denial::Failed(error),
        })
    }

    /// Asks for the value until there is an answer, or no retries are left. Does not wait for releases by this process.
    pub(crate) async fn peek(&self, limit: Limit) -> Result<Option<Cell>, Denial> {
        let mut retries = Retries::new(&self.bare, limit);
        loop {
            match self.bare.ask(self.backend.load(self.key())).await {
                Ok(cell) => return Ok(cell),
                Err(error) => retries.after(error).await?,
            }
        }
    }

    /// Writes the value and keeps the lock. Returns the value with its version.
    pub(crate) async fn save(
        &self,
        hold: &mut Hold,
        value: &[u8],
    ) -> Result<LoadedValue, Unwritten> {
        let write = begin(hold, false).await?;
        match self.send(hold, &write, value).await {
            Ok(_) => {}
            Err(Unclear::Clear(unwritten)) => {
                if let Unwritten::Refused(_) = unwritten {
                    hold.wrote(None);
                }
                return Err(unwritten);
            }
            // The lease goes back to the store with the holder, unless a later write has an answer.
            Err(Unclear::Doubt(error)) if hold.check().is_ok() => {
                return Err(Unwritten::Unknown(error));
            }
            Err(Unclear::Doubt(error)) => self.resolve(hold, &write, value, error).await?,
        }
        let saved = LoadedValue::new(Some(Cell::new(value.to_vec(), write.token, true)));
        hold.wrote(Some(&saved));
        Ok(saved)
    }

    /// Writes the value and releases the lock. The caller gets the hold back if the store refuses.
    pub(crate) async fn commit(
        &self,
        mut hold: Hold,
        value: &[u8],
    ) -> Result<FencingToken, (Option<Hold>, Unwritten)> {
        let write = match begin(&mut hold, true).await {
            Ok(write) => write,
            Err(unwritten @ Unwritten::Refused(_)) => return Err((Some(hold), unwritten)),
            Err(unwritten) => return Err((None, unwritten)),
        };
        let told = match self.send(&hold, &write, value).await {
            Ok(told) => told,
            Err(Unclear::Clear(unwritten @ Unwritten::Refused(_))) => {
                hold.wrote(None);
                return Err((Some(hold), unwritten));
            }
            Err(Unclear::Clear(unwritten)) => return Err((None, unwritten)),
            Err(Unclear::Doubt(error)) => {
                let resolved = self.resolve(&hold, &write, value, error).await;
                resolved.map_err(|unwritten| (None, unwritten))?;
                hold.committed(0);
                return Ok(write.token);
            }
        };
        if write.ends {
            hold.committed(told);
            return Ok(write.token);
        }
        let committed = LoadedValue::new(Some(Cell::new(value.to_vec(), write.token, true)));
        hold.wrote(Some(&committed));
        let key = self.key();
        if let Err(error) = hold.release_from(self.bare.home()).await {
            // The value is stored. The driver goes on with the release, or the lease has ended.
            tracing::debug!(%key, %error, "the release after a commit was not confirmed");
        }
        Ok(write.token)
    }

    /// Repeats a write until there is an answer, the lease is over, or no retries are left. Returns how many
    /// other clients heard of the release.
    async fn send(&self, hold: &Hold, write: &Write, value: &[u8]) -> Result<u32, Unclear> {
        let mut retries = Retries::new(&self.bare, Limit::none());
        let mut doubt = None::<Error>;
        loop {
            if let Err(lost) = hold.check() {
                return Err(unclear(doubt, Unwritten::Lost(lost)));
            }
            match self.send_once(write, value).await {
                Ok(Committed::Done { told }) => return Ok(told),
                // An earlier request without an answer may have written the value and ended the lease.
                Ok(_) if doubt.is_some() && write.ends => {
                    return Err(unclear(doubt, Unwritten::Lost(hold.loss())));
                }
                Ok(_) => return Err(unclear(doubt, Unwritten::Lost(hold.disown()))),
                Err(error) if !error.is_retryable() => {
                    return Err(unclear(doubt, Unwritten::Refused(error)));
                }
                Err(error) => {
                    doubt = Some(error.clone());
                    retries.after(error.clone()).await.map_err(|_| Unclear::Doubt(error))?;
                }
            }
        }
    }

    async fn send_once(&self, write: &Write, value: &[u8]) -> Result<Committed, Error> {
        let Write { claim, token, ends, .. } = write;
        if *ends {
            return self.bare.ask(self.backend.commit(claim, *token, value)).await;
        }
        let stored = self.bare.ask(self.backend.store(claim, *token, Some(value))).await?;
        Ok(match stored {
            Stored::Written => Committed::Done { told: 0 },
            _ => Committed::NotHeld,
        })
    }

    /// Finds out whether the store has carried out a write without an answer. Releases the claim first, so that
    /// the store refuses a late arrival of the write. A store of several nodes may not be able to rule the write
    /// out.
    async fn resolve(
        &self,
        hold: &Hold,
        write: &Write,
        value: &[u8],
        doubt: Error,
    ) -> Result<(), Unwritten> {
        let limit = Limit::of(Wait::AtMost(self.interval()), &self.bare);
        let found = async {
            self.release_patiently(&write.claim, limit).await?;
            self.peek(limit).await
        };
        // A store of several nodes may have carried the write out after the lease. Then a later holder may have loaded the
        // earlier value before.
        let proves = self.backend.load_is_conclusive() || hold.check().is_ok();
        let found = found.await.map_err(|_| Unwritten::Unknown(doubt.clone()))?;
        let is_ours = |cell: &Cell| cell.token == write.token && cell.value == value;
        match found {
            Some(cell) if is_ours(&cell) && cell.settled && proves => Ok(()),
            // A later holder has written meanwhile, or the value is not settled.
            Some(cell) if cell.token >= write.token => Err(Unwritten::Unknown(doubt)),
            // Some nodes may have the value, and a later holder may find it there.
            _ if !self.backend.load_is_conclusive() => Err(Unwritten::Unknown(doubt)),
            _ => Err(Unwritten::Lost(hold.loss())),
        }
    }

    async fn release_patiently(&self, claim: &Claim, limit: Limit) -> Result<(), Denial> {
        let mut retries = Retries::new(&self.bare, limit);
        loop {
            match self.bare.withdraw(claim).await {
                Ok(_) => return Ok(()),
                Err(error) => retries.after(error).await?,
            }
        }
    }
}

/// Begins a write under a hold whose lease is not over. After a write without an answer, this write may have to wait
/// for a token.
async fn begin(hold: &mut Hold, last: bool) -> Result<Write, Unwritten> {
    for is_first in [true, false] {
        hold.check().map_err(Unwritten::Lost)?;
        if let Some(write) = hold.begin_write(last) {
            return Ok(write);
        }
        if is_first {
            hold.token_for_write().await;
        }
    }
    hold.check().map_err(Unwritten::Lost)?;
    let message =
        "an earlier write has no answer, and no fencing token is left to tell the two apart";
    Err(Unwritten::Refused(Error::new(ErrorKind::NotReady, message)))
}

/// The reason for the end of a write. After a request without an answer, the outcome is unclear.
fn unclear(doubt: Option<Error>, reason: Unwritten) -> Unclear {
    doubt.map_or(Unclear::Clear(reason), Unclear::Doubt)
}
