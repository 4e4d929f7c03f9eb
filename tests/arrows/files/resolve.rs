//! From paths to the files that define their items.

use std::collections::{BTreeSet, HashMap};

use super::Graph;
use super::collect::{Crate, Kind, Meaning, Mention, Module};

/// The most uses that may lead from one to the next. More of them go around in circles.
const LONGEST_CHAIN: u32 = 16;

/// The target of a path, as far as it was followed.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    Module(usize),
    /// An item, and the name behind it: that of a variant, or one that an `impl` defines.
    Item(usize, Option<String>),
    /// An item that a macro in this module may have made.
    Made(usize),
    /// An item of another crate, or a name that is no item.
    Outside,
    Nowhere,
}

pub(super) fn graph(of: &Crate) -> Graph {
    let resolver = Resolver::new(of);
    let mut graph = Graph::new();
    for (at, module) in of.modules.iter().enumerate() {
        let found = graph.entry(module.file.clone()).or_default();
        for mention in &module.mentions {
            for file in resolver.files(at, mention) {
                found.entry(file).or_insert_with(|| mention.path.join("::"));
            }
        }
        for path in &module.exports {
            for file in resolver.traits_used(at, path) {
                found.entry(file).or_insert_with(|| path.join("::"));
            }
        }
        found.remove(&module.file);
    }
    graph
}

struct Resolver<'c> {
    of: &'c Crate,
    /// The files in which an `impl` defines this name for this item.
    defined: HashMap<(usize, String), BTreeSet<String>>,
}

impl<'c> Resolver<'c> {
    fn new(of: &'c Crate) -> Self {
        let mut resolver = Self { of, defined: HashMap::new() };
        let mut defined = HashMap::<_, BTreeSet<String>>::new();
        for (at, module) in of.modules.iter().enumerate() {
            for block in &module.impls {
                for place in resolver.resolve(at, &block.of, 0) {
                    let Place::Item(item, _) = place else { continue };
                    for name in &block.defines {
                        let files = defined.entry((item, name.clone())).or_default();
                        files.insert(module.file.clone());
                    }
                }
            }
        }
        resolver.defined = defined;
        resolver
    }

    /// The files that define the target of a path.
    fn files(&self, module: usize, mention: &Mention) -> BTreeSet<String> {
        let mut places = self.resolve(module, &mention.path, 0);
        if let ([name], Kind::Macro) = (mention.path.as_slice(), mention.kind)
            && let Some(macros) = self.of.macros.get(name)
            && !places.iter().any(|place| matches!(place, Place::Item(..)))
        {
            places.extend(macros.iter().map(|&item| Place::Item(item, None)));
        }
        let path = mention.path.join("::");
        let here = &self.of.modules[module].file;
        let mut files = BTreeSet::new();
        for place in places {
            match place {
                Place::Item(item, behind) => {
                    files.insert(self.of.items[item].file.clone());
                    let key = behind.map(|name| (item, name));
                    files.extend(
                        key.and_then(|key| self.defined.get(&key)).into_iter().flatten().cloned(),
                    );
                }
                Place::Module(_) if mention.kind != Kind::Glob => {}
                Place::Made(at) | Place::Module(at) => {
                    files.insert(self.of.modules[at].file.clone());
                }
                Place::Nowhere if mention.kind == Kind::Perhaps => {}
                Place::Nowhere => panic!("{here} names {path}, and there is none"),
                Place::Outside => {}
            }
        }
        files
    }

    /// The files of those re-exported traits whose methods the module calls itself.
    fn traits_used(&self, module: usize, path: &[String]) -> BTreeSet<String> {
        let called = &self.of.modules[module].methods_called;
        let places = self.resolve(module, path, 0).into_iter();
        let items = places.filter_map(|place| match place {
            Place::Item(item, _) => Some(&self.of.items[item]),
            _ => None,
        });
        let used = items.filter(|item| !item.methods.is_disjoint(called));
        used.map(|item| item.file.clone()).collect()
    }

    fn resolve(&self, module: usize, path: &[String], depth: u32) -> Vec<Place> {
        let (first, rest) = path.split_first().expect("a path has a name");
        let mut places = match first.as_str() {
            "crate" => vec![Place::Module(0)],
            "self" => vec![Place::Module(module)],
            "super" => vec![self.parent(module)],
            // A name that the module does not have belongs to another crate, or to a variable.
            name => match self.look_up(module, name, depth) {
                found if found.is_empty() => vec![Place::Outside],
                found => found,
            },
        };
        for name in rest {
            places = places.into_iter().flat_map(|it| self.step(it, name, depth)).collect();
        }
        places
    }

    fn step(&self, place: Place, name: &str, depth: u32) -> Vec<Place> {
        match place {
            Place::Module(module) if name == "super" => vec![self.parent(module)],
            Place::Module(module) => match self.look_up(module, name, depth) {
                found if !found.is_empty() => found,
                _ if self.of.modules[module].expands => vec![Place::Made(module)],
                _ => vec![Place::Nowhere],
            },
            Place::Item(item, None) => vec![Place::Item(item, Some(name.to_owned()))],
            place => vec![place],
        }
    }

    /// Everything that a name may mean in a module. Empty if the module does not have the name.
    fn look_up(&self, module: usize, name: &str, depth: u32) -> Vec<Place> {
        if depth > LONGEST_CHAIN {
            return Vec::new();
        }
        let within = &self.of.modules[module];
        let mut found = Vec::new();
        for meaning in within.names.get(name).into_iter().flatten() {
            match meaning {
                Meaning::Module(child) => found.push(Place::Module(*child)),
                Meaning::Item(item) => found.push(Place::Item(*item, None)),
                Meaning::Use(path) if path.as_slice() == [name] => {}
                Meaning::Use(path) => found.extend(self.resolve(module, path, depth + 1)),
            }
        }
        if found.is_empty() { self.look_up_in_globs(module, within, name, depth) } else { found }
    }

    fn look_up_in_globs(&self, at: usize, module: &Module, name: &str, depth: u32) -> Vec<Place> {
        let mut found = Vec::new();
        for glob in &module.globs {
            for place in self.resolve(at, glob, depth + 1) {
                match place {
                    Place::Module(other) if other != at => {
                        found.extend(self.look_up(other, name, depth + 1));
                    }
                    Place::Item(item, None) if self.of.items[item].variants.contains(name) => {
                        found.push(place);
                    }
                    Place::Outside => found.push(place),
                    _ => {}
                }
            }
        }
        found
    }

    fn parent(&self, module: usize) -> Place {
        self.of.modules[module].parent.map_or(Place::Nowhere, Place::Module)
    }
}
