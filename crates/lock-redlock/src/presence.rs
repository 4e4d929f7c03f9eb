//! Whether a node takes part, as observers hear of it.

use lock_core::observer::{NodeBack, NodeKeptOut, Observers, WhyKeptOut};
use lock_core::{Clock, Error, Instant};

use crate::guarded::Guarded;
use crate::quarantine::Lookout;

/// What this client knows of a node and reports to its observers.
#[derive(Debug)]
pub(crate) struct Presence {
    observers: Observers,
    clock: Clock,
    state: Guarded<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// The last known quarantine of the node.
    pub(crate) lookout: Lookout,
    /// Whether a task watches the quarantine.
    pub(crate) is_watched: bool,
    /// The error of the last request, if it failed.
    pub(crate) trouble: Option<Error>,
    /// Since when the node has not taken part. `None` if it takes part.
    out: Option<Instant>,
}

/// The news in a change of the state.
enum News {
    KeptOut(Option<Error>),
    Back(Instant),
}

impl Presence {
    pub(crate) fn new(observers: Observers, clock: Clock) -> Self {
        Self { observers, clock, state: Guarded::default() }
    }

    /// Looks at the state, or changes it. Tells the observers of a change after it has unlocked the state.
    pub(crate) fn with<R>(&self, name: &str, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        let news = if self.observers.is_empty() { None } else { state.news(self.clock) };
        drop(state);
        match news {
            None => {}
            Some(News::KeptOut(trouble)) => {
                let why = trouble.as_ref().map_or(WhyKeptOut::Quarantine, WhyKeptOut::Failed);
                let event = NodeKeptOut { node: name, why };
                self.observers.tell(|observer| observer.node_kept_out(&event));
            }
            Some(News::Back(since)) => {
                let after = self.clock.now().saturating_duration_since(since);
                let event = NodeBack { node: name, after };
                self.observers.tell(|observer| observer.node_back(&event));
            }
        }
        result
    }
}

impl State {
    /// Whether the node does not take part.
    pub(crate) fn is_out(&self) -> bool {
        self.trouble.is_some() || self.lookout.is_quarantined()
    }

    fn news(&mut self, clock: Clock) -> Option<News> {
        match (self.out, self.is_out()) {
            (None, true) => {
                self.out = Some(clock.now());
                let is_quarantined = self.lookout.is_quarantined();
                Some(News::KeptOut(self.trouble.clone().filter(|_| !is_quarantined)))
            }
            (Some(since), false) => {
                self.out = None;
                Some(News::Back(since))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, OnceLock, Weak};

    use lock_core::observer::Observer;
    use lock_core::{ErrorKind, Quarantine};

    use super::*;

    /// At each event, the observer looks at the state, as an observer does that asks the quorum about a lock.
    #[derive(Default)]
    struct Diary {
        said: Mutex<Vec<String>>,
        presence: OnceLock<Weak<Presence>>,
    }

    impl Diary {
        fn say(&self, what: String, is_out: bool) {
            let presence = self.presence.get().and_then(Weak::upgrade).unwrap();
            assert_eq!(presence.with("a", |state| state.is_out()), is_out, "{what}");
            self.said.lock().unwrap().push(what);
        }
    }

    impl Observer for Diary {
        fn node_kept_out(&self, event: &NodeKeptOut<'_>) {
            self.say(format!("{} out: {}", event.node, event.why.name()), true);
        }

        fn node_back(&self, event: &NodeBack<'_>) {
            self.say(format!("{} back", event.node), false);
        }
    }

    #[test]
    fn a_node_goes_out_once_and_comes_back_once() {
        let diary = Arc::new(Diary::default());
        let mut observers = Observers::none();
        observers.add(diary.clone());
        let presence = Arc::new(Presence::new(observers, Clock::boot()));
        diary.presence.set(Arc::downgrade(&presence)).unwrap();
        let said = || std::mem::take(&mut *diary.said.lock().unwrap());
        let trouble = || Some(Error::new(ErrorKind::Timeout, "no answer"));
        let set = |trouble| presence.with("a", |state| state.trouble = trouble);
        set(None);
        assert_eq!(said(), [""; 0]);
        set(trouble());
        set(trouble());
        assert_eq!(said(), ["a out: failed"]);
        let quarantine = Quarantine::new("q");
        presence.with("a", |state| state.lookout.see(&quarantine, Instant::from_nanos(1)));
        set(None);
        assert_eq!(said(), [""; 0], "the quarantine goes on");
        presence.with("a", |state| state.lookout.clear());
        assert_eq!(said(), ["a back"]);
        presence.with("a", |state| state.lookout.see(&quarantine, Instant::from_nanos(1)));
        assert_eq!(said(), ["a out: quarantine"]);
    }
}
