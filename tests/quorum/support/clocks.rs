//! Servers whose clocks can be set.
//!
//! Each runs with a small library that moves the time which it is told. That is made of C by `cc`, which is
//! there wherever Rust links its programs with it, as it does on Linux unless told otherwise. Elsewhere the
//! same is done to what a server reckons by its clock: the end of the lease.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lock_tests::{RedisServerBuilder, redis_server};
use tempfile::TempDir;

use super::Nodes;
use super::nodes::LOCK;

/// Servers, and a clock of each.
pub(crate) struct Clocks {
    pub(crate) nodes: Nodes,
    /// What moves them, if there is something.
    preload: Option<TempDir>,
}

impl Clocks {
    pub(crate) async fn of(count: usize, max_ttl: Duration) -> Self {
        let preload = preload();
        let number = Cell::new(0);
        let options = |server: RedisServerBuilder| {
            let number = number.replace(number.get() + 1);
            match &preload {
                Some(folder) => server.program(program(folder.path(), number)),
                None => server,
            }
        };
        let nodes = Nodes::with(count, max_ttl, options).await;
        Self { nodes, preload }
    }

    /// Sets a clock forward by an hour from what it was at first, or back.
    pub(crate) fn set(&self, number: usize, forward: bool) {
        const HOUR: i64 = 3_600;
        let server = &self.nodes.servers()[number];
        let Some(folder) = &self.preload else {
            let left = if forward { -1 } else { HOUR * 1_000 };
            server.cli(&["PEXPIRE", LOCK, &left.to_string()]);
            return;
        };
        let time = || server.cli(&["TIME"]).array()[0].text().parse::<i64>().unwrap();
        let before = time();
        let micros = if forward { HOUR } else { -HOUR } * 1_000_000;
        // In place: the server looks at this very file, and must not find it empty.
        let file = File::options().write(true).open(offset(folder.path(), number)).unwrap();
        file.write_all_at(&micros.to_ne_bytes(), 0).unwrap();
        assert!((time() - before).abs() > HOUR - 60, "the clock stands where it stood");
    }
}

/// A folder with what a server is to load first.
fn preload() -> Option<TempDir> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let folder = TempDir::with_prefix("clock-").unwrap();
    let source = folder.path().join("clock.c");
    fs::write(&source, include_str!("clock.c")).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(folder.path().join("clock.so")).arg(&source);
    match cc.output() {
        Ok(done) if done.status.success() => Some(folder),
        failed => {
            println!("no clocks that can be set, so leases are: {failed:?}");
            None
        }
    }
}

/// A program that is a server with a clock of its own.
fn program(folder: &Path, number: usize) -> PathBuf {
    fs::write(offset(folder, number), 0_i64.to_ne_bytes()).unwrap();
    let text = format!(
        "#!/bin/sh\nCLOCK_OFFSET='{}' LD_PRELOAD='{}' exec '{}' \"$@\"\n",
        offset(folder, number).display(),
        folder.join("clock.so").display(),
        redis_server().display(),
    );
    let path = folder.join(format!("server-{number}"));
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    path
}

fn offset(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("offset-{number}"))
}
