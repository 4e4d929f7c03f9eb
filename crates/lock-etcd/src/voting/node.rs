//! Reading and writing the record of the node.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Error, OwnerToken, Quarantine, Standing, Terms, Ttl};

use super::record::{Change, Next, Record, Run, World, stand};
use crate::core::Core;
use crate::decide::ranges;
use crate::leases;
use crate::link::{Compare, Operation, Ranged, Transaction};

/// The record that was last seen to be the present one, and the number of the connection that has shown so. A cluster
/// that restarts, or is restored, ends all connections.
#[derive(Default)]
pub(crate) struct Node(Mutex<Option<(u64, String)>>);

impl Node {
    fn present(&self) -> MutexGuard<'_, Option<(u64, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What etcd has of the node.
struct Look {
    /// The number of the connection, if all of it was read on one.
    connection: Option<u64>,
    /// At which revision the record was written; 0 if there is none.
    revision: i64,
    record: Option<Record>,
    /// Whether the record is one of the present run.
    is_present: bool,
    /// The quarantine whose timer runs.
    timed: Option<String>,
    run: Run,
    spare: i64,
}

impl Core {
    /// The number of a connection that has shown this record to be the present one. `None` if the node has another one.
    pub(super) async fn connection_with(&self, text: &str) -> Result<Option<u64>, Error> {
        loop {
            let connection = self.link.opened();
            let is_known = |(at, it): &(u64, String)| *at == connection && it == text;
            if self.node.present().as_ref().is_some_and(is_known) {
                return Ok(Some(connection));
            }
            let look = self.look_at_node().await?;
            let record = look.record.as_ref().filter(|_| look.is_present).map(Record::text);
            self.note(&look, record.as_deref());
            if record.as_deref() != Some(text) {
                return Ok(None);
            }
        }
    }

    /// Notes that this is the record of the node, if one connection has shown so.
    fn note(&self, look: &Look, text: Option<&str>) {
        let present = look.connection.zip(text.map(str::to_owned));
        *self.node.present() = present;
    }

    /// The standing of the node after this change.
    pub(super) async fn stand(&self, terms: &Terms, change: Change<'_>) -> Result<Standing, Error> {
        let name = String::from_utf8_lossy(OwnerToken::generate()?.expose()).into_owned();
        loop {
            let look = self.look_at_node().await?;
            let world = World {
                run: look.run,
                spare: look.spare,
                timed: look.timed.as_deref(),
                name: &name,
            };
            let (record, is_present) = (look.record.clone(), look.is_present);
            let (present, former) = if is_present { (record, None) } else { (None, record) };
            let next = stand(present, former, &world, terms, change);
            if self.write_record(&look, &next).await? {
                return Ok(next.record.standing());
            }
        }
    }

    /// Ends a quarantine, or allows longer leases than before. Returns whether that is the latest quarantine.
    pub(super) async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool, Error> {
        loop {
            let look = self.look_at_node().await?;
            let present = look.record.clone().filter(|_| look.is_present);
            let vouched = present.and_then(|record| record.vouched(quarantine, max_ttl));
            let Some(record) = vouched else { return Ok(false) };
            if self.write_record(&look, &Next { record, timer: None }).await? {
                return Ok(true);
            }
        }
    }

    /// Reads the record, and finds out whether it is one of the present run.
    async fn look_at_node(&self) -> Result<Look, Error> {
        let connection = self.link.opened();
        let before = self.link.status().await?;
        let success =
            [self.names.record(), self.names.timer()].map(Operation::get).into_iter().collect();
        let answer = self.link.transact(&Transaction { success, ..Transaction::default() }).await?;
        let header = answer.header.clone().unwrap_or_default();
        let mut ranges = ranges(answer.responses).into_iter();
        let mut value = || ranges.next().and_then(first);
        let (record, timer) = (value(), value());
        let run = Run { cluster: header.cluster, term: header.term };
        // The revision was read later, so this number is not too high.
        let spare = spare(before.applied, header.revision);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
        let revision = record.as_ref().map_or(0, |(revision, _)| *revision);
        let record = record.and_then(|(_, bytes)| Record::from_text(&text(bytes)?));
        let is_present = match &record {
            Some(it) if it.run != run => false,
            Some(it) => it.spare <= spare || !self.is_restored(it.spare).await?,
            None => false,
        };
        // A connection that the first of these requests has opened is not known to be that of the second one.
        let connection = Some(connection).filter(|it| *it > 0 && *it == self.link.opened());
        let timed = timer.and_then(|(_, bytes)| text(bytes));
        Ok(Look { connection, revision, record, is_present, timed, run, spare })
    }

    /// Whether the log has fewer entries that change no key than it had before. The member has carried out all that was
    /// written before, because it was read from.
    async fn is_restored(&self, before: i64) -> Result<bool, Error> {
        let member = self.link.status().await?;
        // The revision was read earlier, so this number is not too low.
        Ok(spare(member.applied, member.header.unwrap_or_default().revision) < before)
    }

    /// Writes the record, unless another client has changed it meanwhile. Returns whether the node has it now.
    async fn write_record(&self, look: &Look, next: &Next) -> Result<bool, Error> {
        let text = next.record.text();
        let is_written = look.is_present && look.record.as_ref() == Some(&next.record);
        if !is_written || next.timer.is_some() {
            let bytes = text.clone().into_bytes();
            let mut success = vec![Operation::put(self.names.record(), bytes, 0)];
            if let Some(time) = next.timer {
                let (lease, _) = self.link.grant(seconds(time)).await?;
                let name = next.record.standing().quarantine.as_str().as_bytes().to_vec();
                success.push(Operation::put(self.names.timer(), name, lease));
            }
            let compare = vec![Compare::unchanged(self.names.record(), look.revision)];
            let writing = Transaction { compare, success, failure: Vec::new() };
            if !self.link.transact(&writing).await?.succeeded {
                return Ok(false);
            }
        }
        self.note(look, Some(&text));
        Ok(true)
    }
}

/// How many entries of the log have changed no key.
fn spare(applied: u64, revision: i64) -> i64 {
    i64::try_from(applied).unwrap_or(i64::MAX).saturating_sub(revision)
}

/// The revision and the value of the one key.
fn first(range: Ranged) -> Option<(i64, Vec<u8>)> {
    range.kvs.into_iter().next().map(|kv| (kv.mod_revision, kv.value))
}

/// The whole seconds of a timer.
fn seconds(time: Duration) -> i64 {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    i64::try_from(seconds).unwrap_or(i64::MAX).max(leases::SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_rounded_up() {
        let rounded = [1, 2_000, 2_001].map(|millis| seconds(Duration::from_millis(millis)));
        assert_eq!(rounded, [2, 2, 3]);
    }

    #[test]
    fn a_log_that_began_anew_has_less_to_spare() {
        assert_eq!(spare(12, 9), 3);
        assert!(spare(5, 9) < 0);
    }
}
