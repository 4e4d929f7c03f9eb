//! The file by which a script knows that its lock is held: `LOCK_FILE`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

/// A file that exists while the lease is valid. It has the time at which the lease ends unless it is renewed: milliseconds
/// since 1970, as text. It goes with its folder when this value is dropped.
pub(super) struct LeaseFile {
    folder: TempDir,
    /// What the file has, or `None` if there is no file.
    deadline: Option<u128>,
}

impl LeaseFile {
    pub(super) fn new(left: Duration) -> io::Result<Self> {
        let folder = folder()?;
        let mut file = Self { folder, deadline: None };
        file.write(left)?;
        Ok(file)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("lease")
    }

    /// As [`write`](Self::write). If that fails, the file has an earlier deadline, which passes by itself. The program
    /// must not be left alone for it.
    pub(super) fn renew(&mut self, left: Duration) {
        _ = self.write(left);
    }

    /// Writes how much of the lease is left, if that has become more. Without a lease, removes the file.
    fn write(&mut self, left: Duration) -> io::Result<()> {
        let deadline = (!left.is_zero()).then(|| deadline(left));
        let is_news = match (self.deadline, deadline) {
            // The clock of the system is coarse, and may be set.
            (Some(before), Some(now)) => now.abs_diff(before) > 20,
            (before, now) => before.is_some() != now.is_some(),
        };
        if !is_news {
            return Ok(());
        }
        match deadline {
            Some(deadline) => replace(&self.path(), &deadline.to_string()),
            None => std::fs::remove_file(self.path()),
        }?;
        self.deadline = deadline;
        Ok(())
    }
}

/// A folder in memory, if the system has a place for that: there the file is quick, and a disk that is full or hangs does not
/// matter.
fn folder() -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("dlock-");
    if cfg!(target_os = "linux")
        && let Ok(folder) = builder.tempdir_in("/dev/shm")
    {
        return Ok(folder);
    }
    builder.tempdir()
}

/// Writes the file in one step, so that no script reads half of it.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, path)
}

/// The time at which a lease ends of which so much is left, in milliseconds since 1970.
pub(super) fn deadline(left: Duration) -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now + left).as_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_exists_while_the_lease_is_valid() {
        let mut file = LeaseFile::new(Duration::from_secs(30)).unwrap();
        let read = |file: &LeaseFile| std::fs::read_to_string(file.path()).unwrap().parse::<u128>();
        let first = read(&file).unwrap();
        file.write(Duration::from_secs(60)).unwrap();
        assert!((25_000..35_000).contains(&(read(&file).unwrap() - first)));
        file.write(Duration::ZERO).unwrap();
        assert!(!file.path().exists());
        file.write(Duration::ZERO).unwrap();
        let folder = file.path().parent().unwrap().to_owned();
        drop(file);
        assert!(!folder.exists());
    }
}
