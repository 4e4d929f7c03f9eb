//! The file by which a script knows that its lock is held: `LOCK_FILE`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

/// A file that exists while the lease is valid. Its text is the time at which the lease ends unless `dlock` renews it,
/// in milliseconds since 1970. The drop of this value removes the file and its folder.
pub(super) struct LeaseFile {
    folder: TempDir,
    /// The deadline in the file, or `None` if there is no file.
    deadline: Option<u128>,
}

impl LeaseFile {
    pub(super) fn new(left: Duration) -> io::Result<Self> {
        let folder = folder()?;
        let mut file = Self { folder, deadline: None };
        // No script knows the file yet.
        file.write(left, |path, text| std::fs::write(path, text))?;
        Ok(file)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("lease")
    }

    /// As [`write`](Self::write). If that fails, the file keeps an earlier deadline, which passes by itself. So the
    /// failure is no reason to leave the program alone.
    pub(super) fn renew(&mut self, left: Duration) {
        _ = self.write(left, replace);
    }

    /// Writes the deadline of the lease by `put`, if it has moved. Without a lease, removes the file.
    fn write(
        &mut self,
        left: Duration,
        put: impl FnOnce(&Path, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        let deadline = (!left.is_zero()).then(|| deadline(left));
        let is_news = match (self.deadline, deadline) {
            // The clock of the system is coarse, and users may set it.
            (Some(before), Some(now)) => now.abs_diff(before) > 20,
            (before, now) => before.is_some() != now.is_some(),
        };
        if !is_news {
            return Ok(());
        }
        match deadline {
            Some(deadline) => put(&self.path(), &deadline.to_string()),
            None => std::fs::remove_file(self.path()),
        }?;
        self.deadline = deadline;
        Ok(())
    }
}

impl Drop for LeaseFile {
    /// Removes the file and the folder by two calls. If a script has put other files into the folder, the folder
    /// removes itself.
    fn drop(&mut self) {
        if self.deadline.is_some() {
            _ = std::fs::remove_file(self.path());
        }
        let is_gone = std::fs::remove_dir(self.folder.path()).is_ok();
        self.folder.disable_cleanup(is_gone);
    }
}

/// A folder in memory, if the system has a place for such folders: a write there is quick, and does not depend on a
/// disk that may be full or hang.
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

/// The time at which a lease with the rest `left` ends, in milliseconds since 1970.
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
        file.write(Duration::from_secs(60), replace).unwrap();
        assert!((25_000..35_000).contains(&(read(&file).unwrap() - first)));
        file.write(Duration::ZERO, replace).unwrap();
        assert!(!file.path().exists());
        file.write(Duration::ZERO, replace).unwrap();
    }

    #[test]
    fn the_folder_goes_with_everything_in_it() {
        for (left, more) in [(30, None), (30, Some("more")), (0, None)] {
            let file = LeaseFile::new(Duration::from_secs(left)).unwrap();
            let folder = file.path().parent().unwrap().to_owned();
            if let Some(more) = more {
                std::fs::write(folder.join(more), "").unwrap();
            }
            assert!(folder.exists());
            drop(file);
            assert!(!folder.exists(), "{left} {more:?}");
        }
    }
}
