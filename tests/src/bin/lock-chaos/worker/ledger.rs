//! The number of permits, as agreed among the workers of a run.
//!
//! A worker alone cannot know the limit of a semaphore after a change: other workers change it, too, and
//! forgotten permits count only when the store knows of them. So one worker at a time changes the limit, and
//! the forgotten permits are counted here.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::shelf::{RESIZED, SEMAPHORES};

/// The file that the workers share.
pub(crate) struct Ledger {
    path: PathBuf,
}

/// Its content, while no other worker can open it.
pub(crate) struct Page {
    file: File,
    /// The number of permits, including the forgotten ones.
    pub(crate) limit: u32,
    /// The number of forgotten permits.
    pub(crate) forgotten: u32,
    /// A change has begun, and its outcome is unknown: no worker changes the limit any more.
    pub(crate) sealed: bool,
}

impl Ledger {
    pub(crate) fn of(folder: &Path) -> Self {
        Self { path: folder.join("permits") }
    }

    /// `None` if another worker has it open.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub(crate) fn open(&self) -> Option<Page> {
        let page = self.try_open();
        page.unwrap_or_else(|error| panic!("{}: {error}", self.path.display()))
    }

    fn try_open(&self) -> io::Result<Option<Page>> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        let mut file =
            options.create(true).truncate(false).read(true).write(true).open(&self.path)?;
        // The lock ends with the file, and the file with the process.
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut words = text.split_ascii_whitespace();
        let mut number = || words.next().and_then(|word| word.parse().ok());
        let limit = number().unwrap_or(SEMAPHORES[RESIZED].1);
        let forgotten = number().unwrap_or(0);
        let sealed = words.next() == Some("sealed");
        Ok(Some(Page { file, limit, forgotten, sealed }))
    }
}

impl Page {
    /// Writes the present content.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    pub(crate) fn keep(&mut self) {
        let sealed = if self.sealed { "sealed" } else { "open" };
        // At least as long as the previous content.
        let text = format!("{:>10} {:>10} {sealed:>6}\n", self.limit, self.forgotten);
        let written = self.file.rewind().and_then(|()| self.file.write_all(text.as_bytes()));
        written.unwrap_or_else(|error| panic!("the ledger cannot be written: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_reads_what_another_has_kept() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::of(folder.path());
        let mut page = ledger.open().unwrap();
        assert_eq!((page.limit, page.forgotten, page.sealed), (8, 0, false));
        assert!(Ledger::of(folder.path()).open().is_none());
        (page.limit, page.forgotten, page.sealed) = (9, 2, true);
        page.keep();
        drop(page);
        let mut page = ledger.open().unwrap();
        assert_eq!((page.limit, page.forgotten, page.sealed), (9, 2, true));
        page.sealed = false;
        page.keep();
        drop(page);
        assert!(!ledger.open().unwrap().sealed);
    }
}
