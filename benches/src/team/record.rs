//! The record that the lock protects.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

use crate::Rule;

/// Nanoseconds on a clock that all processes of this machine share.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// The passes up to now: five numbers, in the byte order of the machine.
///
/// In the file a number for each task follows: 1 while the task has a permit, if the lock has permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The number of passes. With readers and writers, twice the number of writes, and odd during a write.
    pub(super) count: u64,
    /// The task of the last pass, from 1 over all processes; 0 if there was none.
    pub(super) task: u64,
    /// The process of that task, from 1.
    pub(super) process: u64,
    /// When the present turn of this process began: the first of its passes without an interruption.
    pub(super) turn_began: u64,
    /// When the last pass ended.
    pub(super) released: u64,
}

impl Entry {
    /// How many updates there were.
    pub(super) fn updates(&self, rule: Rule) -> u64 {
        match rule {
            Rule::Exclusive | Rule::Permits(_) => self.count,
            Rule::ReadWrite { .. } => self.count / 2,
        }
    }
}

const FIELDS: usize = 5;
const ENTRY: usize = FIELDS * 8;

/// A file with an entry that the holder of the lock reads and writes.
///
/// A read and a write together are not atomic, so two writers at once lose an update.
#[derive(Debug)]
pub(super) struct Record(File);

impl Record {
    /// Makes a new file, for this many tasks.
    pub(super) fn create(path: &Path, tasks: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        file.set_len((ENTRY + tasks * 8) as u64)?;
        let record = Self(file);
        record.write(&Entry::default())?;
        Ok(record)
    }

    /// Opens an existing file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().read(true).write(true).open(path)?))
    }

    pub(super) fn read(&self) -> io::Result<Entry> {
        let mut bytes = [0; ENTRY];
        self.0.read_exact_at(&mut bytes, 0)?;
        let mut fields = [0; FIELDS];
        for (field, bytes) in fields.iter_mut().zip(bytes.as_chunks().0) {
            *field = u64::from_ne_bytes(*bytes);
        }
        let [count, task, process, turn_began, released] = fields;
        Ok(Entry { count, task, process, turn_began, released })
    }

    pub(super) fn write(&self, entry: &Entry) -> io::Result<()> {
        let Entry { count, task, process, turn_began, released } = *entry;
        let mut bytes = [0; ENTRY];
        let fields = [count, task, process, turn_began, released];
        for (field, bytes) in fields.into_iter().zip(bytes.as_chunks_mut().0) {
            *bytes = field.to_ne_bytes();
        }
        self.0.write_all_at(&bytes, 0)
    }

    /// Notes whether this task, counted from 1, has a permit.
    pub(super) fn mark(&self, task: u64, inside: bool) -> io::Result<()> {
        let place = ENTRY as u64 + (task - 1) * 8;
        self.0.write_all_at(&u64::from(inside).to_ne_bytes(), place)
    }

    /// How many of this many tasks have noted that they have a permit.
    ///
    /// A holder that has set its mark sees at least the marks that were already there, because no write is lost.
    pub(super) fn inside(&self, tasks: usize) -> io::Result<usize> {
        let mut bytes = vec![0; tasks * 8];
        self.0.read_exact_at(&mut bytes, ENTRY as u64)?;
        Ok(bytes.as_chunks::<8>().0.iter().filter(|&&mark| mark != [0; 8]).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let record = Record::create(&path, 2).unwrap();
        assert_eq!(Record::open(&path).unwrap().read().unwrap(), Entry::default());
        let entry = Entry { count: 1, task: 2, process: 3, turn_began: 4, released: u64::MAX };
        record.write(&entry).unwrap();
        assert_eq!(Record::open(&path).unwrap().read().unwrap(), entry);
        assert!(Record::create(&path, 2).is_err());
    }

    #[test]
    fn those_with_a_permit_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record::create(&folder.path().join("record"), 3).unwrap();
        record.mark(1, true).unwrap();
        record.mark(3, true).unwrap();
        assert_eq!(record.inside(3).unwrap(), 2);
        record.mark(1, false).unwrap();
        assert_eq!(record.inside(3).unwrap(), 1);
        assert_eq!(record.read().unwrap(), Entry::default());
    }
}
