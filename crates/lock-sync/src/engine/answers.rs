//! What the store answers.

use std::sync::Arc;

use lock_core::{Attempt, Claim, Error, Instant, Released, Renewal};

use super::Entry;

impl Entry {
    pub(super) fn attempt_done(self: &Arc<Self>, claim: &Claim, result: Result<Attempt, Error>) {
        self.event(|machine, pass| machine.attempt_done(claim, result, pass));
    }

    pub(super) fn attempt_repeated(self: &Arc<Self>, claim: &Claim) {
        self.event(|machine, _| machine.attempt_repeated(claim));
    }

    pub(super) fn convert_done(self: &Arc<Self>, claim: &Claim, result: Result<Attempt, Error>) {
        if let Err(error) = &result {
            tracing::debug!(key = %self.key, %error, "a lease could not be made weaker");
        }
        self.event(|machine, pass| machine.convert_done(claim, result, pass));
    }

    pub(super) fn release_done(
        self: &Arc<Self>,
        claim: &Claim,
        result: Result<(Released, Option<Attempt>), Error>,
    ) {
        if let Err(error) = &result {
            tracing::warn!(key = %self.key, %error, retried = error.is_retryable(), "a release failed");
        }
        self.event(|machine, pass| machine.release_done(claim, result, pass));
    }

    pub(super) fn renew_done(self: &Arc<Self>, claim: &Claim, sent: Instant, renewal: Renewal) {
        if let Renewal::Unknown(error) = &renewal {
            tracing::debug!(key = %self.key, %error, "a renewal failed");
        }
        self.event(|machine, pass| {
            machine.renew_done(claim, sent, renewal, pass);
        });
    }

    /// A claim turned out to be held. Unless it is the one that this process wants, it is released.
    pub(super) fn forget_unless_known(self: &Arc<Self>, claim: Claim) {
        self.event(|machine, pass| machine.forget_unless_known(claim, pass));
    }
}
