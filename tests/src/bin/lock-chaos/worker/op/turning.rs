//! The conversion of a hold.

use std::pin::Pin;

use lock_core::Instant;
use lock_tests::chaos::history::{Deed, Refusal, Way};
use lock_tests::chaos::resource::Client;

use super::ending::Ending;
use super::{Holding, Part, Scribe};
use crate::worker::grip::Grip;
use crate::worker::polls::Whim;
use crate::worker::refusal::Denial;

/// A guard that is being converted. Dropping this releases everything.
pub(super) struct Turning<'a, H, G, E> {
    scribe: Scribe,
    visitor: Option<Client>,
    parts: Vec<Part>,
    /// The validity of the guard at the beginning.
    valid_until: Instant,
    /// Present until the conversion ends.
    future: Option<Converting<'a, H, G, E>>,
}

type Converting<'a, H, G, E> = Pin<Box<dyn Future<Output = Result<H, (G, E)>> + Send + 'a>>;

/// The outcome.
pub(crate) enum Turned<H: Grip, G: Grip> {
    /// The conversion succeeded.
    Yes(Holding<H>),
    /// The hold is unchanged.
    No(Holding<G>),
    /// The conversion was given up, and the lock with it.
    Over,
}

impl<'a, H: Grip, G: Grip, E: Denial> Turning<'a, H, G, E> {
    pub(super) fn new(
        scribe: Scribe,
        visitor: Option<Client>,
        parts: Vec<Part>,
        valid_until: Instant,
        future: impl Future<Output = Result<H, (G, E)>> + Send + 'a,
    ) -> Self {
        Self { scribe, visitor, parts, valid_until, future: Some(Box::pin(future)) }
    }

    /// Waits for the end of the conversion.
    pub(super) async fn end(mut self, way: Way, whim: Whim) -> Turned<H, G> {
        let calling = self.scribe.calls(&self.parts);
        let done = match &mut self.future {
            Some(future) => whim.bear(future).await,
            None => None,
        };
        let Some(done) = done else { return Turned::Over };
        drop(calling);
        let at = self.scribe.now();
        drop(self.future.take());
        let (scribe, visitor) = (self.scribe.clone(), self.visitor.take());
        let mut parts = std::mem::take(&mut self.parts);
        match done {
            Ok(guard) => {
                for part in &mut parts {
                    part.subject.way = way;
                    part.token = guard.token(part.subject.key);
                }
                let valid_until = scribe.journal.dated(guard.lease().valid_until());
                let turned =
                    |part: &Part| Deed::Turned { op: part.op, token: part.token, valid_until };
                scribe.record(at, parts.iter().map(turned));
                Turned::Yes(Holding::after(scribe, visitor, parts, guard))
            }
            Err((guard, error)) => {
                let why = error.refusal();
                let kept = |part: &Part| Deed::Kept { op: part.op, why: why.clone() };
                scribe.record(at, parts.iter().map(kept));
                let holding = Holding::after(scribe, visitor, parts, guard);
                if why == Refusal::Lost {
                    holding.is_lost();
                }
                Turned::No(holding)
            }
        }
    }
}

impl<H, G, E> Drop for Turning<'_, H, G, E> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            drop(self.visitor.take());
            let parts = std::mem::take(&mut self.parts);
            let at = self.scribe.now();
            let ending = Ending::begin(self.scribe.clone(), parts, at, self.valid_until);
            drop(future);
            drop(ending);
        }
    }
}
