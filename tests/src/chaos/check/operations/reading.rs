//! Reads events, one after another.

use std::collections::{HashMap, HashSet};

use lock_core::{FencingToken, Instant};

use super::super::{Property, Violation};
use super::{End, Kept, Operation, Operations, Span};
use crate::chaos::history::{Deed, Event, Op, Patience, Refusal, Way};

/// Reads events, one after another.
#[derive(Default)]
pub(super) struct Reader {
    all: Vec<Operation>,
    /// The place of each open operation.
    open: HashMap<(usize, Op), usize>,
    /// The operations at a barrier, or for the value of a cell.
    arrived: HashSet<(usize, Op)>,
    /// The open operations of each client.
    of_client: HashMap<usize, Vec<Op>>,
    clients: Names,
    keys: Names,
    last: Vec<Instant>,
    odd: Vec<Violation>,
}

#[derive(Default)]
struct Names {
    numbers: HashMap<String, usize>,
    names: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

impl Reader {
    pub(super) fn read(&mut self, event: &Event) {
        let at = event.at;
        let client = self.clients.number(&event.client);
        self.last.resize(self.clients.names.len(), at);
        self.last[client] = at;
        match &event.deed {
            Deed::Ask { op, task, key, way, patience } => {
                let key = self.keys.number(key);
                self.ask(event, client, (*op, *task), (key, *way, *patience));
            }
            Deed::Got { op, token, valid_until } => {
                let Some(operation) = self.find(event, client, *op) else { return };
                if operation.spans.is_empty() {
                    operation.valid_until = *valid_until;
                    operation.begin(operation.way, (*token, operation.asked), at);
                } else {
                    self.odd(event, "it has it already");
                }
            }
            Deed::Not { op, why } => self.end(event, client, *op, End::Refused(why.clone())),
            Deed::Turn { op, way, patience, valid_until } => {
                self.turn(event, client, *op, ((*way, *patience), *valid_until));
            }
            Deed::Turned { op, token, valid_until } => {
                self.turned(event, client, *op, (*token, *valid_until));
            }
            Deed::Kept { op, why } => self.kept(event, client, *op, why),
            Deed::Left { op, confirmed, why } => {
                let end = End::Left { confirmed: *confirmed, why: why.clone() };
                self.end(event, client, *op, end);
            }
            Deed::Forgot { op } => self.forgot(event, client, *op),
            Deed::Collapse => self.collapse(at, client),
            deed if self.is_elsewhere(deed, client) => {}
            _ => self.holding(event, client),
        }
    }

    /// Whether the deed is of an operation that shares the numbers of the others, and is checked elsewhere.
    fn is_elsewhere(&mut self, deed: &Deed, client: usize) -> bool {
        match deed {
            Deed::Arrive { op, .. }
            | Deed::Look { op, .. }
            | Deed::Peek { op, .. }
            | Deed::Follow { op, .. } => {
                self.arrived.insert((client, *op));
                true
            }
            Deed::Pass { op, .. }
            | Deed::Saw { op, .. }
            | Deed::Peeked { op, .. }
            | Deed::Unfollow { op } => {
                self.arrived.remove(&(client, *op));
                true
            }
            _ => false,
        }
    }

    /// What a holder says of its lease.
    fn holding(&mut self, event: &Event, client: usize) {
        let at = event.at;
        match &event.deed {
            Deed::Still { op, valid_until } | Deed::Wrote { op, valid_until, .. } => {
                if let Some(operation) = self.find(event, client, *op) {
                    operation.holds(at, *valid_until);
                }
            }
            Deed::Lost { op } => {
                if let Some(operation) = self.find(event, client, *op) {
                    operation.holds(at, operation.valid_until);
                    operation.over = true;
                }
            }
            Deed::Leave { op, valid_until } => {
                if let Some(operation) = self.find(event, client, *op) {
                    operation.holds(at, *valid_until);
                    operation.over = true;
                    operation.leaves = Some(at);
                }
            }
            _ => {}
        }
    }

    fn ask(
        &mut self,
        event: &Event,
        client: usize,
        (number, task): (Op, u32),
        (key, way, patience): (usize, Way, Patience),
    ) {
        if self.open.insert((client, number), self.all.len()).is_some() {
            self.odd(event, "there is an operation with this number");
        }
        self.of_client.entry(client).or_default().push(number);
        let (asked, valid_until, over) = (event.at, event.at, false);
        let (end, ended, spans) = (End::Gone, event.at, Vec::new());
        self.all.push(Operation {
            client,
            number,
            task,
            key,
            way,
            patience,
            asked,
            spans,
            kept: Vec::new(),
            leaves: None,
            end,
            ended,
            valid_until,
            over,
        });
    }

    fn find(&mut self, event: &Event, client: usize, number: Op) -> Option<&mut Operation> {
        let Some(&index) = self.open.get(&(client, number)) else {
            self.odd(event, "there is no such operation");
            return None;
        };
        self.all[index].ended = event.at;
        Some(&mut self.all[index])
    }

    fn turn(
        &mut self,
        event: &Event,
        client: usize,
        number: Op,
        (becomes, valid): ((Way, Patience), Instant),
    ) {
        let way = becomes.0;
        let Some(operation) = self.find(event, client, number) else { return };
        operation.holds(event.at, valid);
        match operation.spans.last() {
            Some(&before) if before.becomes.is_none() => operation.spans.push(Span {
                way: weaker(before.way, way),
                at_most: stronger(before.way, way),
                asked: event.at,
                from: event.at,
                // The hold is certain only when the outcome is known.
                until: event.at,
                becomes: Some(becomes),
                ..before
            }),
            Some(_) => self.odd(event, "it is becoming something already"),
            None => self.odd(event, "it holds nothing that could become another"),
        }
    }

    fn turned(
        &mut self,
        event: &Event,
        client: usize,
        number: Op,
        (token, valid): (FencingToken, Instant),
    ) {
        let Some(operation) = self.find(event, client, number) else { return };
        let Some(((way, _), asked)) = operation.turns_into() else {
            return self.odd(event, "it was not becoming anything");
        };
        operation.settles(event.at, valid);
        operation.begin(way, (token, asked), event.at);
    }

    fn kept(&mut self, event: &Event, client: usize, number: Op, why: &Refusal) {
        let Some(operation) = self.find(event, client, number) else { return };
        let Some(((way, patience), asked)) = operation.turns_into() else {
            return self.odd(event, "it was not becoming anything");
        };
        let (ended, why) = (event.at, why.clone());
        operation.kept.push(Kept { way, patience, asked, ended, why });
        operation.settles(event.at, operation.valid_until);
        let before = operation.spans[operation.spans.len() - 2];
        operation.begin(before.way, (before.token, before.asked), event.at);
    }

    fn forgot(&mut self, event: &Event, client: usize, number: Op) {
        let Some(operation) = self.find(event, client, number) else { return };
        // Forgotten permits are gone for as long as they would have been held.
        let valid = operation.valid_until;
        operation.holds(valid, valid);
        self.end(event, client, number, End::Forgot);
    }

    fn collapse(&mut self, at: Instant, client: usize) {
        for number in self.of_client.remove(&client).unwrap_or_default() {
            if let Some(index) = self.open.remove(&(client, number)) {
                let operation = &mut self.all[index];
                operation.holds(at, operation.valid_until);
                (operation.end, operation.ended) = (End::Collapsed, at);
            }
        }
    }

    fn end(&mut self, event: &Event, client: usize, number: Op, end: End) {
        if matches!(end, End::Refused(_)) && self.arrived.remove(&(client, number)) {
            return;
        }
        let Some(operation) = self.find(event, client, number) else { return };
        operation.end = end;
        self.open.remove(&(client, number));
    }

    fn odd(&mut self, event: &Event, what: &str) {
        let text = format!("{what}: {} {} {}", event.client, event.at.as_nanos(), event.deed);
        let times = (event.at, event.at);
        self.odd.push(Violation::new(Property::History, times, &event.client, text));
    }

    pub(super) fn finish(mut self) -> (Operations, Vec<Violation>) {
        // The operations that were open at the last event of their client.
        for &index in self.open.values() {
            let operation = &mut self.all[index];
            operation.holds(operation.ended, operation.valid_until);
        }
        let (clients, keys) = (self.clients.names, self.keys.names);
        let weaker = |span: &Span| {
            span.at_most == Way::Write && span.becomes.is_some_and(|(to, _)| to != Way::Write)
        };
        let spans = self.all.iter().flat_map(|it| it.spans.iter().map(move |span| (it.key, span)));
        let downgraded = spans.filter(|(_, span)| weaker(span)).map(|(key, it)| (key, it.token));
        let downgraded = downgraded.collect();
        (Operations { all: self.all, clients, keys, last: self.last, downgraded }, self.odd)
    }
}

impl Operation {
    /// It holds the lock in this way from now on.
    fn begin(&mut self, way: Way, (token, asked): (FencingToken, Instant), from: Instant) {
        let (at_most, until, becomes) = (way, from, None);
        self.spans.push(Span { way, at_most, token, asked, from, until, becomes });
    }

    /// It is held at this time, if that is before the end of its lease.
    fn holds(&mut self, at: Instant, valid_until: Instant) {
        if self.over {
            return;
        }
        self.valid_until = valid_until;
        // A conversion is certain when its outcome is known.
        if let Some(span) = self.spans.last_mut()
            && span.becomes.is_none()
        {
            span.until = span.until.max(at.min(valid_until));
        }
    }

    /// The outcome of its conversion is known.
    fn settles(&mut self, at: Instant, valid_until: Instant) {
        if let Some(span) = self.spans.last_mut() {
            span.until = span.from.max(at.min(valid_until));
        }
        self.holds(at, valid_until);
    }

    /// The way of the requested conversion, how long it may wait, and since when it asks.
    fn turns_into(&self) -> Option<((Way, Patience), Instant)> {
        let span = self.spans.last()?;
        Some((span.becomes?, span.asked))
    }
}

fn weaker(one: Way, other: Way) -> Way {
    if strength(one) <= strength(other) { one } else { other }
}

fn stronger(one: Way, other: Way) -> Way {
    if strength(one) <= strength(other) { other } else { one }
}

/// Of two ways in which a lock can be held one after the other, the one that excludes more is the greater.
fn strength(way: Way) -> u32 {
    match way {
        Way::Read => 0,
        Way::Upgradable => 1,
        Way::Write | Way::Owner(_) => 2,
        Way::Permits(count) => count,
    }
}
