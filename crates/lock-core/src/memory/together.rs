//! Several keys in one step.

use std::collections::HashSet;
use std::sync::Arc;

use super::connection::Connection;
use super::entry::Prospect;
use super::post::Post;
use super::store::{State, Store};
use super::visit::Visit;
use crate::{Acquire, AcquireOutcome, Clock, Error, ErrorKind, Instant, Result};

impl Store {
    /// Grants all requests or none.
    ///
    /// A request that could have been granted, had another key not been busy, is refused without a time.
    pub(super) fn try_acquire_all(
        &self,
        requests: &[Acquire],
        client: &Arc<Connection>,
        sent: Instant,
    ) -> Result<Vec<AcquireOutcome>> {
        let mut keys = HashSet::new();
        if !requests.iter().all(|request| keys.insert(&request.claim.key)) {
            let message = "two of the leases that were asked for together are for one key";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let visit = Visit::new(client, sent, Clock::tokio().now());
        let mut post = Post::default();
        let mut state = self.lock();
        let answers = all_or_none(&mut state, requests, &visit, &mut post);
        drop(state);
        post.send();
        answers
    }
}

fn all_or_none(
    state: &mut State,
    requests: &[Acquire],
    visit: &Visit<'_>,
    post: &mut Post,
) -> Result<Vec<AcquireOutcome>> {
    let mut prospects = Vec::with_capacity(requests.len());
    for request in requests {
        let entry = state.entry(&request.claim.key, visit.now);
        prospects.push(entry.prospect(request, visit, post)?);
    }
    if prospects.iter().all(|prospect| matches!(prospect, Prospect::Granted)) {
        let grant = |request: &Acquire| {
            let entry = state.entry(&request.claim.key, visit.now);
            AcquireOutcome::Granted(entry.grant_now(request, visit))
        };
        return Ok(requests.iter().map(grant).collect());
    }
    let refusals = prospects.into_iter().map(|prospect| match prospect {
        Prospect::Granted => AcquireOutcome::Busy { retry_after: None },
        Prospect::Refused { retry_after } => AcquireOutcome::Busy { retry_after },
    });
    Ok(refusals.collect())
}
