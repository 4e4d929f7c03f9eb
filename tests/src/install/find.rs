//! Looking for a server without changing anything.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fmt};

use super::cache::Cache;
use super::run::run;

const VARIABLE: &str = "REDIS_SERVER";
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// The oldest server that the tests are meant for.
const OLDEST: (u32, u32) = (6, 2);

/// The reason why no server was found.
#[derive(Clone, Debug)]
pub struct NotFound(Reason);

#[derive(Clone, Debug)]
enum Reason {
    /// The environment variable names a program that is no server.
    Misconfigured(String),
    Absent {
        unfit: Vec<String>,
    },
}

impl NotFound {
    /// Whether the environment names a server that does not work, so that another server would
    /// contradict that choice.
    pub fn is_misconfigured(&self) -> bool {
        matches!(self.0, Reason::Misconfigured(_))
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Misconfigured(why) => write!(f, "{VARIABLE} names no usable server: {why}"),
            Reason::Absent { unfit } => {
                f.write_str("no redis-server or valkey-server on the PATH")?;
                unfit.iter().try_for_each(|why| write!(f, " ({why})"))
            }
        }
    }
}

impl std::error::Error for NotFound {}

/// Looks for a server as [`redis_server`](crate::redis_server) does, but fetches none.
///
/// # Errors
///
/// If there is none.
pub fn find_redis_server() -> Result<PathBuf, NotFound> {
    if let Some(named) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        let path = PathBuf::from(named);
        return match check(&path) {
            Ok(()) => Ok(path),
            Err(why) => Err(NotFound(Reason::Misconfigured(why))),
        };
    }
    let mut unfit = Vec::new();
    for path in on_path(&PROGRAMS).chain(Cache::program()) {
        match check(&path) {
            Ok(()) => return Ok(path),
            Err(why) => unfit.push(why),
        }
    }
    Err(NotFound(Reason::Absent { unfit }))
}

/// The files of these names in the folders of the `PATH`, in the order of the names.
pub(crate) fn on_path(names: &[&str]) -> impl Iterator<Item = PathBuf> {
    let folders: Vec<PathBuf> =
        env::var_os("PATH").iter().flat_map(|path| env::split_paths(path)).collect();
    let candidates: Vec<PathBuf> =
        names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).collect();
    candidates.into_iter().filter(|path| path.is_file())
}

/// Whether the program runs, is a server, and is not too old.
pub(super) fn check(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let output = run(path, [OsStr::new("--version")], Duration::from_secs(30))
        .map_err(|why| format!("{shown}: {why}"))?;
    match version(&output) {
        Some(version) if version >= OLDEST => Ok(()),
        Some((major, minor)) => Err(format!("{shown} is version {major}.{minor}, too old")),
        None => Err(format!("{shown} is no redis-server: it says {:?}", first_line(&output))),
    }
}

fn first_line(output: &str) -> &str {
    output.trim().lines().next().unwrap_or_default()
}

/// Reads "Redis server v=7.0.15 sha=..." and its like.
fn version(output: &str) -> Option<(u32, u32)> {
    let (before, after) = output.split_once("v=")?;
    if !before.to_ascii_lowercase().ends_with("server ") {
        return None;
    }
    let mut numbers = after.split(['.', ' ']).map(|number| number.parse::<u32>().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64\n";
        assert_eq!(version(redis), Some((7, 0)));
        assert_eq!(version("Valkey server v=9.1.2 sha=0"), Some((9, 1)));
        assert_eq!(version("Server v=8.0.1 sha=0"), Some((8, 0)));
        assert_eq!(version("redis-cli 7.0.15"), None);
    }

    #[test]
    fn another_program_is_no_server() {
        let shell = on_path(&["sh"]).next().unwrap();
        assert!(check(&shell).is_err());
        assert!(check(Path::new("/nonexistent/redis-server")).is_err());
    }
}
