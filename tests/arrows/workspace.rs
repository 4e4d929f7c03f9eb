//! The answers of cargo about the workspace, without network access.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The members of the workspace.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    packages: Vec<Package>,
    /// For every package of `Cargo.lock`, the names of the packages that it may need.
    locked: HashMap<String, BTreeSet<String>>,
}

/// One member, as its manifest describes it.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) published: bool,
    /// Of every kind: normal, optional, for building, for tests, for one platform.
    pub(crate) dependencies: BTreeSet<String>,
    /// The dependencies that are always built, for any user and any features.
    pub(crate) required: BTreeSet<String>,
    /// The dependencies that a user builds with some feature.
    pub(crate) shipped: BTreeSet<String>,
    pub(crate) default_features: Vec<String>,
}

impl Workspace {
    pub(crate) fn load() -> Self {
        let text = cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]);
        let metadata: Value = serde_json::from_str(&text).unwrap();
        let packages = list(&metadata["packages"]).iter().map(Package::read).collect();
        let root = PathBuf::from(text_of(&metadata["workspace_root"]));
        let locked = read_lock(&fs::read_to_string(root.join("Cargo.lock")).unwrap());
        Self { root, packages, locked }
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

    /// These packages, and all that they may need in turn, on any platform.
    pub(crate) fn reach(&self, names: &BTreeSet<String>) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut ahead: Vec<&String> = names.iter().collect();
        while let Some(name) = ahead.pop() {
            if reached.insert(name.clone()) {
                let Some(more) = self.locked.get(name) else { panic!("{name} is not locked") };
                ahead.extend(more);
            }
        }
        reached
    }
}

impl Package {
    fn read(package: &Value) -> Self {
        let manifest = Path::new(text_of(&package["manifest_path"]));
        let named = |keep: fn(&Value) -> bool| {
            let kept = list(&package["dependencies"]).iter().filter(|it| keep(it));
            kept.map(|it| text_of(&it["name"]).to_owned()).collect()
        };
        let default = package["features"]["default"].as_array();
        Self {
            name: text_of(&package["name"]).to_owned(),
            folder: manifest.parent().unwrap().to_owned(),
            // `null` means everywhere; a package that may go to no registry has an empty list.
            published: package["publish"].as_array().is_none_or(|places| !places.is_empty()),
            dependencies: named(|_| true),
            required: named(|it| it["kind"] != "dev" && it["optional"] == false),
            shipped: named(|it| it["kind"] != "dev"),
            default_features: default
                .into_iter()
                .flatten()
                .map(|feature| text_of(feature).to_owned())
                .collect(),
        }
    }
}

/// Versions are left out: packages of one name count as one.
fn read_lock(text: &str) -> HashMap<String, BTreeSet<String>> {
    let mut locked = HashMap::<String, BTreeSet<String>>::new();
    for package in text.split("[[package]]").skip(1) {
        let quoted = |line: &str| Some(line.split('"').nth(1)?.split(' ').next()?.to_owned());
        let mut lines = package.lines().map(str::trim);
        let name = lines.find(|line| line.starts_with("name = ")).and_then(quoted).unwrap();
        let needs = lines.skip_while(|line| *line != "dependencies = [").skip(1);
        let needs = needs.take_while(|line| *line != "]").filter_map(quoted);
        locked.entry(name).or_default().extend(needs);
    }
    locked
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
