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

/// The tests and files that the index names and the sources do not have, and how many names there are.
pub(crate) fn missing(index: &str, sources: &Sources) -> (Vec<String>, usize) {
    let (mut missing, mut names) = (Vec::new(), 0);
    for line in index.lines() {
        for proof in line.split(['|', ';']) {
            let mut texts: Vec<&String> = sources.values().collect();
            for word in proof.split('`').skip(1).step_by(2) {
                if word.contains('/') {
                    texts = below(sources, word);
                    if texts.is_empty() {
                        missing.push(format!("{word} is no file"));
                    }
                } else if let Some(name) = test(word) {
                    names += 1;
                    if !texts.iter().any(|text| has_word(text, name)) {
                        missing.push(format!("{name} is not where this line says: {proof}"));
                    }
                }
            }
        }
    }
    (missing, names)
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

/// The name of a test, with or without its module: several words.
fn test(word: &str) -> Option<&str> {
    let name = word.rsplit("::").next()?;
    let is_name =
        name.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_');
    (is_name && name.contains('_')).then_some(name)
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|it: char| !it.is_alphanumeric() && it != '_').any(|it| it == word)
}

#[test]
fn a_name_is_looked_for_where_the_line_says() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let sources = Sources::from([
        file("crates/lock-a/src/b.rs", "fn it_works() {}"),
        file("tests/c/mod.rs", "fn it_fails() {}"),
    ]);
    let found = |index: &str| missing(index, &sources).0.len();
    assert_eq!(found("| this | `lock-a/src/b.rs`: `it_works`; law `it_fails` |"), 0);
    assert_eq!(found("| this | `tests/c`: `c::it_fails` |"), 0);
    assert_eq!(found("| this | `tests/c/mod.rs`: `it_works` |"), 1);
    assert_eq!(found("| this | law `it_work`; `tests/d.rs`: `it_fails` |"), 3);
    assert_eq!(missing("| `it_works` | `T::f`, `DEL`, `plan` |", &sources).1, 1);
}
