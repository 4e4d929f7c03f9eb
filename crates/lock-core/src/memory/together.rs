//! Several keys in one step.

use std::collections::HashSet;
use std::sync::Arc;

use super::connection::Connection;
use super::post::Post;
use super::store::{State, Store};
use crate::document::Prospect;
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
        let times = (sent, Clock::tokio().now());
        let mut post = Post::default();
        let mut state = self.lock();
        let answers = all_or_none(&mut state, requests, client, times, &mut post);
        drop(state);
        post.send();
        answers
    }
}

fn all_or_none(
    state: &mut State,
    requests: &[Acquire],
    client: &Arc<Connection>,
    times: (Instant, Instant),
    post: &mut Post,
) -> Result<Vec<AcquireOutcome>> {
    let mut prospects = Vec::with_capacity(requests.len());
    for request in requests {
        let entry = state.entry(&request.claim.key, times.1);
        prospects.push(entry.visit(client, times, post, |document, mut visit| {
            document.prospect(request, &mut visit)
        })?);
    }
    if prospects.iter().all(|prospect| matches!(prospect, Prospect::Granted)) {
        let mut grant = |request: &Acquire| {
            let entry = state.entry(&request.claim.key, times.1);
            AcquireOutcome::Granted(entry.visit(client, times, post, |document, mut visit| {
                document.grant_now(request, &mut visit)
            }))
        };
        return Ok(requests.iter().map(&mut grant).collect());
    }
    let refusals = prospects.into_iter().map(|prospect| match prospect {
        Prospect::Granted => AcquireOutcome::Busy { retry_after: None },
        Prospect::Refused { retry_after } => AcquireOutcome::Busy { retry_after },
    });
    Ok(refusals.collect())
}
