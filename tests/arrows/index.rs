//! The index of promises and tests, against the sources.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of a workspace by their paths, with slashes.
type Sources = HashMap<String, String>;

/// The sources of these folders of a workspace.
pub(crate) fn sources(root: &Path, folders: &[&str]) -> Sources {
    let mut found = Sources::new();
    let mut ahead: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    while let Some(path) = ahead.pop() {
        if path.is_dir() {
            ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    found
}

/// Where the laws are listed by name.
const LAWS: &str = "lock-core/src/conformance/tables";
/// The files of the cases. A test in that folder checks that each case is tested.
const CASES: &str = "tests/src/primitives";
/// What stands before the name of a function, and before the name of a module with tests that a macro makes.
const DECLARATIONS: [&str; 3] = ["fn ", "each!(", "each! { "];

/// The tests and files that the index names and the sources do not have, and how many names there are.
pub(crate) fn missing(index: &str, sources: &Sources) -> (Vec<String>, usize) {
    let (mut missing, mut names) = (Vec::new(), 0);
    for proof in index.lines().flat_map(|line| line.split(['|', ';'])) {
        let kind = proof.split('`').next().and_then(|before| before.split_whitespace().next_back());
        let mut place = None;
        for word in proof.split('`').skip(1).step_by(2) {
            if word.contains('/') {
                place = Some(word);
                if below(sources, word).is_empty() {
                    missing.push(format!("{word} is no file"));
                }
            } else if let Some(name) = test(word, place.is_some()) {
                names += 1;
                let exists = match kind {
                    Some("law" | "laws") => is_law(sources, name),
                    Some("case" | "cases") => is_declared(sources, Some(&file_of_case(word)), name),
                    _ => is_declared(sources, place, name),
                };
                if !exists {
                    missing.push(format!("{name} is not where this line says: {proof}"));
                }
            }
        }
    }
    (missing, names)
}

fn is_law(sources: &Sources, name: &str) -> bool {
    let is_row = |line: &str| line.trim_start().strip_prefix(name) == Some(":");
    below(sources, LAWS).iter().any(|text| text.lines().any(is_row))
}

/// The file of a case, which is named with its group: `mutex::no_update_is_lost`.
fn file_of_case(word: &str) -> String {
    let (group, _) = word.split_once("::").unwrap_or_default();
    format!("{CASES}/{group}.rs")
}

/// Whether a test of this name is declared in this file or folder, or anywhere. A mention is no declaration.
fn is_declared(sources: &Sources, place: Option<&str>, name: &str) -> bool {
    let texts: Vec<&String> =
        place.map_or_else(|| sources.values().collect(), |place| below(sources, place));
    texts.iter().any(|text| declares(text, name))
}

fn declares(text: &str, name: &str) -> bool {
    let begins_with_it = |rest: &str| {
        let rest = rest.strip_prefix(name);
        rest.is_some_and(|rest| !rest.starts_with(|it: char| it.is_alphanumeric() || it == '_'))
    };
    let mut code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.any(|line| {
        DECLARATIONS.into_iter().any(|before| line.split(before).skip(1).any(begins_with_it))
    })
}

/// The texts of a file, or of the files in a folder. Paths of crates leave out `crates/`.
fn below<'a>(sources: &'a Sources, path: &str) -> Vec<&'a String> {
    let paths = [path.to_owned(), format!("crates/{path}")];
    let is_named = |file: &str| {
        let is_below =
            |path: &String| file.strip_prefix(path).is_some_and(|it| it.starts_with('/'));
        paths.iter().any(|path| file == path || is_below(path))
    };
    sources.iter().filter(|(file, _)| is_named(file)).map(|(_, text)| text).collect()
}

/// The name of a test, with or without its module. Without the place of the test before it, only several words are a
/// name.
fn test(word: &str, has_place: bool) -> Option<&str> {
    let name = word.rsplit("::").next()?;
    let is_name =
        name.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
    (is_name && (has_place || name.contains('_'))).then_some(name)
}

#[test]
fn a_name_is_looked_for_where_the_line_says() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let sources = Sources::from([
        file("crates/lock-a/src/b.rs", "fn it_works() {}"),
        file("tests/c/mod.rs", "async fn it_fails() {}"),
    ]);
    let found = |index: &str| missing(index, &sources).0.len();
    assert_eq!(found("| this | `lock-a/src/b.rs`: `it_works`; and `it_fails` |"), 0);
    assert_eq!(found("| this | `tests/c`: `c::it_fails` |"), 0);
    assert_eq!(found("| this | `tests/c/mod.rs`: `it_works`, `fails` |"), 2);
    assert_eq!(found("| this | `it_work`; `tests/d.rs`: `it_fails` |"), 3);
    assert_eq!(missing("| `it_works` | `T::f`, `DEL`, `plan` |", &sources).1, 1);
}

#[test]
fn a_law_is_in_the_tables_and_a_case_in_the_file_of_its_group() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let sources = Sources::from([
        file("crates/lock-core/src/conformance/tables/a.rs", "renewing {\n    it_lasts:\n"),
        file("tests/src/primitives/mutex.rs", "pub async fn it_waits<S: Stage>() {}"),
        file("tests/b.rs", "fn it_fails() {}"),
    ]);
    let found = |index: &str| missing(index, &sources).0.len();
    assert_eq!(found("| this | law `it_lasts`; cases `mutex::it_waits`, `mutex::it_waits` |"), 0);
    assert_eq!(found("| this | laws `it_fails`, `it_waits`; case `mutex::it_fails` |"), 3);
    assert_eq!(found("| this | case `rwlock::it_waits`; case `it_waits`; `it_lasts` |"), 3);
}

#[test]
fn a_mention_is_no_test() {
    let text = "// fn it_fails\nlet it_fails = 1; fn it_fails_again() {}\neach!(shut, closes);";
    let declared = |name: &str| declares(text, name);
    assert!(declared("it_fails_again") && declared("shut"));
    assert!(!declared("it_fails") && !declared("it_fails_aga") && !declared("closes"));
}
