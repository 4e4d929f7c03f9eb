//! An operation with a guard.

use lock_core::Instant;
use lock_sync::{LeaseLost, Lost, OwnedSemaphorePermit, SemaphorePermit};
use lock_tests::chaos::history::{Deed, Op, Patience, Way};
use lock_tests::chaos::resource::{Client, Guest};

use super::ending::Ending;
use super::turning::Turning;
use super::{Part, Scribe, Subject, Turned};
use crate::worker::grip::Grip;
use crate::worker::polls::Whim;
use crate::worker::refusal::Denial;
use crate::worker::shelf::permits;

/// A guard, and its rights. Dropping this releases it.
#[derive(Debug)]
pub(crate) struct Holding<G: Grip> {
    pub(super) scribe: Scribe,
    /// The connection to the resource, while the holder is inside.
    visitor: Option<Client>,
    pub(super) parts: Vec<Part>,
    /// Present until the release.
    guard: Option<G>,
}

impl<G: Grip> Holding<G> {
    pub(super) fn new(scribe: Scribe, parts: Vec<Part>, guard: G) -> Self {
        Self::after(scribe, None, parts, guard)
    }

    /// Together with the operations that are inside already.
    pub(super) fn after(
        scribe: Scribe,
        visitor: Option<Client>,
        parts: Vec<Part>,
        guard: G,
    ) -> Self {
        Self { scribe, visitor, parts, guard: Some(guard) }
    }

    /// The guard, unless it was released.
    pub(crate) fn guard(&mut self) -> Option<&mut G> {
        self.guard.as_mut()
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.lease().check().is_ok())
    }

    pub(crate) fn lost(&self) -> Option<Lost> {
        self.guard.as_ref().map(|guard| guard.lease().lost())
    }

    /// Whether the holder may write alone.
    pub(crate) fn writes(&self) -> bool {
        self.parts.iter().any(|part| part.subject.way.is_exclusive())
    }

    /// Records that the lease is lost.
    pub(crate) fn is_lost(&self) {
        self.record(|op| Deed::Lost { op });
    }

    /// Records that the guard is still valid, if it is.
    pub(crate) fn looks(&self) -> bool {
        let at = self.scribe.now();
        let (valid_until, lost) = self.validity(at);
        if lost.is_ok() {
            self.record_at(at, |op| Deed::Still { op, valid_until });
        } else {
            self.is_lost();
        }
        lost.is_ok()
    }

    /// Enters the resource.
    ///
    /// # Panics
    ///
    /// If the resource is gone.
    pub(crate) async fn enter(&mut self, visitor: Client) {
        self.visitor = Some(visitor);
        let (valid_until, _) = self.validity(self.scribe.now());
        let Self { visitor: Some(visitor), parts, .. } = self else { return };
        for (number, Part { subject: Subject { key, way }, token, .. }) in parts.iter().enumerate()
        {
            // Permits that were granted one after the other are inside together.
            if parts[..number].iter().any(|before| before.subject.key == *key) {
                continue;
            }
            let (way, of) = match way {
                Way::Permits(_) => (Way::Permits(permits_of(key, parts)), permits(key)),
                _ => (*way, None),
            };
            let guest = Guest { way, of, token: *token, valid_until };
            present(visitor.enter(key, guest).await);
        }
    }

    /// Writes, with the token of each lock that is held alone.
    ///
    /// # Panics
    ///
    /// If the resource is gone.
    pub(crate) async fn write(&mut self) {
        for index in 0..self.parts.len() {
            let Part { op, subject, token } = self.parts[index];
            if !subject.way.is_exclusive() {
                continue;
            }
            let Some(visitor) = &mut self.visitor else { return };
            let accepted = present(visitor.write(subject.key, token).await);
            let (valid_until, _) = self.validity(self.scribe.now());
            let deed = Deed::Wrote { op, token, accepted, valid_until };
            self.scribe.journal.record_in(self.scribe.era, &deed);
        }
    }

    /// Leaves the resource, and returns the connection.
    ///
    /// # Panics
    ///
    /// If the resource is gone.
    pub(crate) async fn leave(&mut self) -> Option<Client> {
        let Self { visitor: Some(visitor), parts, .. } = self else { return None };
        for part in parts {
            present(visitor.leave(part.subject.key).await);
        }
        self.visitor.take()
    }

    /// Releases, and waits until the store knows; or gives that wait up.
    pub(crate) async fn release(mut self, whim: Whim) {
        let Some((ending, guard)) = self.let_go() else { return };
        let _calling = ending.scribe().calls(ending.parts());
        let released = whim.bear(guard.release()).await;
        ending.released(released);
    }

    /// Converts the hold, or fails to, by the call of `convert` with the guard. For a weaker hold, the
    /// holder is not inside meanwhile.
    pub(crate) async fn turn<'a, H, E, F>(
        mut self,
        (way, patience): (Way, Patience),
        whim: Whim,
        convert: impl FnOnce(G) -> F,
    ) -> Turned<H, G>
    where
        H: Grip,
        E: Denial,
        F: Future<Output = Result<H, (G, E)>> + Send + 'a,
    {
        let at = self.scribe.now();
        let (valid_until, _) = self.validity(at);
        self.record_at(at, |op| Deed::Turn { op, way, patience, valid_until });
        let Some(guard) = self.guard.take() else { return Turned::Over };
        let (scribe, visitor) = (self.scribe.clone(), self.visitor.take());
        let parts = std::mem::take(&mut self.parts);
        let turning = Turning::new(scribe, visitor, parts, valid_until, convert(guard));
        turning.end(way, whim).await
    }

    /// The present word of the guard, some time after `at`: until when it is valid, if it is.
    fn validity(&self, at: Instant) -> (Instant, Result<(), LeaseLost>) {
        let Some(guard) = &self.guard else { return (at, Ok(())) };
        let lost = guard.lease().check();
        let valid_until = self.scribe.journal.dated(guard.lease().valid_until());
        // A lease may be lost before its end.
        (if lost.is_ok() { valid_until } else { valid_until.min(at) }, lost)
    }

    /// Records the release of the guard, and returns the guard.
    pub(super) fn let_go(&mut self) -> Option<(Ending, G)> {
        let at = self.scribe.now();
        let (valid_until, _) = self.validity(at);
        let guard = self.guard.take()?;
        // In this order, as the holder must be outside by then.
        drop(self.visitor.take());
        let parts = std::mem::take(&mut self.parts);
        Some((Ending::begin(self.scribe.clone(), parts, at, valid_until), guard))
    }

    pub(super) fn record(&self, deed: impl Fn(Op) -> Deed) {
        self.record_at(self.scribe.now(), deed);
    }

    fn record_at(&self, at: Instant, deed: impl Fn(Op) -> Deed) {
        self.scribe.record(at, self.parts.iter().map(|part| deed(part.op)));
    }
}

impl<G: Grip> Drop for Holding<G> {
    fn drop(&mut self) {
        if let Some((ending, guard)) = self.let_go() {
            drop(guard);
            drop(ending);
        }
    }
}

/// The operations of permits alone.
pub(crate) trait Permits: Grip + Sized {
    fn split(&mut self, count: u32) -> Option<Self>;

    fn merge(&mut self, other: Self);

    fn forget(self);
}

macro_rules! permits {
    ($($permit:ty),*) => {$(
        impl Permits for $permit {
            fn split(&mut self, count: u32) -> Option<Self> {
                self.split(count as usize)
            }

            fn merge(&mut self, other: Self) {
                self.merge(other);
            }

            fn forget(self) {
                self.forget();
            }
        }
    )*};
}

permits!(SemaphorePermit<'_>, OwnedSemaphorePermit);

impl<G: Permits> Holding<G> {
    /// Releases some of the permits, and keeps the rest: as many as `way` says.
    pub(crate) async fn give(&mut self, count: u32, rest: u32, whim: Whim) {
        let (at, way, patience) = (self.scribe.now(), Way::Permits(rest), Patience::None);
        let (valid_until, _) = self.validity(at);
        self.record_at(at, |op| Deed::Turn { op, way, patience, valid_until });
        if let Some(given) = self.guard.as_mut().and_then(|guard| guard.split(count)) {
            let _calling = self.scribe.calls(&self.parts);
            whim.bear(given.release()).await;
        }
        let Some(guard) = &self.guard else { return };
        let at = self.scribe.now();
        for part in &mut self.parts {
            part.subject.way = way;
            part.token = guard.token(part.subject.key);
        }
        let valid_until = self.scribe.journal.dated(guard.lease().valid_until());
        let turned = |part: &Part| Deed::Turned { op: part.op, token: part.token, valid_until };
        self.scribe.record(at, self.parts.iter().map(turned));
    }

    /// Splits the permits and merges them again: no other task can see that.
    pub(crate) fn shuffle(&mut self) {
        if let Some(guard) = &mut self.guard
            && let Some(part) = guard.split(1)
        {
            guard.merge(part);
        }
    }

    /// Merges the permits of another operation: both are released together.
    pub(crate) fn merge(&mut self, mut other: Self) {
        if let (Some(guard), Some(more)) = (&mut self.guard, other.guard.take()) {
            guard.merge(more);
            self.parts.append(&mut other.parts);
        }
    }

    /// Takes the permits out of the semaphore.
    pub(crate) fn forget(mut self) {
        if let Some(guard) = self.guard.take() {
            drop(self.visitor.take());
            let parts = std::mem::take(&mut self.parts);
            guard.forget();
            self.scribe
                .record(self.scribe.now(), parts.iter().map(|part| Deed::Forgot { op: part.op }));
        }
    }
}

/// The sum of the permits.
fn permits_of(key: &str, parts: &[Part]) -> u32 {
    let count = |part: &Part| match part.subject.way {
        Way::Permits(count) if part.subject.key == key => count,
        _ => 0,
    };
    parts.iter().map(count).sum()
}

/// The resource outlives every worker.
fn present<T>(said: std::io::Result<T>) -> T {
    said.unwrap_or_else(|error| panic!("the resource is gone: {error}"))
}
