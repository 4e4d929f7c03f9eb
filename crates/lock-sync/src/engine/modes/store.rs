//! The store, its answers and its messages, and the requests of the other processes.

use futures::FutureExt;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, ConvertBackend, Error, ErrorKind, Hint, Instant,
    OwnerToken, PermitBackend, Released, Renewal, Ttl,
};

use super::{Sent, World};
use crate::engine::machine::Ending;
use crate::engine::tests::common::{Answer, TTL, failure};
use crate::engine::verb::release;

/// An answer of the store.
#[derive(Debug)]
pub(super) enum Reply {
    Attempt(Claim, Result<AcquireOutcome, Error>),
    Convert(Claim, Result<AcquireOutcome, Error>),
    Renew(Claim, Instant, Renewal),
    /// With the claim that asked for a place in the same step.
    Release(Claim, Option<Claim>, Result<(Released, Option<AcquireOutcome>), Error>),
}

impl Reply {
    /// The client gets this error in place of the answer.
    fn lost(self, error: Error) -> Self {
        match self {
            Self::Attempt(claim, _) => Self::Attempt(claim, Err(error)),
            Self::Convert(claim, _) => Self::Convert(claim, Err(error)),
            Self::Renew(claim, sent, _) => Self::Renew(claim, sent, Renewal::Unknown(error)),
            Self::Release(claim, next, _) => Self::Release(claim, next, Err(error)),
        }
    }
}

impl World {
    /// The client gets the answer to a request.
    pub(super) async fn answer(&mut self, nth: usize, answer: Answer) {
        if self.sent.is_empty() {
            return;
        }
        self.failed |= answer != Answer::Truth;
        let reply = match self.sent.remove(nth % self.sent.len()) {
            Sent::Answered(reply) if answer == Answer::Truth => Some(reply),
            Sent::Answered(reply) => Some(reply.lost(Error::new(ErrorKind::Unreachable, "lost"))),
            sent => self.serve(sent, answer).await,
        };
        match reply {
            Some(Reply::Attempt(claim, result)) => self.machine.attempt_done(&claim, &result),
            Some(Reply::Convert(claim, result)) => self.machine.convert_done(&claim, &result),
            Some(Reply::Renew(claim, sent, it)) => self.machine.renew_done(&claim, sent, &it),
            Some(Reply::Release(claim, next, result)) => {
                self.history.releases.retain(|(owner, _)| *owner != claim.owner);
                self.machine.release_done(&claim, next.as_ref(), &result);
            }
            None => {}
        }
    }

    /// The store carries out a request, and its answer stays on the way.
    pub(super) async fn delay(&mut self, nth: usize) {
        if self.sent.is_empty() {
            return;
        }
        let reply = match self.sent.remove(nth % self.sent.len()) {
            Sent::Answered(reply) => Some(reply),
            sent => self.serve(sent, Answer::Truth).await,
        };
        self.sent.extend(reply.map(Sent::Answered));
    }

    async fn serve(&mut self, mut sent: Sent, answer: Answer) -> Option<Reply> {
        if let Some(few) = self.few {
            sent.ask_for(few);
        }
        Some(match sent {
            Sent::Attempt(request) => {
                let result = heard(answer, self.ours.try_acquire(&request)).await;
                Reply::Attempt(request.claim, result)
            }
            Sent::Convert(convert) => {
                assert!(self.converts, "the store cannot do that: {convert:?}");
                let result = heard(answer, self.ours.convert(&convert)).await;
                Reply::Convert(convert.request.claim, result)
            }
            Sent::Renew(request, sent) => {
                let renewed = heard(answer, async { Ok(self.ours.renew(&request).await) }).await;
                let renewal = renewed.unwrap_or_else(Renewal::Unknown);
                Reply::Renew(request.claim, sent, renewal)
            }
            Sent::Release(ending) => {
                let result = heard(answer, self.end(&ending)).await;
                Reply::Release(ending.claim, ending.next.map(|next| next.claim), result)
            }
            // The driver repeats the request until it succeeds.
            Sent::Withdraw(..) if matches!(answer, Answer::Lost | Answer::Denied) => {
                self.sent.push(sent);
                return None;
            }
            Sent::Withdraw(claim, other) => {
                let _ = release(&self.ours, &claim, other).await.unwrap();
                return None;
            }
            Sent::Answered(reply) => reply,
        })
    }

    async fn end(&self, ending: &Ending) -> Result<(Released, Option<AcquireOutcome>), Error> {
        let Ending { claim, other, next, forget, .. } = ending;
        match next {
            _ if *forget => Ok((PermitBackend::forget(&self.ours, claim).await?, None)),
            Some(next) => self.ours.release_and_requeue(claim, next).await,
            None => Ok((release(&self.ours, claim, *other).await?, None)),
        }
    }

    pub(super) async fn toggle_watch(&mut self, on: bool) {
        if !self.watch_asked {
            return;
        }
        if on && self.watch.is_none() {
            self.watch = Some(self.ours.watch(&self.key).await.unwrap());
            self.machine.watch_started();
        } else if !on {
            self.watch = None;
            self.watch_asked = false;
            self.messages.clear();
            self.machine.watch_ended(None);
        }
    }

    pub(super) fn hear(&mut self) {
        if let Some(watch) = &mut self.watch {
            while let Some(Some(hint)) = watch.next().now_or_never() {
                self.messages.push(hint);
            }
        }
    }

    /// Takes out a message that is on its way.
    pub(super) fn next_message(&mut self, nth: usize) -> Option<Hint> {
        self.hear();
        let nth = nth.checked_rem(self.messages.len())?;
        Some(self.messages.remove(nth))
    }

    pub(super) async fn rival_leaves(&mut self, nth: usize) {
        let nth = nth % self.rivals.len();
        if let Some(claim) = self.rivals[nth].claim.take() {
            self.end_of(claim.owner);
            let _ = self.rivals[nth].client.release(&claim).await.unwrap();
        }
    }

    pub(super) async fn rival_asks(&mut self, nth: usize, want: usize) {
        let nth = nth % self.rivals.len();
        let want = self.wants[want % self.wants.len()];
        let ttl = Ttl::new(TTL).unwrap();
        self.trouble_upgrade();
        let rival = &mut self.rivals[nth];
        if rival.claim.is_none() {
            rival.began = self.events;
        }
        let claim = rival.claim.clone().unwrap_or_else(|| {
            Claim::exclusive(self.key.clone(), OwnerToken::generate().unwrap()).in_mode(want)
        });
        rival.claim = Some(claim.clone());
        let request = Acquire::new(claim, ttl).queued();
        let (began, mode, owner) = (rival.began, request.claim.mode, request.claim.owner);
        let answer = rival.client.try_acquire(&request).await;
        rival.until = match &answer {
            Ok(AcquireOutcome::Granted(grant)) => grant.valid_until,
            _ => Instant::from_nanos(0),
        };
        if let Ok(AcquireOutcome::Granted(grant)) = answer {
            let token = grant.tokens.first().get();
            self.granted(began, token, mode);
            if mode.counts() {
                self.history.permits.push((owner, token));
            }
        }
    }
}

/// The answer that the client gets to a request.
async fn heard<T>(
    answer: Answer,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    failure(answer, Answer::Lost)?;
    let result = request.await;
    failure(answer, Answer::ReplyLost)?;
    result
}
