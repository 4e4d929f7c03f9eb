//! Panics of any thread.

use std::panic;
use std::sync::{Mutex, Once, PoisonError};

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes every panic of this process, including those of tasks and threads that no other task waits
/// for.
#[derive(Debug)]
pub(crate) struct Panics(usize);

impl Panics {
    pub(crate) fn watch() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                SEEN.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
                before(info);
            }));
        });
        Self(seen().len())
    }

    /// Fails if there were any since, except those of tests, which fail by the panic itself.
    #[track_caller]
    pub(crate) fn none(&self) {
        const OURS: &str = "panicked at tests/garbage/";
        let seen = self.since().into_iter().filter(|it| !it.starts_with(OURS));
        let seen: Vec<_> = seen.collect();
        assert!(seen.is_empty(), "there were panics: {seen:#?}");
    }

    fn since(&self) -> Vec<String> {
        seen().split_off(self.0)
    }
}

const ON_PURPOSE: &str = "this panics on purpose";

fn seen() -> Vec<String> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[test]
fn a_panic_of_a_thread_is_seen() {
    let panics = Panics::watch();
    let thread = std::thread::spawn(|| panic!("{ON_PURPOSE}"));
    assert!(thread.join().is_err());
    assert!(panics.since().iter().any(|it| it.contains(ON_PURPOSE)));
}
