//! The store: one key, a line of claims, and messages to this process.

use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Claim, Contention, Error, FencingToken, Grant, Hint, Instant,
    OwnerToken, Released, Renew, Renewal, TokenRange, Ttl,
};

use super::World;
use super::common::{Answer, TTL, failure};

impl World {
    pub(super) fn expire_stored(&mut self) {
        if self.stored.as_ref().is_some_and(|(_, end, _)| *end <= self.now) {
            self.stored = None;
        }
    }

    pub(super) fn is_ours(&self, owner: OwnerToken) -> bool {
        !rivals().contains(&owner)
    }

    fn tokens(&mut self, count: NonZeroU32) -> TokenRange {
        // Some ranges are adjacent to the one before, others are not.
        let gap = 1 + self.counter % 2;
        let tokens = TokenRange::new(FencingToken::new(self.counter + gap), count);
        self.counter = tokens.last().get();
        tokens
    }

    fn contention(&self) -> Contention {
        match (self.line.is_empty(), self.subscribed) {
            (false, _) => Contention::Contended,
            (true, true) => Contention::Quiet,
            (true, false) => Contention::Unknown,
        }
    }

    /// Hands a free key to the first claim in line. The claim that asks gets its answer, and no message.
    pub(super) fn serve(&mut self, asking: Option<OwnerToken>) {
        self.expire_stored();
        if self.stored.is_some() || self.foreign {
            return;
        }
        let Some((owner, ours)) = self.line.pop_front() else { return };
        let tokens = self.tokens(NonZeroU32::new(3).unwrap());
        let claim = Ttl::new(TTL).unwrap().for_grant();
        // Some of the other processes stay silent when their turn comes.
        let claims = !ours && !self.counter.is_multiple_of(3);
        let time = if claims { TTL } else { claim.duration() };
        self.stored = Some((owner, self.now + time, tokens));
        if ours && asking != Some(owner) {
            let grant =
                Grant::new(tokens, claim.valid_until(self.now)).with_contention(self.contention());
            let grant = (!self.counter.is_multiple_of(5)).then_some(grant);
            self.messages.push(Hint::Granted { owner, grant });
        }
        if let Some(&(next, true)) = self.line.front()
            && asking != Some(next)
        {
            self.messages.push(Hint::Next { owner: next, after: claim.duration() });
        }
    }

    /// Sets the remaining time of the holder of the key.
    pub(super) fn holder_has(&mut self, left: Duration) {
        if let Some((_, end, _)) = &mut self.stored {
            *end = self.now + left;
        }
    }

    pub(super) fn unsubscribe(&mut self) {
        self.subscribed = false;
        self.messages.clear();
    }

    pub(super) fn rival_asks(&mut self) {
        self.serve(None);
        let waits = |rival: &OwnerToken| {
            self.line.iter().any(|(owner, _)| owner == rival)
                || self.stored.as_ref().is_some_and(|(owner, ..)| owner == rival)
        };
        let Some(rival) = rivals().into_iter().find(|rival| !waits(rival)) else { return };
        self.line.push_back((rival, false));
        let ours = self.stored.as_ref().is_some_and(|(owner, ..)| self.is_ours(*owner));
        if self.line.len() == 1 && ours && self.subscribed {
            self.messages.push(Hint::Contended);
        }
        self.serve(None);
    }

    pub(super) fn try_acquire(
        &mut self,
        request: &Acquire,
        answer: Answer,
    ) -> Result<AcquireOutcome, Error> {
        failure(answer, Answer::Lost)?;
        let owner = request.claim.owner;
        self.serve(Some(owner));
        let attempt = match &mut self.stored {
            Some((holder, end, tokens)) if *holder == owner => {
                *end = (*end).max(self.now + TTL);
                let (tokens, end) = (*tokens, *end);
                let grant = Grant::new(tokens, end - Ttl::new(TTL).unwrap().drift());
                AcquireOutcome::Granted(grant.with_contention(self.contention()))
            }
            None if !self.foreign && self.line.is_empty() => {
                let tokens = self.tokens(request.tokens);
                self.stored = Some((owner, self.now + TTL, tokens));
                let until = Ttl::new(TTL).unwrap().valid_until(self.now);
                AcquireOutcome::Granted(
                    Grant::new(tokens, until).with_contention(self.contention()),
                )
            }
            stored => {
                let left = stored.as_ref().map(|(_, end, _)| *end);
                let retry_after = left.map(|end| end.saturating_duration_since(self.now));
                if request.queue && self.subscribed {
                    if !self.line.iter().any(|(waiting, _)| *waiting == owner) {
                        self.line.push_back((owner, true));
                    }
                    AcquireOutcome::Queued { retry_after }
                } else {
                    AcquireOutcome::Busy { retry_after }
                }
            }
        };
        failure(answer, Answer::ReplyLost)?;
        Ok(attempt)
    }

    pub(super) fn delete(
        &mut self,
        claim: &Claim,
        next: Option<&Acquire>,
        answer: Answer,
    ) -> Result<(Released, Option<AcquireOutcome>), Error> {
        self.release_failed |= matches!(answer, Answer::Lost | Answer::Denied);
        failure(answer, Answer::Lost)?;
        self.expire_stored();
        self.line.retain(|(owner, _)| *owner != claim.owner);
        let held = self.stored.as_ref().is_some_and(|(owner, ..)| *owner == claim.owner);
        let mut queued = None;
        if held {
            self.stored = None;
            if let Some(next) = next
                && self.subscribed
                && !self.line.is_empty()
            {
                self.line.push_back((next.claim.owner, true));
                queued = Some(AcquireOutcome::Queued { retry_after: None });
            }
        }
        self.serve(None);
        failure(answer, Answer::ReplyLost)?;
        let told = u32::from(held && std::mem::take(&mut self.bystander));
        Ok(if held { (Released::Freed { told }, queued) } else { (Released::NotHeld, None) })
    }

    pub(super) fn renew(&mut self, request: &Renew, sent: Instant, answer: Answer) -> Renewal {
        if let Err(error) = failure(answer, Answer::Lost) {
            return Renewal::Unknown(error);
        }
        self.expire_stored();
        let (now, contention) = (self.now, self.contention());
        let held = self.stored.as_mut().filter(|(owner, ..)| *owner == request.claim.owner);
        let renewal = match held {
            Some((_, end, _)) => {
                *end = now + TTL;
                // Some stores give few tokens.
                let most = if self.counter.is_multiple_of(3) { u32::MAX } else { 4 };
                let tokens = NonZeroU32::new(request.tokens.min(most)).map(|n| self.tokens(n));
                let valid_until = Ttl::new(TTL).unwrap().valid_until(sent);
                Renewal::Renewed { valid_until, tokens, contention }
            }
            None => Renewal::Lost,
        };
        match failure(answer, Answer::ReplyLost) {
            Ok(()) => renewal,
            Err(error) => Renewal::Unknown(error),
        }
    }
}

/// The acts of other processes.
fn rivals() -> [OwnerToken; 3] {
    [1u128, 2, 3].map(|n| OwnerToken::from_bytes((u128::MAX - n).to_be_bytes()))
}
