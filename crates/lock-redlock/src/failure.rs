//! Errors that name the nodes and what they said.

use std::fmt::Write;

use lock_core::{Error, ErrorKind};

use crate::inner::Core;

/// In which order kinds are chosen that came equally often: what says most comes first.
const ORDER: [ErrorKind; 4] =
    [ErrorKind::Unreachable, ErrorKind::Timeout, ErrorKind::NotReady, ErrorKind::OutOfMemory];

impl<N> Core<N> {
    /// Too few nodes answered as was needed: what each of the others said.
    ///
    /// The kind is one that invites to try again, unless those that will not change their mind are too many.
    pub(crate) fn failure(&self, what: &str, answered: usize, said: &[Option<Error>]) -> Error {
        self.failure_below(self.quorum.needed(), what, answered, said)
    }

    /// The same, where every node is needed.
    pub(crate) fn failure_of_all(
        &self,
        what: &str,
        answered: usize,
        said: &[Option<Error>],
    ) -> Error {
        self.failure_below(self.quorum.nodes(), what, answered, said)
    }

    fn failure_below(
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
        let for_good = said.iter().flatten().filter(|error| !error.is_retryable());
        let of_lease = |error: &&Error| error.kind() == ErrorKind::NotHeld;
        // A few nodes that do not have a lease say nothing of it: the others may.
        let is_over = for_good.clone().filter(of_lease).count() > nodes - needed;
        let cause = if for_good.clone().count() > nodes - needed {
            for_good.clone().find(|error| is_over || !of_lease(error))
        } else {
            most_telling(said)
        };
        match cause {
            Some(cause) => Error::with_source(cause.kind(), message, cause.clone()),
            None => Error::new(ErrorKind::NotReady, message),
        }
    }
}

fn most_telling(said: &[Option<Error>]) -> Option<&Error> {
    let of = |kind| said.iter().flatten().filter(move |error| error.kind() == kind);
    // The last of equals is chosen.
    let kind = ORDER.into_iter().rev().max_by_key(|&kind| of(kind).count())?;
    of(kind).next()
}
