//! How a connection asks its server whether it may have forgotten leases.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lock_core::{Error, ErrorKind};

use super::live::{CLOCK, Live};
use super::recall::Quarantine;
use crate::scripts::RECALL;
use crate::wire::{Call, Failure, Reply};

impl Live {
    /// Fails if the server has to sit out as far as this record counts, or does not say.
    pub(super) async fn has_recalled(
        &self,
        quarantine: &Quarantine,
        record: u16,
    ) -> Result<(), Failure> {
        let left = match self.recall().left(record, CLOCK.now(), quarantine.lasts()) {
            Some(left) => left,
            None => Box::pin(self.ask_for_recall(quarantine, record, b"")).await?,
        };
        if left.is_zero() { Ok(()) } else { Err(self.sits_out(left).into()) }
    }

    /// Has the server grant leases at once, as far as this record counts.
    pub(super) async fn end_quarantine(
        &self,
        quarantine: &Quarantine,
        record: u16,
    ) -> Result<(), Failure> {
        self.ask_for_recall(quarantine, record, b"i").await.map(drop)
    }

    async fn ask_for_recall(
        &self,
        quarantine: &Quarantine,
        record: u16,
        word: &[u8],
    ) -> Result<Duration, Failure> {
        let key = quarantine.records.key(record);
        let scope: &[u8] = if quarantine.is_by_slot() { b"s" } else { b"" };
        let mut call = Call::new(&RECALL, 1, key.len() + 32);
        call.bytes(&key).number(quarantine.longest.quarantine().as_millis() as u64);
        call.bytes(word).bytes(scope);
        let reply = match self.run(call).await {
            // The record is no lock. It counts where the slot is, once the slot has moved.
            Err(Failure::Asks(_, error)) => return Err(Failure::Moving(error)),
            outcome => outcome?.reply,
        };
        let left = match reply {
            Reply::Int(left) if left >= 0 => Duration::from_millis(left.unsigned_abs()),
            _ => {
                let message = "the script about lost leases was answered with nonsense";
                return Err(Error::new(ErrorKind::Protocol, message).into());
            }
        };
        if self.recall().note(record, left, CLOCK.now()) {
            self.report(quarantine, left);
        }
        Ok(left)
    }

    /// The first time with advice. A cluster has many slots.
    fn report(&self, quarantine: &Quarantine, left: Duration) {
        let server = self.endpoint();
        if !quarantine.has_advised.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %server, ?left,
                "the server may have forgotten leases, and is in quarantine; if it is new, and no client holds a lock, call \
                 RedisBackend::init once"
            );
        } else if quarantine.is_by_slot() {
            tracing::debug!(%server, ?left, "the server may have forgotten leases of a slot, which is in quarantine");
        } else {
            tracing::info!(%server, ?left, "the server may have forgotten leases, and is in quarantine");
        }
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
