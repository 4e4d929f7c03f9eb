//! Errors that name the nodes and their answers.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use lock_core::{Error, ErrorKind};

use crate::inner::Core;

/// The order of kinds that came equally often: the error has the first of these kinds, because it
/// says most.
const ORDER: [ErrorKind; 4] =
    [ErrorKind::Unreachable, ErrorKind::Timeout, ErrorKind::NotReady, ErrorKind::OutOfMemory];

impl<N> Core<N> {
    /// Too few nodes gave a useful answer. The error says what each of the others answered. If the reason is a
    /// quarantine, the error also says what to do, and the first such error writes a warning to the log.
    ///
    /// The error is retryable, unless too many nodes have failed for good.
    pub(crate) fn failure(
        &self,
        needed: usize,
        what: &str,
        answered: usize,
        said: &[Option<Error>],
    ) -> Error {
        let nodes = self.quorum.nodes();
        let mut message = format!("{answered} of {nodes} nodes {what}, {needed} are needed");
        let mut separator = ": ";
        for (node, error) in self.nodes.iter().zip(said) {
            if let Some(error) = error {
                let _never = write!(message, "{separator}{}: {error}", node.name);
                separator = "; ";
            }
        }
        if self.is_quarantined() {
            let advice = self.advice();
            if !self.has_advised.swap(true, Ordering::Relaxed) {
                tracing::warn!(target: "lock_redlock", "too few nodes vote: {advice}");
            }
            let _never = write!(message, "; {advice}");
        }
        match cause(said, needed) {
            Some(cause) => Error::with_source(cause.kind(), message, cause.clone()),
            None => Error::new(ErrorKind::NotReady, message),
        }
    }
}

/// The error that names the cause: an error for good if too many nodes have failed for good, or else the most telling one.
fn cause(said: &[Option<Error>], needed: usize) -> Option<&Error> {
    let (spare, of_lease) =
        (said.len() - needed, |error: &&Error| error.kind() == ErrorKind::NotHeld);
    let mut for_good = said.iter().flatten().filter(|error| !error.is_retryable());
    if for_good.clone().count() <= spare {
        return most_telling(said);
    }
    // If some nodes do not have a lease, the others may still have it.
    let is_over = for_good.clone().filter(of_lease).count() > spare;
    for_good.find(|error| is_over || !of_lease(error))
}

fn most_telling(said: &[Option<Error>]) -> Option<&Error> {
    let of = |kind| said.iter().flatten().filter(move |error| error.kind() == kind);
    // `max_by_key` returns the last of several maxima.
    let kind = ORDER.into_iter().rev().max_by_key(|&kind| of(kind).count())?;
    of(kind).next()
}
