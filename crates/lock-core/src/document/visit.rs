//! A request as it arrives at a document.

use std::fmt;
use std::num::NonZeroU32;

use super::fence::Ticks;
use crate::{FencingToken, Hint, Instant};

/// A party that speaks for leases and places, as the store knows the party: a connection, or the name of a client with
/// the name of its proof of life.
///
/// See [`Document`](super::Document#examples) for an example.
pub trait Party: Clone + fmt::Debug {
    /// Whether both parties are one client.
    fn is(&self, other: &Self) -> bool;
}

/// The parties to which a store can send hints. A decision asks the audience which parties live, and gives it the
/// hints.
///
/// See [`Document`](super::Document#examples) for an example.
pub trait Audience<P> {
    /// Whether the party lives and would hear of a grant.
    fn reach(&self, party: &P) -> bool;

    /// Notes a hint for one party.
    fn tell(&mut self, party: &P, hint: Hint);

    /// Notes a hint for every watcher of the key. Returns the number of watching clients without `sender`.
    fn tell_all(&mut self, sender: &P, hint: Hint) -> u32;
}

/// One request: its party, when it was sent and when it arrived, how to number its tokens, and the audience of the
/// decision.
///
/// See [`Document`](super::Document#examples) for an example.
pub struct Visit<'a, P> {
    pub(crate) client: &'a P,
    /// The party of a place that the request gets.
    pub(crate) waiter: &'a P,
    pub(crate) sent: Instant,
    pub(crate) now: Instant,
    pub(crate) ticks: Ticks,
    /// The last token that a quorum wants for the request.
    pub(crate) floor: Option<FencingToken>,
    /// How many requests may wait.
    pub(crate) limit: NonZeroU32,
    pub(crate) audience: &'a mut dyn Audience<P>,
}

impl<'a, P> Visit<'a, P> {
    /// A request that this party sent at `sent` and that arrived at `now`. The document numbers its tokens by the wall
    /// clock, and lets at most 10 000 requests wait.
    pub fn new(
        client: &'a P,
        sent: Instant,
        now: Instant,
        audience: &'a mut dyn Audience<P>,
    ) -> Self {
        let limit = NonZeroU32::new(10_000).unwrap_or(NonZeroU32::MAX);
        let ticks = Ticks::now();
        Self { client, waiter: client, sent, now, ticks, floor: None, limit, audience }
    }

    /// This request, with another party that speaks for its place.
    ///
    /// The [example](super::Document#examples) of a document makes a visit.
    #[must_use]
    pub fn waiting_as(self, waiter: &'a P) -> Self {
        Self { waiter, ..self }
    }

    /// This request, which gets a place only while fewer than `limit` requests wait.
    ///
    /// The [example](super::Document#examples) of a document makes a visit.
    #[must_use]
    pub fn queueing_at_most(self, limit: NonZeroU32) -> Self {
        Self { limit, ..self }
    }
}

impl<P: fmt::Debug> fmt::Debug for Visit<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit")
            .field("client", self.client)
            .field("sent", &self.sent)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
