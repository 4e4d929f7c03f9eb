//! The source of the programs of etcd.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::install::{Cache, Programs, on_path, unpack_packages};

const PROGRAMS: Programs = Programs {
    server: "etcd 3.4 or newer",
    cache: "etcd",
    variable: "ETCD_PROGRAMS",
    needed: &["etcd", "etcdctl"],
    candidates,
    unpack,
};

/// The folder of `etcd` and `etcdctl`.
///
/// It is the one that the environment variable `ETCD_PROGRAMS` names, or the one on the `PATH`, or the one that an
/// earlier call has put under the target folder. If there is none, the packages that apt offers are unpacked there.
/// Nothing is installed, and no service is started.
///
/// # Panics
///
/// If there is none and none could be fetched.
pub fn etcd_programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| PROGRAMS.folder())
}

fn candidates() -> Vec<PathBuf> {
    let on_path = on_path(&["etcd"]).filter_map(|it| Some(it.parent()?.to_owned()));
    on_path.chain([Cache::ready(PROGRAMS.cache).join("usr/bin")]).collect()
}

fn unpack(cache: &Cache) -> Result<(), String> {
    // Only the scripts of the package, which do not run here, need more than the C library.
    let without = ["adduser", "passwd", "debconf", "perl", "libperl", "init-system-helpers"];
    unpack_packages(cache, &["etcd-server", "etcd-client"], &without)
}
