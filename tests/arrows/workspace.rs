//! What cargo says about the workspace, without asking the network.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The members of the workspace.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    packages: Vec<Package>,
}

/// One member, as its manifest describes it.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) published: bool,
    /// Of every kind: normal, optional, for building, for tests, for one platform.
    pub(crate) dependencies: BTreeSet<String>,
    pub(crate) default_features: Vec<String>,
}

impl Workspace {
    pub(crate) fn load() -> Self {
        let text = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
        let metadata: Value = serde_json::from_str(&text).unwrap();
        let packages = list(&metadata["packages"]).iter().map(Package::read).collect();
        Self { root: text_of(&metadata["workspace_root"]).into(), packages }
    }

    pub(crate) fn packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter()
    }

    #[track_caller]
    pub(crate) fn package(&self, name: &str) -> &Package {
        match self.packages.iter().find(|package| package.name == name) {
            Some(package) => package,
            None => panic!("the workspace has no package {name}"),
        }
    }
}

impl Package {
    fn read(package: &Value) -> Self {
        let manifest = Path::new(text_of(&package["manifest_path"]));
        let dependencies = list(&package["dependencies"]);
        let default = package["features"]["default"].as_array();
        Self {
            name: text_of(&package["name"]).to_owned(),
            folder: manifest.parent().unwrap().to_owned(),
            // `null` means everywhere; a package that may go to no registry has an empty list.
            published: package["publish"].as_array().is_none_or(|places| !places.is_empty()),
            dependencies: dependencies.iter().map(|it| text_of(&it["name"]).to_owned()).collect(),
            default_features: default
                .into_iter()
                .flatten()
                .map(|feature| text_of(feature).to_owned())
                .collect(),
        }
    }
}

/// The names of all packages that are built for this one on this platform, itself included.
pub(crate) fn tree(package: &str, options: &[&str]) -> BTreeSet<String> {
    let fixed = ["tree", "--offline", "--package", package, "--prefix", "none", "--format", "{p}"];
    let text = cargo(&[&fixed, options].concat());
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn cargo(args: &[&str]) -> String {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(&program)
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap_or_else(|error| panic!("cannot run {program:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {args:?} failed:\n{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

#[track_caller]
fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}
