//! The sections of holders beside which other holders may be inside.
//!
//! Each section returns whether it found a forbidden holder inside.

use std::io;

use super::record::{Entry, Record};
use crate::measure::maybe_yield;

/// Makes the count odd, and even again.
pub(super) async fn write(record: &Record, pass: u64) -> io::Result<bool> {
    let seen = record.read()?;
    record.write(&Entry { count: seen.count | 1, ..seen })?;
    let change = Change { record, outcome: Entry { count: seen.count & !1, ..seen } };
    maybe_yield(pass).await;
    change.complete();
    Ok(!seen.count.is_multiple_of(2))
}

/// Checks that the count is even and does not change.
pub(super) async fn read(record: &Record, pass: u64) -> io::Result<bool> {
    let before = record.read()?.count;
    maybe_yield(pass).await;
    let after = record.read()?.count;
    Ok(before != after || !before.is_multiple_of(2))
}

/// Checks that no more holders are inside than there are permits.
pub(super) async fn enter(
    record: &Record,
    task: u64,
    tasks: usize,
    permits: u32,
    pass: u64,
) -> io::Result<bool> {
    record.mark(task, true)?;
    let mark = Mark { record, task };
    let inside = record.inside(tasks)?;
    maybe_yield(pass).await;
    drop(mark);
    Ok(inside > permits as usize)
}

/// A write under way. If its task is aborted, the write has no effect.
///
/// The record is in memory and was written a moment ago, so the write should not fail. A failure would show as a lost
/// update.
struct Change<'a> {
    record: &'a Record,
    /// The count to write at the end.
    outcome: Entry,
}

impl Change<'_> {
    fn complete(mut self) {
        self.outcome.count += 2;
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        _ = self.record.write(&self.outcome);
    }
}

/// A holder of a permit. A mark that could not be removed would show as a holder too many.
struct Mark<'a> {
    record: &'a Record,
    task: u64,
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        _ = self.record.mark(self.task, false);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// A pass that gives up its thread inside, and one that does not.
    const YIELDS: u64 = 0;
    const RUSHES: u64 = 1;

    fn record() -> (tempfile::TempDir, Record) {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::create(&folder.path().join("record"), 2).unwrap();
        (folder, record)
    }

    #[test]
    fn a_writer_beside_another_task_is_seen() {
        let (_folder, record) = record();
        let context = &mut Context::from_waker(Waker::noop());
        futures::executor::block_on(async {
            assert!(!write(&record, RUSHES).await.unwrap());
            let mut reading = pin!(read(&record, YIELDS));
            assert!(reading.as_mut().poll(context).is_pending());
            let mut writing = pin!(write(&record, YIELDS));
            assert!(writing.as_mut().poll(context).is_pending());
            assert!(read(&record, RUSHES).await.unwrap());
            assert!(write(&record, RUSHES).await.unwrap());
            assert!(reading.await.unwrap());
            assert!(!writing.await.unwrap());
        });
    }

    #[test]
    fn a_write_that_is_aborted_leaves_nothing() {
        let (_folder, record) = record();
        let context = &mut Context::from_waker(Waker::noop());
        {
            let mut writing = pin!(write(&record, YIELDS));
            assert!(writing.as_mut().poll(context).is_pending());
            let mut having = pin!(enter(&record, 1, 2, 1, YIELDS));
            assert!(having.as_mut().poll(context).is_pending());
        }
        assert_eq!(record.read().unwrap(), Entry::default());
        assert_eq!(record.inside(2).unwrap(), 0);
    }

    #[test]
    fn one_too_many_is_seen() {
        let (_folder, record) = record();
        let context = &mut Context::from_waker(Waker::noop());
        futures::executor::block_on(async {
            assert!(!enter(&record, 1, 2, 1, RUSHES).await.unwrap());
            let mut first = pin!(enter(&record, 1, 2, 1, YIELDS));
            assert!(first.as_mut().poll(context).is_pending());
            assert!(!enter(&record, 2, 2, 2, RUSHES).await.unwrap());
            assert!(enter(&record, 2, 2, 1, RUSHES).await.unwrap());
            assert!(!first.await.unwrap());
        });
    }
}
