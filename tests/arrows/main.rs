//! The crates may depend on one another in one direction only, and so may the files of a crate. No crate
//! has unsafe code. No file is too long. The index of promises names tests that exist. Every public name has an
//! example.
//!
//! ```text
//!                 lock-core
//!                ▲    ▲    ▲
//!      lock-redis  lock-redlock  lock-sync      never on one another; nor do lock-etcd, lock-postgres and lock-telemetry,
//!                ▲    ▲    ▲
//!                 lock-any                     opens each of them by URL
//!                ▲    ▲    ▲
//!    dlock  examples/   benches/   tests/    a program, and unpublished members
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod examples;
mod files;
mod index;
mod workspace;

use std::collections::BTreeSet;
use std::fs;

use workspace::{Package, Workspace};

const CORE: &str = "lock-core";
const ABOVE_CORE: [&str; 6] =
    ["lock-etcd", "lock-postgres", "lock-redis", "lock-redlock", "lock-sync", "lock-telemetry"];
/// The crate above the other libraries. Of the published crates, only the program depends on it.
const TOP: &str = "lock-any";
/// The program, which may see every crate, and which no crate depends on.
const PROGRAM: &str = "dlock";
/// The crates whose files depend on one another in one direction only.
const WITHOUT_CYCLES: [&str; 2] = ["lock-redis", "lock-sync"];
/// The most lines of code that a file may have.
const LONGEST_FILE: usize = 400;
/// The most lines of code that a function may have.
const LONGEST_FUNCTION: usize = 40;
/// The folders of lock-sync whose files build on the bare lock, and not on the engine below it.
const ABOVE_THE_BARE_LOCK: [&str; 5] =
    ["mutex/", "recipes/", "reentrant/", "rwlock/", "semaphore/"];

#[test]
fn the_workspace_has_the_crates_that_the_rules_name() {
    let workspace = Workspace::load();
    let published: BTreeSet<&str> = workspace
        .packages()
        .filter(|package| package.published)
        .map(|it| it.name.as_str())
        .collect();
    let named: BTreeSet<&str> = ABOVE_CORE.into_iter().chain([CORE, TOP, PROGRAM]).collect();
    assert_eq!(published, named, "a crate without a rule here");
    for package in workspace.packages() {
        let folder = package.folder.strip_prefix(&workspace.root).unwrap();
        assert_eq!(
            folder.starts_with("crates"),
            package.published,
            "{} is misplaced",
            package.name
        );
        if package.published {
            assert_eq!(folder.file_name().unwrap(), package.name.as_str());
        }
    }
}

#[test]
fn the_core_depends_on_no_other_crate_of_the_workspace() {
    let workspace = Workspace::load();
    assert_eq!(within(&workspace, workspace.package(CORE)), BTreeSet::new());
}

#[test]
fn the_crates_above_the_core_depend_on_it_alone() {
    let workspace = Workspace::load();
    for name in ABOVE_CORE {
        let found = within(&workspace, workspace.package(name));
        assert_eq!(found, BTreeSet::from([CORE]), "{name}");
    }
}

#[test]
fn no_published_crate_depends_on_an_unpublished_one() {
    let workspace = Workspace::load();
    for package in workspace.packages().filter(|package| package.published) {
        for other in within(&workspace, package) {
            // Its tests run the built program, so they are in its package. Cargo publishes no dependency for tests that
            // has a path alone.
            if package.name == PROGRAM && !package.shipped.contains(other) {
                continue;
            }
            assert!(workspace.package(other).published, "{} depends on {other}", package.name);
        }
    }
}

#[test]
fn without_features_the_core_needs_no_runtime_and_no_client() {
    let workspace = Workspace::load();
    assert!(workspace.package(CORE).default_features.is_empty());
    let found = workspace.reach(&workspace.package(CORE).required);
    assert!(found.contains("futures-core"), "the lock was not read: {found:?}");
    for heavy in ["tokio", "tokio-postgres", "tonic", "redis", "mio", "socket2"] {
        assert!(!found.contains(heavy), "{CORE} needs {heavy}");
    }
}

#[test]
fn only_the_redis_backend_knows_redis() {
    let workspace = Workspace::load();
    assert!(workspace.package("lock-redis").required.contains("redis"));
    for name in [CORE, "lock-redlock", "lock-sync"] {
        let package = workspace.package(name);
        assert!(!workspace.reach(&package.shipped).contains("redis"), "{name} needs redis");
        assert!(!package.dependencies.contains("redis"), "{name} is tested with redis");
    }
}

#[test]
fn only_the_postgres_backend_knows_postgres() {
    let workspace = Workspace::load();
    assert!(workspace.package("lock-postgres").required.contains("tokio-postgres"));
    for name in [CORE, "lock-redis", "lock-redlock", "lock-sync"] {
        let reached = workspace.reach(&workspace.package(name).shipped);
        assert!(!reached.contains("tokio-postgres"), "{name} needs tokio-postgres");
    }
}

#[test]
fn only_the_etcd_backend_knows_grpc() {
    let workspace = Workspace::load();
    assert!(workspace.package("lock-etcd").required.contains("tonic"));
    for name in [CORE, "lock-postgres", "lock-redis", "lock-redlock", "lock-sync"] {
        let reached = workspace.reach(&workspace.package(name).shipped);
        assert!(!reached.contains("tonic"), "{name} needs tonic");
    }
}

/// A user needs no `protoc`: the messages of etcd are types of lock-etcd.
#[test]
fn no_published_crate_needs_a_compiler_of_protocols() {
    let workspace = Workspace::load();
    for package in workspace.packages().filter(|package| package.published) {
        let reached = workspace.reach(&package.shipped);
        for compiler in ["prost-build", "protobuf-codegen", "tonic-build", "tonic-prost-build"] {
            assert!(!reached.contains(compiler), "{} needs {compiler}", package.name);
        }
        assert!(!package.folder.join("build.rs").exists(), "{} has a build script", package.name);
    }
}

#[test]
fn no_crate_has_unsafe_code() {
    let workspace = Workspace::load();
    for package in workspace.packages().filter(|package| package.published) {
        let root = if package.name == PROGRAM { "src/main.rs" } else { "src/lib.rs" };
        let root = package.folder.join(root);
        let text = fs::read_to_string(&root).unwrap();
        let forbids = text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]");
        assert!(forbids, "{} does not forbid unsafe code", root.display());
    }
}

#[test]
fn the_files_of_a_crate_do_not_depend_on_one_another_in_a_circle() {
    let workspace = Workspace::load();
    for name in WITHOUT_CYCLES {
        let graph = files::graph(&files::sources(&workspace.package(name).folder));
        assert!(graph.len() > 20, "{name} was not read");
        let cycles = files::cycles(&graph);
        let described: Vec<String> = cycles.iter().map(|cycle| cycle.describe(&graph)).collect();
        assert!(cycles.is_empty(), "{name} has cycles:\n{}", described.join("\n"));
    }
}

#[test]
fn every_public_name_has_an_example_or_a_link_to_one() {
    let workspace = Workspace::load();
    let published = workspace.packages().filter(|package| package.published);
    let crates: Vec<_> = published
        .map(|package| examples::names(&package.folder, &files::sources(&package.folder)))
        .collect();
    assert!(crates.iter().map(Vec::len).sum::<usize>() > 500, "the crates were not read");
    let without: BTreeSet<String> = examples::without(&crates)
        .into_iter()
        .map(|name| format!("{}: {}", name.file, name.path()))
        .collect();
    assert!(without.is_empty(), "these names have no example: {without:?}");
}

#[test]
fn primitives_and_recipes_know_the_engine_by_the_bare_lock_alone() {
    let sources = files::sources(&Workspace::load().package("lock-sync").folder);
    for folder in ABOVE_THE_BARE_LOCK {
        assert!(sources.keys().any(|file| file.starts_with(folder)), "{folder} is not there");
        let found = files::naming(&sources, folder, "engine");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
fn no_primitive_uses_a_recipe() {
    let sources = files::sources(&Workspace::load().package("lock-sync").folder);
    for folder in ABOVE_THE_BARE_LOCK.iter().filter(|folder| **folder != "recipes/") {
        let found = files::naming(&sources, folder, "recipes");
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
fn no_file_is_too_long() {
    let folders = ["benches", "crates", "examples", "fuzz/fuzz_targets", "fuzz/src", "tests"];
    let sources = index::sources(&Workspace::load().root, &folders);
    assert!(sources.len() > 500, "the workspace was not read");
    let lines = sources.iter().map(|(file, text)| (file, lines_of_code(text)));
    let long: Vec<_> = lines.filter(|(_, lines)| *lines > LONGEST_FILE).collect();
    assert!(long.is_empty(), "files with too many lines of code: {long:?}");
}

#[test]
fn clippy_finds_functions_that_are_too_long() {
    let workspace = Workspace::load();
    let settings = fs::read_to_string(workspace.root.join("clippy.toml")).unwrap();
    let limit = format!("too-many-lines-threshold = {LONGEST_FUNCTION}");
    assert!(settings.lines().any(|line| line.trim() == limit), "clippy has another limit");
    let root = fs::read_to_string(workspace.root.join("Cargo.toml")).unwrap();
    let asks = root.lines().any(|line| line.trim() == "too_many_lines = \"warn\"");
    assert!(asks, "the workspace does not ask clippy");
    for package in workspace.packages() {
        let manifest = fs::read_to_string(package.folder.join("Cargo.toml")).unwrap();
        let lints = manifest.split("[lints]").nth(1).unwrap_or_default().trim_start();
        assert!(lints.starts_with("workspace = true"), "{} has lints of its own", package.name);
    }
}

#[test]
fn the_index_names_tests_that_exist() {
    let root = Workspace::load().root;
    let sources = index::sources(&root, &["crates", "tests"]);
    let page = fs::read_to_string(root.join("tests/PROMISES.md")).unwrap();
    let (missing, names) = index::missing(&page, &sources);
    assert!(names > 100, "the index was not read");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Without blank lines and comments.
fn lines_of_code(text: &str) -> usize {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// The members of the workspace on which a package depends, directly or not, including for its tests.
fn within<'w>(workspace: &'w Workspace, package: &'w Package) -> BTreeSet<&'w str> {
    let members: BTreeSet<&str> = workspace.packages().map(|member| member.name.as_str()).collect();
    package.dependencies.iter().map(String::as_str).filter(|name| members.contains(name)).collect()
}
