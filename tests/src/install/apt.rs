//! Debian, Ubuntu and related systems: unpacks packages without installing them.
//!
//! This needs no rights, starts no service, and does not change the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cache::Cache;
use super::find::on_path;
use super::run::run_in;

const LIMIT: Duration = Duration::from_secs(300);

/// A server's package, and the one that its program may be in.
const PACKAGES: [[&str; 2]; 2] =
    [["redis-server", "redis-tools"], ["valkey-server", "valkey-tools"]];

pub(super) fn unpack(cache: &Cache) -> Result<PathBuf, String> {
    with_lists(cache, |apt| apt.fetch())
}

/// Unpacks packages into the content of a cache, with those that they need and that the system lacks, but for those
/// whose names begin as one of `without`.
pub(crate) fn unpack_packages(
    cache: &Cache,
    packages: &[&str],
    without: &[&str],
) -> Result<(), String> {
    with_lists(cache, |apt| apt.unpack(packages, without))
}

fn with_lists<T>(
    cache: &Cache,
    fetch: impl Fn(&Apt<'_>) -> Result<T, String>,
) -> Result<T, String> {
    if on_path(&["apt-get"]).next().is_none() || on_path(&["dpkg-deb"]).next().is_none() {
        return Err("no apt-get and dpkg-deb here".to_owned());
    }
    let system = Apt { options: Vec::new(), cache };
    fetch(&system).or_else(|why| {
        // The system's lists may be empty, as in a container image, or out of date. Only root may
        // update them, but every user may have lists of their own.
        let own = Apt { options: own_lists(&cache.scratch())?, cache };
        own.run(&["update"])?;
        fetch(&own).map_err(|again| format!("{why}; with fresh lists: {again}"))
    })
}

struct Apt<'a> {
    options: Vec<String>,
    cache: &'a Cache,
}

impl Apt<'_> {
    fn run(&self, args: &[&str]) -> Result<String, String> {
        let args = self.options.iter().map(String::as_str).chain(args.iter().copied());
        run_in(&self.cache.scratch(), "apt-get", args, LIMIT)
    }

    fn fetch(&self) -> Result<PathBuf, String> {
        let mut reasons = Vec::new();
        for package in PACKAGES {
            match self.fetch_package(package) {
                Ok(path) => return Ok(path),
                Err(why) => reasons.push(why),
            }
        }
        Err(reasons.join("; "))
    }

    fn fetch_package(&self, [server, tools]: [&str; 2]) -> Result<PathBuf, String> {
        self.unpack(&[server, tools], &[])?;
        let content = self.cache.content();
        let program = Path::new("usr/bin").join(server);
        if !content.join(&program).is_file() {
            return Err(format!("no {server} in its package"));
        }
        let mut libraries = Vec::new();
        library_folders(&content, Path::new(""), &mut libraries)?;
        self.cache.publish(&program, &libraries)
    }

    fn unpack(&self, wanted: &[&str], without: &[&str]) -> Result<(), String> {
        let install = ["install", "--simulate", "--no-install-recommends"];
        let plan = self.run(&[&install, wanted].concat())?;
        let mut packages = newly_installed(&plan);
        packages.retain(|name| !without.iter().any(|other| name.starts_with(other)));
        // Installed packages are not in the plan, though the PATH did not lead to them.
        packages.extend(wanted);
        packages.sort_unstable();
        packages.dedup();
        self.run(&[&["download"], &packages[..]].concat())?;
        let (scratch, content) = (self.cache.scratch(), self.cache.content());
        for archive in archives(&scratch)? {
            run_in(&scratch, "dpkg-deb", [Path::new("-x"), &archive, &content], LIMIT)?;
        }
        Ok(())
    }
}

/// The folders under `folder` that hold shared libraries.
pub(crate) fn folders_with_libraries(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // What cannot be read has no library of ours.
    _ = library_folders(folder, Path::new(""), &mut found);
    found.into_iter().map(|relative| folder.join(relative)).collect()
}

/// The missing packages, from lines such as `Inst liblzf1 (3.6-3 Debian [amd64])`.
///
/// A version in brackets after the name means an upgrade of an installed package. Those are left
/// out: a newer C library does not work with the system's loader.
fn newly_installed(plan: &str) -> Vec<&str> {
    plan.lines()
        .filter_map(|line| line.strip_prefix("Inst ")?.split_once(' '))
        .filter(|(_, rest)| !rest.starts_with('['))
        .map(|(name, _)| name)
        .collect()
}

/// Options that keep lists and archives in the scratch folder.
fn own_lists(scratch: &Path) -> Result<Vec<String>, String> {
    let mut options = Vec::new();
    for (option, folder) in [("Dir::State::Lists", "lists"), ("Dir::Cache", "cache")] {
        let path = scratch.join(folder);
        let needed = [path.join("partial"), path.join("archives/partial")];
        needed.iter().try_for_each(fs::create_dir_all).map_err(|error| error.to_string())?;
        options.extend(["-o".to_owned(), format!("{option}={}", path.display())]);
    }
    // The user that apt uses for downloads may not write here.
    options.extend(["-o".to_owned(), "APT::Sandbox::User=root".to_owned()]);
    Ok(options)
}

fn archives(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let paths = entries(folder)?.filter(|path| path.extension().is_some_and(|end| end == "deb"));
    Ok(paths.collect())
}

/// The folders under `folder`, relative to `base`, that hold shared libraries.
fn library_folders(base: &Path, folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let mut holds_library = false;
    for path in entries(&base.join(folder))? {
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && !path.is_symlink() {
            library_folders(base, &folder.join(name), found)?;
        } else {
            holds_library |= name.to_string_lossy().contains(".so");
        }
    }
    if holds_library {
        found.push(folder.to_owned());
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<impl Iterator<Item = PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upgrades_are_left_out_of_the_plan() {
        let plan = "Reading package lists...\n\
            Inst libc6 [2.36-9] (2.36-10 Debian [amd64])\n\
            Inst liblzf1 (3.6-3 Debian:12.5/stable [amd64])\n\
            Inst redis-server (5:7.0.15-1 Debian [amd64])\n\
            Conf liblzf1 (3.6-3 Debian:12.5/stable [amd64])\n";
        assert_eq!(newly_installed(plan), ["liblzf1", "redis-server"]);
    }

    #[test]
    fn folders_with_libraries_are_found() {
        let base = tempfile::tempdir().unwrap();
        let library = base.path().join("usr/lib/x86_64-linux-gnu");
        fs::create_dir_all(&library).unwrap();
        fs::create_dir_all(base.path().join("usr/bin")).unwrap();
        fs::write(library.join("liblzf.so.1"), "").unwrap();
        fs::write(base.path().join("usr/bin/redis-server"), "").unwrap();
        let mut found = Vec::new();
        library_folders(base.path(), Path::new(""), &mut found).unwrap();
        assert_eq!(found, [PathBuf::from("usr/lib/x86_64-linux-gnu")]);
    }
}
