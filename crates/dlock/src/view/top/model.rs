//! The locks that `dlock top` knows and shows: pure, without a terminal and without a store.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use lock_core::{Inspection, Key, Listed};

use super::row::{Change, Row};
use crate::view::records::name;

/// The largest number of locks that one tick looks at out of turn.
const HOT: usize = 64;
/// The time over which the sums count turns.
const WINDOW: Duration = Duration::from_secs(10);

/// All locks that `top` has seen, and how it shows them.
#[derive(Debug)]
pub(super) struct Model {
    rows: HashMap<Key, Row>,
    /// The locks that match the filter, in the order on the screen.
    order: Vec<Key>,
    pub(super) sort: Sort,
    pub(super) reversed: bool,
    pub(super) filter: String,
    /// The selected lock stays selected while others come and go.
    selected: Option<Key>,
    /// The number of the first lock on the screen.
    pub(super) offset: usize,
    /// How many locks fit on the screen.
    pub(super) page: usize,
    /// The number of the walk through the store.
    pub(super) round: u64,
    /// How long the last whole walk took.
    pub(super) round_took: Option<Duration>,
    round_began: Instant,
    pub(super) now: Instant,
    pub(super) losses: u64,
    /// The looks of the last seconds that found new holders.
    turns: Vec<(Instant, u64)>,
    /// Where the next choice among the hot locks begins.
    hot_from: usize,
}

/// The order of the locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// The locks with the most waiters first; among equals, the lock that has had waiters for the
    /// longest time.
    #[default]
    Waiting,
    /// The locks whose tokens advance the fastest first.
    Tokens,
    /// The locks with the most losses first.
    Losses,
    /// The locks with the most holders first.
    Holders,
    /// The leases that end the soonest first.
    Left,
    /// By name.
    Name,
}

impl Sort {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Waiting => Self::Tokens,
            Self::Tokens => Self::Losses,
            Self::Losses => Self::Holders,
            Self::Holders => Self::Left,
            Self::Left => Self::Name,
            Self::Name => Self::Waiting,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Tokens => "tokens/s",
            Self::Losses => "lost",
            Self::Holders => "holders",
            Self::Left => "left",
            Self::Name => "name",
        }
    }
}

/// The sums over all locks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) locks: usize,
    pub(super) holders: u64,
    pub(super) waiters: u64,
    pub(super) contended: usize,
    pub(super) overdue: usize,
    pub(super) losses: u64,
    pub(super) turns_per_second: f64,
    pub(super) tokens_per_second: f64,
}

impl Model {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            rows: HashMap::new(),
            order: Vec::new(),
            sort: Sort::default(),
            reversed: false,
            filter: String::new(),
            selected: None,
            offset: 0,
            page: 1,
            round: 0,
            round_took: None,
            round_began: now,
            now,
            losses: 0,
            turns: Vec::new(),
            hot_from: 0,
        }
    }

    /// The store has shown these locks. The order stays until the model is [arranged](Self::arrange).
    pub(super) fn listed(&mut self, locks: Vec<Listed>, now: Instant) {
        for lock in locks {
            self.saw(lock.key, lock.inspection, now);
        }
    }

    /// The walk has come to its end. A lock that no page of it showed is free.
    pub(super) fn round_over(&mut self, now: Instant) {
        let round = self.round;
        let gone: Vec<Key> = self
            .rows
            .iter()
            .filter(|(_, row)| row.round < round)
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.saw(key, Inspection::default(), now);
        }
        self.round += 1;
        self.round_took = Some(now.saturating_duration_since(self.round_began));
        self.round_began = now;
    }

    /// Notes a look at one lock, by itself or on a page.
    fn saw(&mut self, key: Key, seen: Inspection, now: Instant) {
        let is_free = seen.holding + seen.waiting == 0;
        let round = self.round;
        let change = match self.rows.get_mut(&key) {
            Some(row) => row.look(seen, now, round),
            None if is_free => return,
            None => {
                self.rows.insert(key, Row::new(seen, now, round));
                return;
            }
        };
        self.add(change, now);
        // A lock with losses stays in the table, so that the user sees the losses.
        if is_free && self.rows.get(&key).is_some_and(|row| row.losses == 0) {
            self.rows.remove(&key);
        }
    }

    fn add(&mut self, change: Change, now: Instant) {
        self.losses += change.losses;
        if change.turns > 0 {
            self.turns.push((now, change.turns));
        }
    }

    /// Puts the locks in order, as of now.
    pub(super) fn arrange(&mut self, now: Instant) {
        self.now = now;
        self.turns.retain(|(at, _)| now.saturating_duration_since(*at) < WINDOW);
        let is_shown = |key: &Key| self.filter.is_empty() || name(key).contains(&self.filter);
        let rows = self.rows.iter().filter(|(key, _)| is_shown(key));
        // Locks that are equal keep one order, so that lines do not jump.
        let mut rows: Vec<_> = rows.map(|(key, row)| (rank(self.sort, row, now), key)).collect();
        rows.sort_unstable();
        if self.reversed {
            rows.reverse();
        }
        self.order = rows.into_iter().map(|(_, key)| key.clone()).collect();
        self.scroll();
    }

    /// The locks that fit on the screen, from the offset on.
    pub(super) fn visible(&self) -> impl Iterator<Item = (&Key, &Row)> {
        let keys = self.order.iter().skip(self.offset).take(self.page);
        keys.filter_map(|key| Some((key, self.rows.get(key)?)))
    }

    /// How many locks match the filter.
    pub(super) fn shown(&self) -> usize {
        self.order.len()
    }

    pub(super) fn selected(&self) -> Option<(&Key, &Row)> {
        let key = self.selected.as_ref()?;
        Some((key, self.rows.get(key)?))
    }

    /// Selects the lock this many lines below the selected one, or above it.
    pub(super) fn select_by(&mut self, lines: isize) {
        let at = self.place().unwrap_or(0).saturating_add_signed(lines);
        self.selected = self.order.get(at).or(self.order.last()).cloned();
        self.scroll();
    }

    fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.order.iter().position(|key| key == selected)
    }

    /// Keeps the selected lock on the screen. If it is gone, the lock in its place is selected.
    pub(super) fn scroll(&mut self) {
        let last = self.order.len().saturating_sub(1);
        let place = self.place().unwrap_or(self.offset).min(last);
        if self.place().is_none() {
            self.selected = self.order.get(place).cloned();
        }
        let top = (place + 1).saturating_sub(self.page);
        self.offset = self.offset.clamp(top, place).min((last + 1).saturating_sub(self.page));
    }

    pub(super) fn sums(&self) -> Sums {
        let seconds = WINDOW.as_secs_f64();
        let turns: u64 = self.turns.iter().map(|(_, turns)| turns).sum();
        let mut sums = Sums { losses: self.losses, ..Sums::default() };
        sums.turns_per_second = turns as f64 / seconds;
        for row in self.rows.values() {
            sums.locks += usize::from(row.seen.holding + row.seen.waiting > 0);
            sums.holders += row.seen.holding;
            sums.waiters += row.seen.waiting;
            sums.contended += usize::from(row.seen.waiting > 0);
            sums.overdue += usize::from(row.is_overdue());
            sums.tokens_per_second += row.tokens_per_second;
        }
        sums
    }

    /// The locks to look at out of turn: the locks on the screen, with waiters, or with a late renewal. At most [`HOT`]
    /// locks; if there are more, they take turns.
    pub(super) fn hot(&mut self) -> Vec<Key> {
        let mut hot: Vec<Key> = self.visible().map(|(key, _)| key.clone()).take(HOT).collect();
        let is_hot = |row: &Row| row.seen.waiting > 0 || row.is_overdue();
        let others = self.rows.iter().filter(|(key, row)| is_hot(row) && !hot.contains(key));
        let mut others: Vec<Key> = others.map(|(key, _)| key.clone()).collect();
        others.sort_unstable();
        let room = (HOT - hot.len()).min(others.len());
        if room > 0 {
            let from = self.hot_from % others.len();
            hot.extend(others.iter().cycle().skip(from).take(room).cloned());
            self.hot_from = from + room;
        }
        hot
    }
}

/// Locks with a lower rank come first.
fn rank(sort: Sort, row: &Row, now: Instant) -> (u64, u64) {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let waiting = u64::MAX - row.seen.waiting;
    match sort {
        Sort::Waiting => (waiting, u64::MAX - row.waited(now).map_or(0, millis)),
        Sort::Tokens => (u64::MAX - (row.tokens_per_second * 1e3) as u64, waiting),
        Sort::Losses => (u64::MAX - row.losses, u64::from(!row.is_overdue())),
        Sort::Holders => (u64::MAX - row.seen.holding, waiting),
        Sort::Left => (row.left(now).map_or(u64::MAX, millis), 0),
        Sort::Name => (0, 0),
    }
}

#[cfg(test)]
mod tests;
