//! Stored mutexes: no committed value is lost, no value is half seen, versions increase, every snapshot is a committed
//! value, and a stream of versions goes forward to the last one.
//!
//! Values are numbers that are unique in a run, and each value names the one that it was made of. So the values form a
//! chain. A write whose outcome is unknown, because the call said so, was dropped, or died with its process, may be a
//! link of the chain or not. If a value that is known to be stored is no link of the way back from the next such value,
//! it was lost.

mod reading;

use std::collections::HashMap;

use lock_core::{FencingToken, Instant};

use super::terms::Terms;
use super::unrest::Unrest;
use super::{Property, Violation};
use crate::chaos::Deployment;
use crate::chaos::history::{Event, Sight};
use reading::{Book, Name, Outcome, Sighting, Write};

pub(super) fn check(events: &[Event], terms: &Terms) -> Vec<Violation> {
    let (books, mut violations) = reading::read(events, terms);
    let unrest = Unrests {
        commits: terms.unrest(Property::Commits),
        snapshots: terms.unrest(Property::Snapshots),
        disquiet: terms.disquiet(),
    };
    for (key, book) in &books {
        let judge = Judge::new(book, terms, &unrest);
        let found = [judge.sights(), judge.old_sights(), judge.versions(), judge.chain()];
        let found = found.into_iter().flatten().chain(judge.streams()).chain(judge.ends());
        let tell = |Found { property, at, text }| Violation::new(property, (at, at), key, text);
        violations.extend(found.map(tell));
    }
    violations
}

/// The times in which something is not promised.
struct Unrests {
    commits: Unrest,
    snapshots: Unrest,
    /// In which a message or a timer may be late.
    disquiet: Unrest,
}

struct Found {
    property: Property,
    at: Instant,
    text: String,
}

/// What is known about one mutex.
struct Judge<'a> {
    book: &'a Book<'a>,
    terms: &'a Terms,
    unrest: &'a Unrests,
    of_value: HashMap<u64, &'a Write<'a>>,
    /// The writes that are known to be stored, by the times of the answers, each with its version, and with the write
    /// of the highest version so far.
    stored: Vec<Stored<'a>>,
}

#[derive(Clone, Copy)]
struct Stored<'a> {
    answered: Instant,
    version: FencingToken,
    write: &'a Write<'a>,
    highest: (FencingToken, &'a Write<'a>),
}

impl<'a> Judge<'a> {
    fn new(book: &'a Book<'a>, terms: &'a Terms, unrest: &'a Unrests) -> Self {
        let mut stored: Vec<Stored<'a>> = Vec::new();
        let mut answered: Vec<_> = book.writes.iter().filter_map(Write::stored).collect();
        answered.sort_by_key(|(answered, ..)| *answered);
        for (answered, version, write) in answered {
            let highest = match stored.last().map(|last| last.highest) {
                Some(highest) if highest.0 > version => highest,
                _ => (version, write),
            };
            stored.push(Stored { answered, version, write, highest });
        }
        let of_value = book.writes.iter().map(|write| (write.value, write)).collect();
        Self { book, terms, unrest, of_value, stored }
    }

    /// The highest version that was known to be stored before this time.
    fn floor(&self, before: Instant) -> Option<(FencingToken, &'a Write<'a>)> {
        let count = self.stored.partition_point(|stored| stored.answered < before);
        count.checked_sub(1).map(|last| self.stored[last].highest)
    }

    /// Whether this property was promised from one time to another, whichever comes first.
    fn promised(&self, property: Property, one: Instant, other: Instant) -> bool {
        let unrest = match property {
            Property::Snapshots => &self.unrest.snapshots,
            _ => &self.unrest.commits,
        };
        !unrest.touches(one.min(other), one.max(other))
    }

    /// Sights of half a value, of a value that no task has stored, or with another version.
    fn sights(&self) -> Vec<Found> {
        let all = self.book.sightings();
        let wrong = all.filter_map(|it| Some((it, self.wrong(it)?)));
        wrong
            .map(|(it, what)| Found {
                property: it.property(),
                at: it.at,
                text: format!("{} saw {what}", tell(it.name)),
            })
            .collect()
    }

    fn wrong(&self, sighting: &Sighting<'_>) -> Option<String> {
        let Sight { version, value } = sighting.sight;
        let Some(value) = value else { return Some("half a value".to_owned()) };
        if value == 0 {
            return version
                .map(|version| format!("the initial value as version {}", version.get()));
        }
        let Some(write) = self.of_value.get(&value).filter(|write| write.began <= sighting.at)
        else {
            return Some(format!("{value}, which no task has stored"));
        };
        let writer = tell(write.name);
        let Some(version) = version else {
            return Some(format!("{value} without a version, from {writer}"));
        };
        match write.outcome {
            Outcome::Not => Some(format!("{value}, which {writer} was told not to have stored")),
            // Over a quorum, a later holder may have stored it again.
            Outcome::Stored(_, stored)
                if version < stored || version > stored && !self.stores_again() =>
            {
                let (seen, stored) = (version.get(), stored.get());
                Some(format!("{value} as version {seen}, and {writer} stored it as {stored}"))
            }
            _ => None,
        }
    }

    fn stores_again(&self) -> bool {
        matches!(self.terms.deployment, Deployment::Quorum(_))
    }

    /// Sights of a version that is below one that was stored before the caller asked. (A stream may be behind.)
    fn old_sights(&self) -> Vec<Found> {
        let asked = self.book.sightings().filter_map(|it| Some((it, it.asked?)));
        let old = asked.filter_map(|(it, asked)| {
            let (version, write) = self.floor(asked)?;
            let is_old = it.sight.version.is_none_or(|seen| seen < version);
            (is_old && self.promised(it.property(), write.began, it.at)).then(|| Found {
                property: it.property(),
                at: it.at,
                text: format!(
                    "{} saw version {:?}, and {} had stored version {}",
                    tell(it.name),
                    it.sight.version.map(FencingToken::get),
                    tell(write.name),
                    version.get()
                ),
            })
        });
        old.collect()
    }

    /// Values whose version is not above that of a value that was stored before. One holder may give several values one
    /// version.
    fn versions(&self) -> Vec<Found> {
        let low = self.stored.iter().filter_map(|stored| {
            let (version, write) = self.floor(stored.write.began)?;
            let is_low = stored.version < version
                || stored.version == version && stored.write.name != write.name;
            let is_wrong = is_low && self.promised(Property::Commits, write.began, stored.answered);
            is_wrong.then(|| {
                let (one, other) = (tell(write.name), tell(stored.write.name));
                let (first, then) = (version.get(), stored.version.get());
                let text = format!("{one} stored version {first}, and {other} then {then}");
                Found { property: Property::Commits, at: stored.answered, text }
            })
        });
        low.collect()
    }

    /// Stored values that are not on the way back from the stored value with the next version.
    fn chain(&self) -> Vec<Found> {
        let mut stored = self.stored.clone();
        stored.sort_by_key(|stored| (stored.version, stored.answered));
        let mut found = Vec::new();
        for pair in stored.windows(2) {
            let (last, next) = (&pair[0], &pair[1]);
            let Some(built_on) = self.misses(next.write, last.write) else { continue };
            let (begin, end) = (last.write.began, next.answered.max(last.answered));
            if self.promised(Property::Commits, begin.min(next.write.began), end) {
                let (one, other) = (tell(last.write.name), tell(next.write.name));
                let (lost, version) = (last.write.value, last.version.get());
                let text = format!(
                    "{one} stored {lost} as version {version}, which is lost: {other} built on {built_on}"
                );
                found.push(Found { property: Property::Commits, at: next.answered, text });
            }
        }
        found
    }

    /// Goes back from a write through writes with an unknown outcome. Returns the first other value on the way, if that
    /// is not the value of `last`.
    fn misses(&self, write: &Write<'_>, last: &Write<'_>) -> Option<u64> {
        let mut base = write.base;
        for _ in 0..=self.book.writes.len() {
            if base == last.value {
                return None;
            }
            match self.of_value.get(&base) {
                Some(before) if matches!(before.outcome, Outcome::Unknown) => base = before.base,
                _ => break,
            }
        }
        Some(base)
    }

    /// Streams that go back, or tell of one version twice. One holder may give several values one version.
    fn streams(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for stream in &self.book.streams {
            for pair in stream.heard.windows(2) {
                let (last, next) = (&pair[0], &pair[1]);
                let goes_on = match (last.sight.version, next.sight.version) {
                    (Some(last), Some(next)) if last == next => pair[0].sight != pair[1].sight,
                    (last, next) => last < next,
                };
                if !goes_on && self.promised(Property::Snapshots, last.at, next.at) {
                    let version = |it: &Sighting<'_>| it.sight.version.map(FencingToken::get);
                    let (before, after) = (version(last), version(next));
                    let name = tell(stream.name);
                    let text = format!("{name} heard of version {after:?} after {before:?}");
                    found.push(Found { property: Property::Snapshots, at: next.at, text });
                }
            }
        }
        found
    }

    /// Streams that ended without a version that had been there for longer than a timer takes.
    fn ends(&self) -> Vec<Found> {
        let ended = self.book.streams.iter().filter_map(|it| Some((it, it.ended?)));
        let behind = ended.filter_map(|(stream, ended)| {
            let since = ended - self.terms.wakeup;
            let last = stream.heard.last().and_then(|heard| heard.sight.version);
            let (version, write) = self.floor(since).filter(|_| stream.began < since)?;
            let is_behind = last.is_none_or(|last| last < version)
                && !self.unrest.disquiet.touches(since, ended)
                && self.promised(Property::Snapshots, write.began, ended);
            is_behind.then(|| {
                let (name, writer, version) = (tell(stream.name), tell(write.name), version.get());
                let text = format!("{name} did not hear of version {version} of {writer}");
                Found { property: Property::Snapshots, at: ended, text }
            })
        });
        behind.collect()
    }
}

fn tell((client, op): Name<'_>) -> String {
    format!("{client} op {op}")
}

#[cfg(test)]
mod tests;
