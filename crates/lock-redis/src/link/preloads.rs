//! Scripts that a connection sends ahead of their first call.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::wire::Script;

/// Scripts that the server loads before their first call on a connection. A server that does not know them yet then
/// need not refuse that call. A short program calls few of them, and sends no others.
#[derive(Debug, Default)]
pub(super) struct Preloads {
    scripts: Box<[&'static Script]>,
    /// One bit for each script that is still to be sent.
    due: AtomicU8,
}

/// A script that is still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due(u8);

impl FromIterator<&'static Script> for Preloads {
    /// Takes eight scripts at most.
    fn from_iter<T: IntoIterator<Item = &'static Script>>(scripts: T) -> Self {
        let scripts: Box<[_]> = scripts.into_iter().take(8).collect();
        let due = (0..scripts.len()).fold(0, |due, at| due | 1 << at);
        Self { scripts, due: AtomicU8::new(due) }
    }
}

impl Preloads {
    /// This script, if it is still to be sent.
    pub(super) fn of(&self, script: &Script) -> Option<Due> {
        let due = self.due.load(Ordering::Relaxed);
        if due == 0 {
            return None;
        }
        let at = self.scripts.iter().position(|it| std::ptr::eq(*it, script))?;
        (due & 1 << at != 0).then_some(Due(1 << at))
    }

    /// The script is on its way. Later calls come behind it.
    pub(super) fn is_sent(&self, Due(bit): Due) {
        self.due.fetch_and(!bit, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::{ACQUIRE, usual};

    #[test]
    fn every_usual_script_is_due_until_it_is_sent() {
        for terms in [false, true] {
            let preloads: Preloads = usual(terms).collect();
            for script in usual(terms) {
                let due = preloads.of(script).unwrap();
                assert_eq!(preloads.of(script), Some(due));
                preloads.is_sent(due);
                assert_eq!(preloads.of(script), None);
            }
            assert_eq!(preloads.of(&ACQUIRE), None);
        }
    }
}
