//! How a connection asks its server whether it may have forgotten leases.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lock_core::{Error, ErrorKind};

use super::live::{CLOCK, Live};
use super::recall::Quarantine;
use crate::scripts::RECALL;
use crate::wire::{Call, Failure, Reply};

impl Live {
    /// Fails if the server has to sit out, or does not say.
    pub(super) async fn has_recalled(&self, quarantine: &Quarantine) -> Result<(), Failure> {
        let left = match self.recall().left(CLOCK.now()) {
            Some(Duration::ZERO) => return Ok(()),
            Some(left) => left,
            None => Box::pin(self.ask_for_recall(quarantine, b"")).await?,
        };
        if left.is_zero() { Ok(()) } else { Err(self.sits_out(left).into()) }
    }

    /// Has the server grant leases at once.
    pub(super) async fn end_quarantine(&self, quarantine: &Quarantine) -> Result<(), Failure> {
        self.ask_for_recall(quarantine, b"i").await.map(drop)
    }

    async fn ask_for_recall(
        &self,
        quarantine: &Quarantine,
        word: &[u8],
    ) -> Result<Duration, Failure> {
        let Quarantine { longest, record, has_advised } = quarantine;
        let mut call = Call::new(&RECALL, 1, record.len() + 32);
        call.bytes(record).number(longest.quarantine().as_millis() as u64).bytes(word);
        let left = match self.run(call).await?.reply {
            Reply::Int(left) if left >= 0 => Duration::from_millis(left.unsigned_abs()),
            _ => {
                let message = "the script about lost leases was answered with nonsense";
                return Err(Error::new(ErrorKind::Protocol, message).into());
            }
        };
        if self.recall().note(left, CLOCK.now()) {
            if has_advised.swap(true, Ordering::Relaxed) {
                tracing::info!(server = %self.endpoint(), ?left, "the server may have forgotten leases, and is in quarantine");
            } else {
                tracing::warn!(
                    server = %self.endpoint(), ?left,
                    "the server may have forgotten leases, and is in quarantine; if it is new, and no client holds a lock, call \
                     RedisBackend::init once"
                );
            }
        }
        Ok(left)
    }

    fn sits_out(&self, left: Duration) -> Error {
        // To the second, so that errors with one cause look alike.
        let shown = Duration::from_secs(left.as_secs_f64().ceil() as u64);
        let address = &self.endpoint().address;
        let message =
            format!("{address} may have forgotten leases, and sits out for another {shown:?}");
        Error::not_before(left, message)
    }
}
