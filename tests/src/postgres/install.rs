//! The source of the programs of PostgreSQL.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use crate::install::{Cache, Programs, folders_with_libraries, on_path, run, unpack_packages};

const PROGRAMS: Programs = Programs {
    server: "PostgreSQL 13 or newer",
    cache: "postgres",
    variable: "POSTGRES_PROGRAMS",
    needed: &["postgres", "initdb", "pg_basebackup"],
    candidates,
    unpack,
};

/// The folder of `postgres`, `initdb` and `pg_basebackup`.
///
/// It is the one that the environment variable `POSTGRES_PROGRAMS` names, or the one that the system has, or the one
/// that an earlier call has put under the target folder. If there is none, the packages that apt offers are unpacked
/// there. Nothing is installed, and no service is started.
///
/// # Panics
///
/// If there is none and none could be fetched.
pub fn postgres_programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| PROGRAMS.folder())
}

/// The folders of the `PATH`, and those of all versions that the system has or that were unpacked before.
fn candidates() -> Vec<PathBuf> {
    let on_path = on_path(&["postgres"]).filter_map(|it| Some(it.parent()?.to_owned()));
    let unpacked = Cache::ready(PROGRAMS.cache).join("usr/lib/postgresql");
    let versions = [PathBuf::from("/usr/lib/postgresql"), unpacked];
    on_path.chain(versions.iter().flat_map(|folder| versions_in(folder))).collect()
}

/// The folders of programs of all versions under this folder, the newest first.
fn versions_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut versions: Vec<_> = entries.map(|entry| entry.path().join("bin")).collect();
    versions.sort_unstable_by(|one, other| other.cmp(one));
    versions
}

fn unpack(cache: &Cache) -> Result<(), String> {
    // The package `postgresql` has no files, and names the one of the present version.
    let depends = run("apt-cache", ["depends", "postgresql"], Duration::from_secs(60))?;
    let server = version_in(&depends).ok_or("apt offers no server")?;
    let client = server.replace("postgresql-", "postgresql-client-");
    // The compiler of queries is a package of its own, large, and not used. Scripts of the system are not used either.
    let without =
        ["libllvm", "postgresql-common", "postgresql-client-common", "perl", "libperl", "ssl-cert"];
    unpack_packages(cache, &[server, &client, "libpq5"], &without)
}

/// The package of the server, from a line such as `  Depends: postgresql-15`.
fn version_in(depends: &str) -> Option<&str> {
    let packages = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let is_server = |name: &&str| {
        let version = name.strip_prefix("postgresql-");
        version.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
    };
    packages.map(str::trim).find(is_server)
}

/// The folders of the libraries that came with unpacked programs.
pub(super) fn libraries(programs: &Path) -> Option<String> {
    let root = Cache::ready(PROGRAMS.cache);
    if !programs.starts_with(&root) {
        return None;
    }
    let folders = folders_with_libraries(&root);
    Some(folders.iter().map(|it| it.display().to_string()).collect::<Vec<_>>().join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_the_server_is_found() {
        let depends = "postgresql\n  Depends: postgresql-common\n  Depends: postgresql-15\n  Suggests: postgresql-doc\n";
        assert_eq!(version_in(depends), Some("postgresql-15"));
        assert_eq!(version_in(""), None);
    }
}
