//! Servers that come as a folder of programs.

use std::env;
use std::path::{Path, PathBuf};

use super::cache::Cache;

/// The programs of a server, and where they may be.
pub(crate) struct Programs {
    /// What people call the server, and the oldest version that the tests are meant for.
    pub(crate) server: &'static str,
    /// The name of the folder for them under the target folder.
    pub(crate) cache: &'static str,
    /// The environment variable that names their folder.
    pub(crate) variable: &'static str,
    pub(crate) needed: &'static [&'static str],
    /// The folders in which they may be, the best first.
    pub(crate) candidates: fn() -> Vec<PathBuf>,
    /// Unpacks the packages that apt offers into the content of the cache.
    pub(crate) unpack: fn(&Cache) -> Result<(), String>,
}

impl Programs {
    /// The folder of the programs: the one that the environment names, or one of the system, or one that an earlier
    /// call has fetched, or one that this call fetches.
    ///
    /// # Panics
    ///
    /// If there is none and none could be fetched.
    pub(crate) fn folder(&self) -> PathBuf {
        match env::var_os(self.variable).filter(|value| !value.is_empty()) {
            Some(named) => {
                let folder = PathBuf::from(named);
                let is_complete = self.are_in(&folder);
                assert!(is_complete, "{} names no folder with {:?}", self.variable, self.needed);
                folder
            }
            None => self.found().unwrap_or_else(|| self.fetched()),
        }
    }

    fn found(&self) -> Option<PathBuf> {
        (self.candidates)().into_iter().find(|folder| self.are_in(folder))
    }

    fn are_in(&self, folder: &Path) -> bool {
        self.needed.iter().all(|program| folder.join(program).is_file())
    }

    fn fetched(&self) -> PathBuf {
        let Self { server, variable, .. } = self;
        let cache = Cache::open_for(self.cache).unwrap_or_else(|why| panic!("no {server}: {why}"));
        // Another process may have fetched them while this one waited for the cache.
        if let Some(folder) = self.found() {
            return folder;
        }
        let fetched = cache.clean().and_then(|()| (self.unpack)(&cache));
        match fetched.and_then(|()| cache.publish_content()) {
            Ok(()) => {
                self.found().unwrap_or_else(|| panic!("its packages lack one of {:?}", self.needed))
            }
            Err(why) => panic!(
                "there is no {server}, and none could be had: {why}. Install it, or name the folder of its programs in the \
                 environment variable {variable}."
            ),
        }
    }
}
