//! The links in docs, and what they lead to.

use std::collections::BTreeSet;

use super::Name;

/// Names that have an example, as links call them.
pub(super) struct Targets<'a> {
    /// Each name by itself.
    names: BTreeSet<&'a str>,
    /// Each member with its type or trait.
    members: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Targets<'a> {
    pub(super) fn of(names: impl Iterator<Item = &'a Name>) -> Self {
        let mut targets = Self { names: BTreeSet::new(), members: BTreeSet::new() };
        for name in names {
            match &name.owner {
                Some(owner) => targets.members.insert((owner, &name.name)),
                None => targets.names.insert(&name.name),
            };
        }
        targets
    }

    /// Whether the docs of this name link to one of them.
    pub(super) fn are_in(&self, name: &Name) -> bool {
        paths(name)
            .any(|(owner, last)| self.names.contains(last) || self.members.contains(&(owner, last)))
    }
}

/// The pages that the docs of this name link to.
pub(super) fn pages(name: &Name) -> impl Iterator<Item = &str> {
    // A path may end with the name of a page, or with that of a member of it.
    paths(name).flat_map(|(owner, last)| [owner, last])
}

/// The last two names of each path that the docs of this name link to.
fn paths(name: &Name) -> impl Iterator<Item = (&str, &str)> {
    links(&name.docs).into_iter().filter_map(|link| {
        let path = link.split(['#', '(']).next()?;
        let (before, last) = path.rsplit_once("::").unwrap_or(("", path));
        let owner = match before.rsplit("::").next()? {
            "Self" => name.owner.as_deref().unwrap_or(&name.name),
            owner => owner,
        };
        Some((owner, last))
    })
}

/// The targets of the links: `[text](target)`, `` [`target`] `` and `[text]: target`.
fn links(docs: &str) -> Vec<&str> {
    let mut links = Vec::new();
    for (at, _) in docs.match_indices(']') {
        let (before, after) = (&docs[..at], &docs[at + 1..]);
        let target = match after.strip_prefix('(').and_then(|it| it.split_once(')')) {
            Some((target, _)) => Some(target),
            None => match after.strip_prefix(": ") {
                Some(target) => target.lines().next(),
                None => before.rsplit_once('[').map(|(_, text)| text),
            },
        };
        links.extend(target.map(|it| it.trim().trim_matches('`')));
    }
    links
}
