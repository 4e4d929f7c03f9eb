//! The data of a server on disk.

use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

use super::RedisServer;

/// The files of the kit and the server beside the data.
const OTHERS: [&str; 2] = ["redis.conf", "redis.sock"];

/// A copy of all data of a server at one time.
#[derive(Debug)]
pub struct DataCopy(TempDir);

impl RedisServer {
    /// A copy of all present data of the server, for [`restore`](Self::restore).
    ///
    /// # Panics
    ///
    /// If the server does not run, or the copy cannot be written.
    #[track_caller]
    pub fn copy_data(&self) -> DataCopy {
        // A server that writes a log has everything in it, and reads nothing else.
        if !self.options.is_append_only() {
            assert_eq!(self.cli(&["SAVE"]).text(), "OK");
        }
        let copy = TempDir::with_prefix("copy-").and_then(|to| {
            copy(self.folder(), to.path())?;
            Ok(DataCopy(to))
        });
        copy.unwrap_or_else(|error| panic!("no copy of {}: {error}", self.folder().display()))
    }

    /// Puts a copy in place of the data of a killed server: it will [start](Self::restart) with that copy.
    ///
    /// # Panics
    ///
    /// If that cannot be done.
    #[track_caller]
    pub fn restore(&self, data: &DataCopy) {
        self.erase();
        if let Err(error) = copy(data.0.path(), self.folder()) {
            panic!("cannot restore {}: {error}", self.folder().display());
        }
    }

    /// Deletes all data of a killed server: it will [start](Self::restart) empty.
    ///
    /// # Panics
    ///
    /// If that cannot be done.
    #[track_caller]
    pub fn erase(&self) {
        if let Err(error) = erase(self.folder()) {
            panic!("cannot erase {}: {error}", self.folder().display());
        }
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if OTHERS.iter().any(|other| *other == name) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::create_dir(to.join(&name))?;
            copy(&path, &to.join(&name))?;
        } else {
            fs::copy(&path, to.join(&name))?;
        }
    }
    Ok(())
}

fn erase(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if OTHERS.iter().any(|other| *other == entry.file_name()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
