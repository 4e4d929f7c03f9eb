//! The data of the store about one key: its document, and its watches.

use std::sync::Arc;

use super::connection::Connection;
use super::post::Post;
use super::watchers::Watchers;
use crate::document::{Audience, Document, Fence, Party, Ticks, Visit};
use crate::{Hint, Instant};

impl Party for Arc<Connection> {
    fn is(&self, other: &Self) -> bool {
        Self::ptr_eq(self, other)
    }
}

/// One key.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) document: Document<Arc<Connection>>,
    pub(super) watchers: Watchers,
}

impl Entry {
    /// The entry of an unknown key, whose counter may have been thrown away.
    pub(super) fn counting_above(swept: Fence) -> Self {
        Self { document: Document::counting_above(swept), ..Self::default() }
    }

    /// Applies a function to the document, which may tell the watchers.
    pub(super) fn visit<T>(
        &mut self,
        client: &Arc<Connection>,
        (sent, now): (Instant, Instant),
        post: &mut Post,
        act: impl FnOnce(&mut Document<Arc<Connection>>, Visit<'_, Arc<Connection>>) -> T,
    ) -> T {
        let mut hearing = Hearing { watchers: &self.watchers, post };
        act(&mut self.document, Visit::new(client, sent, now, &mut hearing))
    }

    /// Whether this entry can be dropped without a loss.
    pub(super) fn is_idle(&mut self, now: Instant, ticks: Ticks) -> bool {
        self.watchers.is_empty() && self.document.is_idle(now, ticks)
    }
}

/// The watchers of a key, and the hints for them.
struct Hearing<'a> {
    watchers: &'a Watchers,
    post: &'a mut Post,
}

impl Audience<Arc<Connection>> for Hearing<'_> {
    fn reach(&self, party: &Arc<Connection>) -> bool {
        self.watchers.reach(party)
    }

    fn tell(&mut self, party: &Arc<Connection>, hint: Hint) {
        self.watchers.tell(party, hint, self.post);
    }

    fn tell_all(&mut self, sender: &Arc<Connection>, hint: Hint) -> u32 {
        self.watchers.tell_all(hint, sender, self.post)
    }
}
