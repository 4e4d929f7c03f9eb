//! Whether the store may have forgotten data that a quorum relies on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Clock, Ending, Instant, Membership, Quarantine, Server, Standing, Terms, Ttl};

/// The present run of the store, and its record, which is kept with the data.
#[derive(Debug)]
pub(super) struct Node {
    server: Server,
    /// Kept with the data, and lost with them.
    record: Option<Record>,
    /// By how much the clock that ends quarantines was set forward.
    ahead: Duration,
}

#[derive(Debug)]
struct Record {
    /// The run that made the record. The record survives the run, and then has no meaning.
    server: Server,
    quarantine: Quarantine,
    /// The longest lease for which a client has vouched.
    max_ttl: Option<Ttl>,
    membership: Membership,
    /// The longest lease that any client named in the quarantine.
    longest: Ttl,
    /// When the quarantine began. `None` if no clock may end it.
    begun: Option<Instant>,
}

impl Node {
    /// The standing. This begins a quarantine if there is no record of this run, and ends one whose time is over.
    pub(super) fn standing(&mut self, terms: &Terms) -> Standing {
        self.look(terms).standing()
    }

    /// Whether this is the present record.
    pub(super) fn is_known_as(&self, text: &str) -> bool {
        self.present().is_some_and(|record| record.text() == text)
    }

    /// Ends the quarantine, if it is still the named one.
    pub(super) fn vouch(&mut self, quarantine: &Quarantine, max_ttl: Ttl) -> bool {
        let server = &self.server;
        let named = self.record.as_mut().filter(|it| it.server == *server);
        let Some(record) = named.filter(|it| it.quarantine == *quarantine) else { return false };
        record.max_ttl = record.max_ttl.max(Some(max_ttl));
        record.longest = record.longest.max(max_ttl);
        true
    }

    pub(super) fn reassign(&mut self, from: &Membership, terms: &Terms) -> Standing {
        let record = self.look(terms);
        if record.membership == *from {
            record.membership = terms.membership.clone();
        }
        record.standing()
    }

    pub(super) fn admit(&mut self, terms: &Terms) -> Standing {
        self.record = None;
        self.standing(terms)
    }

    pub(super) fn forget(&mut self) {
        self.record = None;
    }

    pub(super) fn restart(&mut self) {
        self.server = Server::new(new_name());
    }

    pub(super) fn set_clock_forward(&mut self, by: Duration) {
        self.ahead += by;
    }

    fn present(&self) -> Option<&Record> {
        self.record.as_ref().filter(|record| record.server == self.server)
    }

    /// The record of this run.
    fn look(&mut self, terms: &Terms) -> &mut Record {
        let now = Clock::tokio().now() + self.ahead;
        let server = self.server.clone();
        let record = match self.record.take() {
            Some(record) if record.server == server => record,
            // A restart ends no membership.
            Some(Record { membership, longest, .. }) => {
                let mut record = Record::new(server, terms, now);
                (record.membership, record.longest) = (membership, record.longest.max(longest));
                record
            }
            None => Record::new(server, terms, now),
        };
        let record = self.record.insert(record);
        record.agree(terms, now);
        record
    }
}

impl Record {
    fn new(server: Server, terms: &Terms, now: Instant) -> Self {
        Self {
            server,
            quarantine: Quarantine::new(new_name()),
            max_ttl: None,
            membership: terms.membership.clone(),
            longest: terms.max_ttl,
            begun: Some(now),
        }
    }

    /// Takes the terms of one more client into account, and ends a quarantine whose time is over.
    fn agree(&mut self, terms: &Terms, now: Instant) {
        if self.max_ttl.is_some() {
            return;
        }
        self.longest = self.longest.max(terms.max_ttl);
        self.begun = self.begun.filter(|_| terms.ending != Ending::Never);
        let passed = self.begun.map(|begun| now.saturating_duration_since(begun));
        let is_over = passed.is_some_and(|passed| passed >= 2 * self.longest.duration());
        if is_over && terms.ending == Ending::ByClock {
            self.max_ttl = Some(self.longest);
        }
    }

    fn text(&self) -> String {
        let most = self.max_ttl.map_or(0, |ttl| ttl.as_millis());
        let (server, quarantine) = (self.server.as_str(), self.quarantine.as_str());
        let begun = self.begun.map_or(0, Instant::as_nanos);
        let (members, longest) = (self.membership.as_str(), self.longest.as_millis());
        format!("{server} {quarantine} {most} {members} {longest} {begun}")
    }

    fn standing(&self) -> Standing {
        let Self { server, quarantine, max_ttl, membership, .. } = self;
        Standing::new(server.clone(), quarantine.clone(), *max_ttl, membership.clone(), self.text())
    }
}

impl Default for Node {
    fn default() -> Self {
        Self { server: Server::new(new_name()), record: None, ahead: Duration::ZERO }
    }
}

/// A name that is unique in this process. No other process sees it.
fn new_name() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("memory-{}", LAST.fetch_add(1, Ordering::Relaxed))
}
