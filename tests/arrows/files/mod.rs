//! How the files of one crate depend on one another.
//!
//! A file depends on another file if its code reaches an item that the other file defines. The code reaches
//! an item by a path: in a `use`, a type, an expression, a pattern, a bound, or among the tokens of a macro.
//!
//! - Re-exports do not count at the file that re-exports. A path that leads through them leads to the file
//!   that defines the item. So a parent that only declares `mod child;` and says `pub use child::X;` does not
//!   depend on the child. It does as soon as its own code names `X`, or calls a method of a trait `X`.
//! - A module is no item. `use super::child;` alone reaches nothing; `child::X` reaches `X`.
//! - `T::name` reaches the type, and also the file with the `impl` that defines `name`. A call of a method on
//!   a value is not a path, and does not count: `impl` blocks of one type may stand in several files.
//! - Inline modules belong to the file that has them. Modules and functions under `#[cfg(test)]` do not
//!   count, nor do links in comments: a test may use everything.
//!
//! The check sees too much rather than too little: it reads all names of a file as if they were in scope in
//! the whole module, and every word in a macro as a path. It fails if a path of the crate leads nowhere.

mod collect;
mod made_up;
mod resolve;
mod tokens;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::fs;
use std::path::Path;

use collect::Crate;

/// The text of every file of a crate, by its path below `src`.
pub(crate) type Sources = BTreeMap<String, String>;

/// For every file, the files on which it depends, and one path in its code for each.
pub(crate) type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// Reads the sources of the package in this folder.
pub(crate) fn sources(package: &Path) -> Sources {
    let root = package.join("src");
    let mut sources = Sources::new();
    let mut ahead = vec![root.clone()];
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                ahead.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let parts = path.strip_prefix(&root).unwrap().iter();
                let name: Vec<_> = parts.map(|part| part.to_str().unwrap()).collect();
                sources.insert(name.join("/"), fs::read_to_string(&path).unwrap());
            }
        }
    }
    sources
}

/// The dependencies between the files of a crate.
pub(crate) fn graph(sources: &Sources) -> Graph {
    resolve::graph(&Crate::read(sources))
}

/// The files of a folder that name this module of the crate, each with a path that does.
pub(crate) fn naming(sources: &Sources, folder: &str, module: &str) -> Vec<String> {
    let all = Crate::read(sources);
    let inside = all.modules.iter().filter(|it| it.file.starts_with(folder));
    let named = inside.filter_map(|it| {
        let mut paths = it.mentions.iter().map(|mention| &mention.path).chain(&it.exports);
        let path = paths.find(|path| path.len() > 1 && path.iter().any(|name| name == module))?;
        Some(format!("{} names {}", it.file, path.join("::")))
    });
    named.collect()
}

/// Files that depend on one another in a circle, as many as possible.
pub(crate) struct Cycle {
    files: BTreeSet<String>,
    /// A shortest way around.
    way: Vec<String>,
}

/// All cycles of a crate. No file is in two of them.
pub(crate) fn cycles(graph: &Graph) -> Vec<Cycle> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|file| (file, reach(graph, file))).collect();
    let mut cycles = Vec::<Cycle>::new();
    for (file, reached) in &reach {
        let seen = cycles.iter().any(|cycle| cycle.files.contains(*file));
        if reached.contains(file) && !seen {
            let mutual = reached.iter().filter(|other| reach[**other].contains(file));
            let files: BTreeSet<String> = mutual.map(|&other| other.clone()).collect();
            let ways = files.iter().map(|file| way_around(graph, file));
            let way = ways.min_by_key(Vec::len).unwrap().into_iter().cloned().collect();
            cycles.push(Cycle { files, way });
        }
    }
    cycles
}

/// All files on which this one depends, directly or by way of others.
fn reach<'g>(graph: &'g Graph, file: &str) -> BTreeSet<&'g String> {
    let mut reached = BTreeSet::new();
    let mut ahead: Vec<&String> = graph[file].keys().collect();
    while let Some(file) = ahead.pop() {
        if reached.insert(file) {
            ahead.extend(graph[file].keys());
        }
    }
    reached
}

/// A shortest way from a file that is in a cycle back to it.
fn way_around<'g>(graph: &'g Graph, file: &'g String) -> Vec<&'g String> {
    let mut ahead = VecDeque::from([vec![file]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ahead.pop_front() {
        for next in graph[way[way.len() - 1]].keys() {
            let longer: Vec<&String> = way.iter().copied().chain([next]).collect();
            if next == file {
                return longer;
            }
            if seen.insert(next) {
                ahead.push_back(longer);
            }
        }
    }
    panic!("{file} is in no cycle");
}

impl Cycle {
    /// The files and a shortest way around, for the reader who breaks the cycle.
    pub(crate) fn describe(&self, graph: &Graph) -> String {
        let steps = self.way.windows(2).map(|step| {
            let path = &graph[&step[0]][&step[1]];
            format!("  {} names {path}, which is in {}", step[0], step[1])
        });
        format!("{self}\n{}", steps.collect::<Vec<_>>().join("\n"))
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: Vec<&str> = self.files.iter().map(String::as_str).collect();
        f.write_str(&files.join(", "))
    }
}
