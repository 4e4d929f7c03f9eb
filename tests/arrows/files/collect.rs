//! The definitions in the files of a crate, and the paths that the files name. Nothing is resolved
//! here.

use std::collections::{HashMap, HashSet};

use syn::ext::IdentExt as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Ident, ImplItem, Item, ItemMod, ItemUse, Meta, Type, UseTree, Visibility};

use super::Sources;
use super::tokens::{self, Word};

pub(super) type Names = Vec<String>;

/// The modules and items of a crate. The first module is the root.
#[derive(Default)]
pub(super) struct Crate {
    pub(super) modules: Vec<Module>,
    pub(super) items: Vec<Defined>,
    /// The macros of the crate. In the scope of its text, a macro may be named without a path.
    pub(super) macros: HashMap<String, Vec<usize>>,
}

#[derive(Default)]
pub(super) struct Module {
    pub(super) file: String,
    pub(super) parent: Option<usize>,
    pub(super) names: HashMap<String, Vec<Meaning>>,
    pub(super) globs: Vec<Names>,
    pub(super) mentions: Vec<Mention>,
    pub(super) exports: Vec<Names>,
    pub(super) methods_called: HashSet<String>,
    pub(super) impls: Vec<Impl>,
    /// A macro is called in place of items, so the module may have items that no text names.
    pub(super) expands: bool,
}

pub(super) enum Meaning {
    Module(usize),
    Item(usize),
    Use(Names),
}

/// An item, and the names that its text defines.
pub(super) struct Defined {
    pub(super) file: String,
    pub(super) variants: HashSet<String>,
    pub(super) methods: HashSet<String>,
}

pub(super) struct Impl {
    pub(super) of: Names,
    pub(super) defines: Vec<String>,
}

pub(super) struct Mention {
    pub(super) path: Names,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Item,
    Macro,
    /// Everything in a module.
    Glob,
    /// The possible items of a macro call, which are defined elsewhere.
    Perhaps,
}

impl Crate {
    pub(super) fn read(sources: &Sources) -> Self {
        let mut result = Self::default();
        let file = "lib.rs".to_owned();
        result.modules.push(Module { file: file.clone(), ..Module::default() });
        let folder = String::new();
        let mut collector =
            Collector { sources, result: &mut result, module: 0, folder, this: Vec::new() };
        collector.read_file(&file);
        result
    }
}

struct Collector<'a> {
    sources: &'a Sources,
    result: &'a mut Crate,
    module: usize,
    /// The folder of the files of the module's children.
    folder: String,
    /// The meaning of `Self`.
    this: Names,
}

impl Collector<'_> {
    fn read_file(&mut self, file: &str) {
        let text = &self.sources[file];
        let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        self.visit_file(&parsed);
    }

    fn here(&mut self) -> &mut Module {
        &mut self.result.modules[self.module]
    }

    fn name(&mut self, name: String, meaning: Meaning) {
        self.here().names.entry(name).or_default().push(meaning);
    }

    fn define(&mut self, name: &Ident, variants: HashSet<String>, methods: HashSet<String>) {
        let file = self.here().file.clone();
        self.result.items.push(Defined { file, variants, methods });
        self.name(text(name), Meaning::Item(self.result.items.len() - 1));
    }

    fn mention(&mut self, mut path: Names, kind: Kind) {
        if path[0] == "Self" {
            path.splice(..1, self.this.iter().cloned());
        }
        if !path.is_empty() {
            self.here().mentions.push(Mention { path, kind });
        }
    }

    fn enter(&mut self, item: &ItemMod) {
        let name = text(&item.ident);
        let file = match item.content {
            Some(_) => self.here().file.clone(),
            None => self.file_of(&name),
        };
        let folder = format!("{}{name}/", self.folder);
        self.result.modules.push(Module {
            file: file.clone(),
            parent: Some(self.module),
            ..Module::default()
        });
        let child = self.result.modules.len() - 1;
        self.name(name, Meaning::Module(child));
        let mut inside = Collector {
            sources: self.sources,
            result: &mut *self.result,
            module: child,
            folder,
            this: Vec::new(),
        };
        match &item.content {
            Some((_, items)) => items.iter().for_each(|item| inside.visit_item(item)),
            None => inside.read_file(&file),
        }
    }

    fn file_of(&self, name: &str) -> String {
        let ways = ["", "/mod"].map(|end| format!("{}{name}{end}.rs", self.folder));
        let Some(file) = ways.iter().find(|file| self.sources.contains_key(*file)) else {
            panic!("there is no file for {}{name}", self.folder)
        };
        file.clone()
    }

    fn import(&mut self, item: &ItemUse) {
        if item.leading_colon.is_some() {
            return;
        }
        let private = matches!(item.vis, Visibility::Inherited);
        let mut leaves = Vec::new();
        flatten(&item.tree, &mut Vec::new(), &mut leaves);
        for (path, name) in leaves {
            let kind = if name.is_some() { Kind::Item } else { Kind::Glob };
            match name {
                Some(name) => self.name(name, Meaning::Use(path.clone())),
                None => self.here().globs.push(path.clone()),
            }
            if private {
                self.mention(path, kind);
            } else {
                self.here().exports.push(path);
            }
        }
    }

    fn implement(&mut self, item: &syn::ItemImpl) {
        let Type::Path(of) = &*item.self_ty else { return };
        let names = item.items.iter().filter_map(|item| match item {
            ImplItem::Const(it) => Some(&it.ident),
            ImplItem::Fn(it) => Some(&it.sig.ident),
            ImplItem::Type(it) => Some(&it.ident),
            _ => None,
        });
        let defines = names.map(text).collect();
        self.this = names_of(&of.path);
        let of = self.this.clone();
        self.here().impls.push(Impl { of, defines });
    }

    fn register(&mut self, item: &Item) {
        let none = HashSet::new;
        match item {
            Item::Const(it) => self.define(&it.ident, none(), none()),
            Item::Enum(it) => {
                let variants = it.variants.iter().map(|variant| text(&variant.ident)).collect();
                self.define(&it.ident, variants, none());
            }
            Item::Fn(it) => self.define(&it.sig.ident, none(), none()),
            Item::Static(it) => self.define(&it.ident, none(), none()),
            Item::Struct(it) => self.define(&it.ident, none(), none()),
            Item::Trait(it) => {
                let methods = it.items.iter().filter_map(|item| match item {
                    syn::TraitItem::Fn(it) => Some(text(&it.sig.ident)),
                    _ => None,
                });
                self.define(&it.ident, none(), methods.collect());
                self.this = vec![text(&it.ident)];
            }
            Item::Type(it) => self.define(&it.ident, none(), none()),
            Item::Union(it) => self.define(&it.ident, none(), none()),
            Item::Impl(it) => self.implement(it),
            Item::Macro(it) => match &it.ident {
                Some(name) => {
                    self.define(name, none(), none());
                    let item = self.result.items.len() - 1;
                    self.result.macros.entry(text(name)).or_default().push(item);
                    if it.attrs.iter().any(|it| it.path().is_ident("macro_export")) {
                        let exported = self.result.modules[0].names.entry(text(name));
                        exported.or_default().push(Meaning::Item(item));
                    }
                }
                None => self.here().expands = true,
            },
            _ => {}
        }
    }

    fn words(&mut self, tokens: proc_macro2::TokenStream, kind: Kind) {
        for word in tokens::words(tokens) {
            match word {
                Word::Path(path) => self.mention(path, kind),
                Word::Macro(path) => self.mention(path, Kind::Macro),
                Word::Method(name) => {
                    self.here().methods_called.insert(name);
                }
            }
        }
    }
}

impl Visit<'_> for Collector<'_> {
    fn visit_item(&mut self, item: &Item) {
        if is_test(attributes(item)) {
            return;
        }
        match item {
            Item::Mod(item) => self.enter(item),
            Item::Use(item) => self.import(item),
            Item::Macro(it) if it.ident.is_some() => {
                self.register(item);
                self.words(it.mac.tokens.clone(), Kind::Perhaps);
            }
            item => {
                let outer = self.this.clone();
                self.register(item);
                visit::visit_item(self, item);
                self.this = outer;
            }
        }
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        if path.leading_colon.is_none() {
            self.mention(names_of(path), Kind::Item);
        }
        visit::visit_path(self, path);
    }

    fn visit_pat_ident(&mut self, pattern: &syn::PatIdent) {
        // A constant or a unit struct; every other name is that of a variable.
        if text(&pattern.ident).starts_with(char::is_uppercase) {
            self.mention(vec![text(&pattern.ident)], Kind::Item);
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_expr_method_call(&mut self, call: &syn::ExprMethodCall) {
        self.here().methods_called.insert(text(&call.method));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        if call.path.leading_colon.is_none() {
            self.mention(names_of(&call.path), Kind::Macro);
        }
        self.words(call.tokens.clone(), Kind::Item);
    }

    fn visit_attribute(&mut self, attribute: &Attribute) {
        match &attribute.meta {
            Meta::List(list) if !list.path.is_ident("cfg") => {
                self.words(list.tokens.clone(), Kind::Item)
            }
            Meta::NameValue(pair) => self.visit_expr(&pair.value),
            _ => {}
        }
    }

    /// The visibility of an item is no use of an item.
    fn visit_visibility(&mut self, _: &Visibility) {}
}

/// The paths of a use and the names they get. A glob gets no name.
fn flatten(tree: &UseTree, before: &mut Names, leaves: &mut Vec<(Names, Option<String>)>) {
    let with = |name: &Ident| match text(name) {
        name if name == "self" && !before.is_empty() => before.clone(),
        name => [before.as_slice(), &[name]].concat(),
    };
    match tree {
        UseTree::Path(path) => {
            before.push(text(&path.ident));
            flatten(&path.tree, before, leaves);
            before.pop();
        }
        UseTree::Name(name) => {
            let path = with(&name.ident);
            let last = path.last().cloned();
            leaves.push((path, last));
        }
        UseTree::Rename(it) => leaves.push((with(&it.ident), Some(text(&it.rename)))),
        UseTree::Glob(_) => leaves.push((before.clone(), None)),
        UseTree::Group(group) => group.items.iter().for_each(|it| flatten(it, before, leaves)),
    }
}

fn names_of(path: &syn::Path) -> Names {
    path.segments.iter().map(|segment| text(&segment.ident)).collect()
}

fn text(name: &Ident) -> String {
    name.unraw().to_string()
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}
