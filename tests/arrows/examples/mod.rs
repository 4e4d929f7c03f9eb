//! Every public name has an example, or a link to one.
//!
//! A name is a type, trait, function, constant or module that is `pub`, and a member of a public trait. The lint
//! `unreachable_pub` makes sure that docs list what is `pub`. A name has an example if one of these holds:
//!
//! - its own docs have a code block;
//! - it belongs to a type or a trait, and a code block on that page, or on a page that the docs of the type link to,
//!   uses it: the docs of a type and of its members are one page;
//! - its docs link to a name or a page that has an example by the first two rules.
//!
//! Macros that define items count as text: the check reads the docs and the names in their definitions. A member of a
//! type that a macro takes as a parameter may be used by any page of the crate. The check leaves out an item whose docs
//! are a parameter of the macro.

mod links;
mod made_up;
mod names;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use names::{Name, names};

/// The names of several crates that have neither an example nor a link to one.
pub(crate) fn without(crates: &[Vec<Name>]) -> Vec<&Name> {
    let everywhere = Pages::of(crates.iter().flatten());
    let shown: BTreeSet<&Name> =
        crates.iter().flat_map(|names| shown(names, &everywhere)).collect();
    let targets = links::Targets::of(shown.iter().copied());
    let lacks = |name: &&Name| !shown.contains(name) && !targets.are_in(name);
    crates.iter().flatten().filter(lacks).collect()
}

/// The names of one crate that have an example of their own or on a page of their type.
fn shown<'a>(names: &'a [Name], everywhere: &Pages<'_>) -> Vec<&'a Name> {
    let pages = Pages::of(names);
    let all: String = pages.0.values().map(String::as_str).collect();
    let is_shown = |name: &&Name| {
        let on_page = || match &name.owner {
            None => false,
            Some(_) if !name.has_known_owner() => uses(&all, &name.name),
            Some(owner) => {
                let here = uses(pages.code(owner), &name.name);
                let linked = || {
                    let types = names.iter().filter(|it| it.owner.is_none() && it.name == *owner);
                    let mut links = types.flat_map(links::pages);
                    links.any(|page| uses(everywhere.code(page), &name.name))
                };
                here || linked()
            }
        };
        !code(&name.docs).is_empty() || on_page()
    };
    names.iter().filter(is_shown).collect()
}

/// The code blocks on each page of docs, by the name of its type, trait, function or module.
struct Pages<'a>(BTreeMap<&'a str, String>);

impl<'a> Pages<'a> {
    fn of(names: impl IntoIterator<Item = &'a Name>) -> Self {
        let mut pages = BTreeMap::<&str, String>::new();
        for name in names {
            pages.entry(name.page()).or_default().push_str(&code(&name.docs));
        }
        Self(pages)
    }

    fn code(&self, page: &str) -> &str {
        self.0.get(page).map_or("", String::as_str)
    }
}

/// The lines of the code blocks in these docs.
fn code(docs: &str) -> String {
    let mut inside = false;
    let mut code = String::new();
    for line in docs.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if inside {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// Whether this code calls, names or implements the member.
fn uses(code: &str, member: &str) -> bool {
    code.match_indices(member).any(|(at, _)| {
        let before = &code[..at];
        let after = code[at + member.len()..].chars().next();
        let ends = !after.is_some_and(|it| it.is_alphanumeric() || it == '_');
        ends && [".", "::", "fn ", "type ", "const "].iter().any(|it| before.ends_with(it))
    })
}
