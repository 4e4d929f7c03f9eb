//! The library that changes the time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

/// A folder with the library. It is deleted with the last clock.
#[derive(Debug)]
pub(super) struct Shim {
    folder: TempDir,
    faces: AtomicUsize,
}

impl Shim {
    /// The library of this process, if there can be one.
    pub(super) fn get() -> Option<Arc<Self>> {
        static SHIM: Mutex<Weak<Shim>> = Mutex::new(Weak::new());

        let mut shared = SHIM.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shim) = shared.upgrade() {
            return Some(shim);
        }
        let shim = Arc::new(Self { folder: compiled()?, faces: AtomicUsize::new(0) });
        *shared = Arc::downgrade(&shim);
        Some(shim)
    }

    /// A new path for the setting of a clock.
    pub(super) fn face(&self) -> PathBuf {
        let number = self.faces.fetch_add(1, Ordering::Relaxed);
        self.folder.path().join(format!("face-{number}"))
    }

    pub(super) fn object(&self) -> PathBuf {
        object(self.folder.path())
    }
}

fn compiled() -> Option<TempDir> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let folder = match TempDir::with_prefix("clock-") {
        Ok(folder) => folder,
        Err(error) => panic!("no temporary folder for clocks: {error}"),
    };
    let source = folder.path().join("clock.c");
    if let Err(error) = fs::write(&source, include_str!("clock.c")) {
        panic!("cannot write {}: {error}", source.display());
    }
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(object(folder.path())).arg(&source);
    match cc.output() {
        Ok(done) if done.status.success() => Some(folder),
        failed => {
            println!("no clocks that can be set, so the ends of keys are: {failed:?}");
            None
        }
    }
}

fn object(folder: &Path) -> PathBuf {
    folder.join("clock.so")
}
