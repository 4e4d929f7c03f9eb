//! Which task held a lock in which way, and when, and whether these holds were allowed.

use std::collections::{BTreeMap, HashMap, HashSet};

use lock_core::{FencingToken, Instant};
use lock_tests::chaos::history::Way;

/// A time in which a task certainly held the lock.
#[derive(Clone, Copy, Debug)]
struct Span {
    process: u32,
    task: u32,
    turn: u64,
    way: Way,
    token: FencingToken,
    /// When the turn began: the task asked after that.
    asked: Instant,
    had: Instant,
    until: Instant,
}

impl Span {
    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [process, task, turn, how, count, token, asked, had, until] = words[..] else {
            panic!("no record: {line}");
        };
        let number = |word: &str| word.parse::<u64>().unwrap();
        Self {
            process: process.parse().unwrap(),
            task: task.parse().unwrap(),
            turn: number(turn),
            way: match how {
                "r" => Way::Read,
                "u" => Way::Upgradable,
                "w" => Way::Write,
                "p" => Way::Permits(count.parse().unwrap()),
                _ => panic!("no record: {line}"),
            },
            token: FencingToken::new(number(token)),
            asked: Instant::from_nanos(number(asked)),
            had: Instant::from_nanos(number(had)),
            until: Instant::from_nanos(number(until)),
        }
    }

    /// The turn and its task. A task holds the lock in several ways in one turn.
    fn whose(&self) -> (u32, u32, u64) {
        (self.process, self.task, self.turn)
    }

    /// The turn of a task that asks, gets the lock and leaves at these times, for tests.
    #[cfg(test)]
    fn at(process: u32, way: Way, token: u64, [asked, had, until]: [u64; 3]) -> Self {
        let at = Instant::from_nanos;
        let token = FencingToken::new(token);
        let (asked, had, until) = (at(asked), at(had), at(until));
        Self { process, task: 0, turn: had.as_nanos(), way, token, asked, had, until }
    }
}

/// All notes, by the time of the beginning.
#[derive(Debug)]
pub(crate) struct History(Vec<Span>);

impl History {
    pub(crate) fn parse<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        Self::of(lines.map(Span::parse).collect())
    }

    fn of(mut spans: Vec<Span>) -> Self {
        spans.sort_unstable_by_key(|span| span.had);
        Self(spans)
    }

    /// The number of turns.
    pub(crate) fn turns(&self) -> usize {
        self.0.iter().map(Span::whose).collect::<HashSet<_>>().len()
    }

    /// The processes that held the lock.
    pub(crate) fn processes(&self) -> HashSet<u32> {
        self.0.iter().map(|span| span.process).collect()
    }

    /// Checks that no two tasks held the lock at once in ways that exclude each other, and that tokens
    /// increase from writer to writer. Returns the pairs of ways in which two processes held it at once.
    #[track_caller]
    pub(crate) fn assert_readers_and_writers(&self) -> HashSet<(Way, Way)> {
        let mut beside = HashSet::new();
        let mut here: Vec<Span> = Vec::new();
        for &span in &self.0 {
            here.retain(|other| other.until > span.had);
            for other in here.iter().filter(|other| other.whose() != span.whose()) {
                assert!(other.way.stands(span.way), "{other:?} and {span:?} at once");
                if other.process != span.process {
                    beside.insert((other.way, span.way));
                    beside.insert((span.way, other.way));
                }
            }
            if span.until > span.had {
                here.push(span);
            }
        }
        self.assert_tokens_rise();
        beside
    }

    /// A writer's token is above the tokens of all tasks that had left before the writer asked. A reader's
    /// token is at least that of every writer that had left.
    fn assert_tokens_rise(&self) {
        let mut ends: Vec<Span> =
            self.0.iter().filter(|span| span.until > span.had).copied().collect();
        ends.sort_unstable_by_key(|span| span.until);
        let mut over = ends.into_iter().peekable();
        let (mut highest, mut highest_written) = (None::<Span>, None::<Span>);
        let higher = |one: Option<Span>, other: Span| {
            one.into_iter().chain([other]).max_by_key(|span| span.token)
        };
        let mut begins = self.0.clone();
        begins.sort_unstable_by_key(|span| span.asked);
        for span in begins {
            while let Some(before) = over.next_if(|before| before.until < span.asked) {
                highest = higher(highest, before);
                if before.way == Way::Write {
                    highest_written = higher(highest_written, before);
                }
            }
            let (before, least) = match span.way {
                Way::Write => (highest, 1),
                // They share the token of a writer that has become a reader.
                _ => (highest_written, 0),
            };
            if let Some(before) = before {
                let least = before.token.get() + least;
                assert!(span.token.get() >= least, "{span:?} came after {before:?}");
            }
        }
    }

    /// Checks that there never were more permits than that. Returns the most that were held at once, and
    /// how many processes held them then.
    #[track_caller]
    pub(crate) fn assert_permits(&self, limit: u64) -> (u64, usize) {
        // At one instant, tasks leave before others enter.
        let mut events = BTreeMap::<(Instant, bool), Vec<Span>>::new();
        for &span in self.0.iter().filter(|span| span.until > span.had) {
            events.entry((span.had, true)).or_default().push(span);
            events.entry((span.until, false)).or_default().push(span);
        }
        let (mut held, mut holders) = (0, HashMap::<u32, u64>::new());
        let (mut most, mut processes) = (0, 0);
        for ((_, comes), spans) in events {
            for span in spans {
                let Way::Permits(count) = span.way else { panic!("no permits: {span:?}") };
                let count = u64::from(count);
                let holder = holders.entry(span.process).or_default();
                if comes {
                    (held, *holder) = (held + count, *holder + count);
                } else {
                    (held, *holder) = (held - count, *holder - count);
                }
                assert!(held <= limit, "{held} permits of {limit} were held when {span:?} came");
            }
            let now = holders.values().filter(|held| **held > 0).count();
            (most, processes) = (most, processes).max((held, now));
        }
        (most, processes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history<const N: usize>(spans: [(u32, Way, u64, [u64; 3]); N]) -> History {
        History::of(spans.map(|(process, way, token, at)| Span::at(process, way, token, at)).into())
    }

    #[test]
    fn readers_may_meet_and_one_of_them_may_have_the_prospect_of_writing() {
        let history = history([
            (1, Way::Read, 1, [0, 1, 10]),
            (2, Way::Read, 2, [0, 2, 9]),
            (3, Way::Upgradable, 3, [0, 3, 8]),
            (1, Way::Write, 4, [0, 10, 12]),
        ]);
        let beside = history.assert_readers_and_writers();
        assert!(beside.contains(&(Way::Read, Way::Read)));
        assert!(beside.contains(&(Way::Read, Way::Upgradable)));
        assert_eq!((history.turns(), history.processes().len()), (4, 3));
    }

    #[test]
    #[should_panic(expected = "at once")]
    fn a_writer_among_readers_is_found_out() {
        history([(1, Way::Read, 1, [0, 1, 10]), (2, Way::Write, 2, [0, 9, 11])])
            .assert_readers_and_writers();
    }

    #[test]
    #[should_panic(expected = "at once")]
    fn two_that_may_write_are_found_out() {
        history([(1, Way::Upgradable, 1, [0, 1, 10]), (2, Way::Upgradable, 2, [0, 9, 11])])
            .assert_readers_and_writers();
    }

    #[test]
    #[should_panic(expected = "came after")]
    fn a_token_that_falls_is_found_out() {
        history([(1, Way::Write, 2, [0, 1, 2]), (2, Way::Read, 1, [3, 4, 5])])
            .assert_readers_and_writers();
    }

    #[test]
    fn permits_may_be_gone_to_the_last() {
        let two = Way::Permits(2);
        let history = history([
            (1, two, 1, [0, 1, 5]),
            (2, Way::Permits(1), 2, [0, 2, 9]),
            (3, two, 3, [0, 5, 7]),
        ]);
        assert_eq!(history.assert_permits(3), (3, 2));
    }

    #[test]
    #[should_panic(expected = "4 permits of 3")]
    fn one_permit_too_many_is_found_out() {
        history([(1, Way::Permits(2), 1, [0, 1, 5]), (2, Way::Permits(2), 2, [0, 4, 9])])
            .assert_permits(3);
    }
}
