//! The reports of a worker.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lock_core::FencingToken;

/// A report of a worker, and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When it happened, on [`Clock::boot`](lock_core::Clock::boot): one clock for all processes of
    /// the machine, so that the events of several workers can be put in order.
    pub at: lock_core::Instant,
    /// The event, in words.
    pub text: String,
}

impl Event {
    fn parse(line: &str) -> Option<Self> {
        let (at, text) = line.split_once(' ')?;
        Some(Self { at: lock_core::Instant::from_nanos(at.parse().ok()?), text: text.to_owned() })
    }

    /// One of the words, counted from zero.
    ///
    /// # Panics
    ///
    /// If there are not that many.
    #[track_caller]
    pub fn word(&self, index: usize) -> &str {
        match self.text.split(' ').nth(index) {
            Some(word) => word,
            None => panic!("{:?} has no word {index}", self.text),
        }
    }

    /// The fencing token in a `locked`, `upgraded` or `lost`.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[track_caller]
    pub fn token(&self) -> FencingToken {
        match self.word(2).parse() {
            Ok(number) => FencingToken::new(number),
            Err(_) => panic!("no fencing token in {:?}", self.text),
        }
    }

    fn begins_with(&self, words: &str) -> bool {
        let rest = self.text.strip_prefix(words);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }
}

/// The events that no call has taken yet. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Events(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Event>,
    ended: bool,
}

impl Events {
    pub(super) fn push(&self, line: &str) {
        // Other lines are kept too, so that they show in the log.
        let at = lock_core::Clock::boot().now();
        let event = Event::parse(line).unwrap_or_else(|| Event { at, text: line.to_owned() });
        self.state().events.push_back(event);
        self.0.changed.notify_all();
    }

    pub(super) fn end(&self) {
        self.state().ended = true;
        self.0.changed.notify_all();
    }

    pub(super) fn take(&self, words: &str, limit: Duration) -> Result<Event, String> {
        self.take_any(&[words], limit).map(|(_, event)| event)
    }

    /// The first event that begins with one of these words, and those words.
    pub(super) fn take_any(
        &self,
        patterns: &[&str],
        limit: Duration,
    ) -> Result<(usize, Event), String> {
        let deadline = Instant::now() + limit;
        let mut state = self.state();
        loop {
            if let Some(found) = state.take_any(patterns) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.ended {
                return Err(format!("it has ended\n{}", state.log()));
            }
            if left.is_zero() {
                return Err(format!("not within {limit:?}\n{}", state.log()));
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn log(&self) -> String {
        self.state().log()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_any(&mut self, patterns: &[&str]) -> Option<(usize, Event)> {
        let (at, which) = self.events.iter().enumerate().find_map(|(at, event)| {
            Some((at, patterns.iter().position(|words| event.begins_with(words))?))
        })?;
        Some((which, self.events.remove(at)?))
    }

    fn log(&self) -> String {
        let lines: String = self.events.iter().map(|event| format!("- {}\n", event.text)).collect();
        if lines.is_empty() {
            "nothing else was said".to_owned()
        } else {
            format!("said:\n{lines}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_taken_by_whole_words_and_in_order() {
        let events = Events::default();
        for line in
            ["5 locked stock2 7", "6 lost stock 9", "8 locked stock 11", "9 locked stock 12"]
        {
            events.push(line);
        }
        let event = events.take("locked stock", Duration::ZERO).unwrap();
        assert_eq!((event.at.as_nanos(), event.token().get()), (8, 11));
        let (which, event) = events.take_any(&["busy", "lost stock"], Duration::ZERO).unwrap();
        assert_eq!((which, event.word(0)), (1, "lost"));
        assert_eq!(events.take("locked stock", Duration::ZERO).unwrap().token().get(), 12);
    }

    #[test]
    fn the_end_ends_all_waiting() {
        let events = Events::default();
        let waiting = events.clone();
        let waiter = std::thread::spawn(move || waiting.take("locked", Duration::from_secs(600)));
        events.push("3 busy stock");
        events.end();
        let why = waiter.join().unwrap().unwrap_err();
        assert!(why.starts_with("it has ended") && why.contains("- busy stock"), "{why}");
    }
}
