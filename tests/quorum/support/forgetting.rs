//! Servers that forget.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use lock_tests::{RedisServer, RedisServerBuilder};

/// How a server comes to have forgotten a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgetting {
    /// It crashes, and keeps nothing on disk.
    Crash,
    /// It crashes, and comes back with a copy from before.
    OldCopy,
    /// The machine loses power, and the end of what was written.
    TornLog,
    /// A client deletes everything.
    Flush,
}

impl Forgetting {
    pub(crate) fn options(self, server: RedisServerBuilder) -> RedisServerBuilder {
        if self == Self::TornLog { server.append_only() } else { server }
    }

    /// What happens before the lock is taken.
    pub(crate) fn prepare(self, server: &RedisServer) {
        if self == Self::OldCopy {
            assert_eq!(server.cli(&["SAVE"]).text(), "OK");
        }
    }

    /// What happens after it was taken, as the last thing that the server did.
    pub(crate) fn befall(self, server: &RedisServer) {
        match self {
            Self::Crash | Self::OldCopy => server.restart(),
            Self::TornLog => {
                server.kill();
                tear(&log_in(server.folder()).expect("there is a log"));
                server.restart();
            }
            Self::Flush => server.flushall(),
        }
    }
}

/// The append-only file, or that of its parts to which the server adds.
fn log_in(folder: &Path) -> Option<PathBuf> {
    let entries: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_log = |path: &&PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".incr.aof") || name.ends_with("appendonly.aof")
    };
    let here = entries.iter().find(is_log).cloned();
    here.or_else(|| entries.iter().filter(|path| path.is_dir()).find_map(|path| log_in(path)))
}

/// Cuts off the end: too little for a whole command, which the server then leaves out.
fn tear(log: &Path) {
    let file = File::options().write(true).open(log).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length - 5).unwrap();
}
