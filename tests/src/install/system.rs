//! Installing with the system's package manager, where that is allowed.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use super::cache::Cache;
use super::find::{find_redis_server, on_path};
use super::run::run;

/// Set to 1 (or true), it allows the installation; set to anything else, it forbids it.
pub(super) const VARIABLE: &str = "INSTALL_REDIS_SERVER";

const LIMIT: Duration = Duration::from_secs(600);

struct Manager {
    program: &'static str,
    needs_root: bool,
    /// The command that updates its lists, if that is a separate one.
    update: &'static [&'static str],
    install: &'static [&'static str],
    /// The possible names of the server's package.
    packages: &'static [&'static str],
}

const MANAGERS: [Manager; 8] = [
    Manager {
        program: "apt-get",
        needs_root: true,
        update: &["update"],
        install: &["install", "-y", "--no-install-recommends"],
        packages: &["redis-server", "valkey-server"],
    },
    Manager::with_usual_names("dnf", &["install", "-y"]),
    Manager::with_usual_names("microdnf", &["install", "-y"]),
    Manager::with_usual_names("yum", &["install", "-y"]),
    Manager::with_usual_names("apk", &["add", "--no-cache"]),
    Manager::with_usual_names("pacman", &["-Sy", "--noconfirm"]),
    Manager::with_usual_names("zypper", &["--non-interactive", "install"]),
    Manager { needs_root: false, ..Manager::with_usual_names("brew", &["install"]) },
];

impl Manager {
    const fn with_usual_names(program: &'static str, install: &'static [&'static str]) -> Self {
        Self { program, needs_root: true, update: &[], install, packages: &["redis", "valkey"] }
    }

    fn install(&self) -> Result<PathBuf, String> {
        if !self.update.is_empty() {
            run(self.program, self.update, LIMIT)?;
        }
        let mut reasons = Vec::new();
        for package in self.packages {
            let result = run(self.program, self.install.iter().chain([package]), LIMIT);
            match result.and_then(|_| find_redis_server().map_err(|missing| missing.to_string())) {
                Ok(path) => {
                    stop_service(package);
                    return Ok(path);
                }
                Err(why) => reasons.push(why),
            }
        }
        Err(reasons.join("; "))
    }
}

pub(super) fn install(_: &Cache) -> Result<PathBuf, String> {
    if !is_allowed(env::var_os(VARIABLE).as_deref(), env::var_os("CI").as_deref()) {
        return Err(format!("not allowed, because {VARIABLE} is not set to 1"));
    }
    let is_root = rustix::process::geteuid().is_root();
    let mut reasons = Vec::new();
    for manager in &MANAGERS {
        if on_path(&[manager.program]).next().is_none() {
            continue;
        }
        match manager.needs_root {
            true if !is_root => reasons.push(format!("{} needs root", manager.program)),
            // Homebrew refuses to work for root.
            false if is_root => reasons.push(format!("{} is not for root", manager.program)),
            _ => match manager.install() {
                Ok(path) => return Ok(path),
                Err(why) => reasons.push(why),
            },
        }
    }
    if reasons.is_empty() {
        reasons.push("there is none that is known here".to_owned());
    }
    Err(reasons.join("; "))
}

/// Whether the system may be changed: the variable says so, or it is a build machine.
///
/// To run tests is no reason by itself to install software for all users.
fn is_allowed(answer: Option<&OsStr>, ci: Option<&OsStr>) -> bool {
    match answer.filter(|answer| !answer.is_empty()) {
        Some(answer) => answer == "1" || answer == "true",
        None => ci == Some(OsStr::new("true")),
    }
}

/// Some packages start a server of their own, which is not wanted. There was none before, because
/// there was no program.
fn stop_service(package: &str) {
    let limit = Duration::from_secs(60);
    // Neither needs to exist, and the tests do not depend on it.
    if run("systemctl", ["disable", "--now", package], limit).is_err() {
        _ = run("service", [package, "stop"], limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(answer: Option<&str>, ci: Option<&str>) -> bool {
        super::is_allowed(answer.map(OsStr::new), ci.map(OsStr::new))
    }

    #[test]
    fn the_system_is_changed_only_where_that_is_allowed() {
        assert!(!is_allowed(None, None));
        assert!(is_allowed(Some("1"), None));
        assert!(is_allowed(None, Some("true")));
        for other in ["", "0", "false", "no"] {
            assert!(!is_allowed(Some(other), None), "{other:?}");
            assert!(!is_allowed(None, Some(other)), "{other:?}");
        }
    }

    #[test]
    fn the_variable_goes_before_that_of_a_build_machine() {
        assert!(!is_allowed(Some("0"), Some("true")));
        assert!(is_allowed(Some(""), Some("true")));
    }
}
