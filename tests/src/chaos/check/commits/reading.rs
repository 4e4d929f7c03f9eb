//! The writes and sights of stored mutexes, made from events again.

use std::collections::{BTreeMap, HashMap};

use lock_core::{FencingToken, Instant};

use crate::chaos::Deployment;
use crate::chaos::check::errors::GRAIN;
use crate::chaos::check::terms::Terms;
use crate::chaos::check::{Property, Violation};
use crate::chaos::history::{Deed, Event, Op, Refusal, Sight};

pub(super) type Name<'a> = (&'a str, Op);

/// What happened to the value of one mutex.
#[derive(Default)]
pub(super) struct Book<'a> {
    pub(super) writes: Vec<Write<'a>>,
    /// The sights of holders and of snapshots.
    sights: Vec<Sighting<'a>>,
    pub(super) streams: Vec<Stream<'a>>,
}

/// An attempt to store a value.
pub(super) struct Write<'a> {
    pub(super) name: Name<'a>,
    pub(super) value: u64,
    pub(super) base: u64,
    pub(super) began: Instant,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// It was stored with this version, by this time.
    Stored(Instant, FencingToken),
    /// It was not stored, as the call said.
    Not,
    /// It may have been stored, or may still be.
    Unknown,
}

/// What a caller saw.
pub(super) struct Sighting<'a> {
    pub(super) name: Name<'a>,
    /// When it asked; `None` for a stream, which may be behind.
    pub(super) asked: Option<Instant>,
    pub(super) at: Instant,
    pub(super) sight: Sight,
    is_holder: bool,
}

/// A caller that follows the versions.
pub(super) struct Stream<'a> {
    pub(super) name: Name<'a>,
    pub(super) began: Instant,
    pub(super) heard: Vec<Sighting<'a>>,
    /// When it ended as it wanted to.
    pub(super) ended: Option<Instant>,
}

impl<'a> Write<'a> {
    pub(super) fn stored(&self) -> Option<(Instant, FencingToken, &Self)> {
        match self.outcome {
            Outcome::Stored(at, version) => Some((at, version, self)),
            _ => None,
        }
    }
}

impl Sighting<'_> {
    /// The property that speaks of it.
    pub(super) fn property(&self) -> Property {
        if self.is_holder { Property::Commits } else { Property::Snapshots }
    }
}

impl<'a> Book<'a> {
    pub(super) fn sightings(&self) -> impl Iterator<Item = &Sighting<'a>> {
        self.sights.iter().chain(self.streams.iter().flat_map(|stream| &stream.heard))
    }
}

/// The books of all mutexes, and the calls that have failed without a cause.
pub(super) fn read<'a>(
    events: &'a [Event],
    terms: &Terms,
) -> (BTreeMap<&'a str, Book<'a>>, Vec<Violation>) {
    let mut reader =
        Reader { terms, books: BTreeMap::new(), open: HashMap::new(), odd: Vec::new() };
    events.iter().for_each(|event| reader.read(event));
    (reader.books, reader.odd)
}

struct Reader<'a, 't> {
    terms: &'t Terms,
    books: BTreeMap<&'a str, Book<'a>>,
    open: HashMap<Name<'a>, Call<'a>>,
    odd: Vec<Violation>,
}

/// An operation that is not over.
#[derive(Clone, Copy)]
struct Call<'a> {
    key: &'a str,
    asked: Instant,
    /// What it does without the lock.
    reads: Option<Reads>,
    /// Its last write, by its number in the book.
    write: Option<usize>,
}

#[derive(Clone, Copy)]
enum Reads {
    Once,
    /// The stream with this number in the book.
    On(usize),
}

impl<'a> Reader<'a, '_> {
    fn read(&mut self, event: &'a Event) {
        let (at, client) = (event.at, event.client.as_str());
        match &event.deed {
            Deed::Ask { op, key, .. } if self.terms.stored.contains(key) => {
                self.begin((client, *op), key, at, None);
            }
            Deed::Peek { op, key, .. } => self.begin((client, *op), key, at, Some(Reads::Once)),
            Deed::Follow { op, key, .. } => {
                let book = self.books.entry(key).or_default();
                let on = Reads::On(book.streams.len());
                let (name, heard) = ((client, *op), Vec::new());
                book.streams.push(Stream { name, began: at, heard, ended: None });
                self.begin(name, key, at, Some(on));
            }
            Deed::Found { op, sight } | Deed::Peeked { op, sight } => {
                self.saw((client, *op), at, *sight);
            }
            Deed::Heard { op, sight } => self.heard((client, *op), at, *sight),
            Deed::Store { op, value, base } => self.store((client, *op), at, (*value, *base)),
            Deed::Stored { op, version } => {
                self.answered((client, *op), Outcome::Stored(at, *version));
            }
            Deed::Unstored { op, why, certain } => {
                self.unstored((client, *op), at, why, *certain);
            }
            Deed::Unfollow { op } => {
                if let Some((Call { reads: Some(Reads::On(stream)), .. }, book)) =
                    self.of((client, *op))
                {
                    book.streams[stream].ended = Some(at);
                }
            }
            Deed::Not { op, why }
                if self.open.get(&(client, *op)).is_some_and(|call| call.reads.is_some()) =>
            {
                self.failed((client, *op), at, why);
            }
            _ => {}
        }
    }

    fn begin(&mut self, name: Name<'a>, key: &'a str, asked: Instant, reads: Option<Reads>) {
        self.books.entry(key).or_default();
        self.open.insert(name, Call { key, asked, reads, write: None });
    }

    /// The operation, and its book.
    fn of(&mut self, name: Name<'a>) -> Option<(Call<'a>, &mut Book<'a>)> {
        let call = *self.open.get(&name)?;
        Some((call, self.books.get_mut(call.key)?))
    }

    fn saw(&mut self, name: Name<'a>, at: Instant, sight: Sight) {
        if let Some((call, book)) = self.of(name) {
            let (asked, is_holder) = (Some(call.asked), call.reads.is_none());
            book.sights.push(Sighting { name, asked, at, sight, is_holder });
        }
    }

    fn heard(&mut self, name: Name<'a>, at: Instant, sight: Sight) {
        if let Some((Call { reads: Some(Reads::On(stream)), .. }, book)) = self.of(name) {
            let heard = Sighting { name, asked: None, at, sight, is_holder: false };
            book.streams[stream].heard.push(heard);
        }
    }

    fn store(&mut self, name: Name<'a>, began: Instant, (value, base): (u64, u64)) {
        let Some((_, book)) = self.of(name) else { return };
        let number = book.writes.len();
        book.writes.push(Write { name, value, base, began, outcome: Outcome::Unknown });
        if let Some(call) = self.open.get_mut(&name) {
            call.write = Some(number);
        }
    }

    fn unstored(&mut self, name: Name<'a>, at: Instant, why: &Refusal, certain: bool) {
        let is_unready = matches!(why, Refusal::Failed(kind) if kind == "NotReady");
        let excused =
            certain && is_unready && self.terms.may_lack_tokens(at) && self.has_unknown_write(name);
        if !excused {
            self.failed(name, at, why);
        }
        self.answered(name, if certain { Outcome::Not } else { Outcome::Unknown });
    }

    /// Whether an earlier write of this holder has no answer.
    fn has_unknown_write(&mut self, name: Name<'a>) -> bool {
        let Some((Call { write: Some(write), .. }, book)) = self.of(name) else { return false };
        let is_unknown = |it: &Write<'_>| it.name == name && matches!(it.outcome, Outcome::Unknown);
        book.writes[..write].iter().any(is_unknown)
    }

    fn answered(&mut self, name: Name<'a>, outcome: Outcome) {
        if let Some((Call { write: Some(write), .. }, book)) = self.of(name) {
            book.writes[write].outcome = outcome;
        }
    }

    /// Looks for a cause of a call that has failed.
    fn failed(&mut self, name: Name<'a>, at: Instant, why: &Refusal) {
        let terms = self.terms.of_client(name.0);
        let Some((call, book)) = self.of(name) else { return };
        let began = call.write.map_or(call.asked, |write| book.writes[write].began);
        let is_explained = match why {
            Refusal::Failed(kind) => terms.explained(kind, began, at),
            // The cause of the missing renewal.
            Refusal::Lost => terms.unrest(Property::Errors).touches(began - terms.ttl, at),
            Refusal::Closed | Refusal::Busy => false,
            Refusal::TimedOut => {
                // Over a quorum, a read of a value that is not settled waits for the lock.
                let is_read =
                    call.write.is_none() && matches!(terms.deployment, Deployment::Quorum(_));
                let time = at.saturating_duration_since(began) + GRAIN;
                is_read && time >= terms.wait_limit
                    || terms.unrest(Property::Errors).touches(began, at)
            }
            Refusal::GivenUp => true,
        };
        if !is_explained {
            let text = format!("there is no reason for {why}: {} op {}", name.0, name.1);
            self.odd.push(Violation::new(Property::Errors, (at, at), call.key, text));
        }
    }
}
