//! Events from outside the process: answers, messages, and the acts of other processes at the store.

use lock_core::{AcquireOutcome, Contention, Error, ErrorKind, Hint, Renewal};

use super::common::Answer;
use super::{JITTER, World};

impl World {
    pub(super) fn answer_attempt(&mut self, answer: Answer) {
        if let Some(request) = self.attempt.take() {
            let result = self.try_acquire(&request, answer);
            self.note_refusal(result.as_ref().ok());
            self.machine.attempt_done(&request.claim, &result);
        }
    }

    /// The first answer to a request that was repeated arrives while the release of its grant is under way.
    pub(super) fn granted_again(&mut self) {
        if let Some((claim, _)) = &self.releasing {
            self.machine.refuse(claim, &Ok(AcquireOutcome::Queued { retry_after: None }));
        }
    }

    pub(super) fn answer_release(&mut self, answer: Answer) {
        if let Some(claim) = self.withdrawing.pop() {
            let _ = self.delete(&claim, None, answer);
        } else if let Some((claim, next)) = self.releasing.take() {
            let result = self.delete(&claim, next.as_ref(), answer);
            self.note_refusal(result.as_ref().ok().and_then(|(_, next)| next.as_ref()));
            self.machine.release_done(&claim, next.map(|next| next.claim).as_ref(), &result);
        } else if let Some((claim, next)) = self.late.pop() {
            // A late answer that is lost leaves the place of the next claim behind, until the place ends by itself.
            self.release_failed |= answer != Answer::Truth;
            let result = self.delete(&claim, next.as_ref(), answer);
            self.machine.release_done(&claim, next.map(|next| next.claim).as_ref(), &result);
        }
    }

    pub(super) fn answer_renewal(&mut self, answer: Answer) {
        if let Some((request, sent)) = self.renewals.pop() {
            let renewal = self.renew(&request, sent, answer);
            let claim = request.claim;
            if matches!(renewal, Renewal::Lost) {
                self.revoked.insert(Some(claim.owner));
            }
            self.machine.renew_done(&claim, sent, &renewal);
        }
    }

    pub(super) fn start_watch(&mut self) {
        if self.watching {
            self.subscribed = true;
            self.machine.watch_started();
        }
    }

    pub(super) fn end_watch(&mut self, failed: bool) {
        if std::mem::take(&mut self.watching) {
            self.unsubscribe();
            let error = Error::new(ErrorKind::Unreachable, "cut");
            self.machine.watch_ended(failed.then_some(&error));
        }
    }

    /// A message arrives. With `again`, it stays and may arrive once more.
    pub(super) fn deliver(&mut self, nth: usize, again: bool) {
        if !self.messages.is_empty() {
            let nth = nth % self.messages.len();
            let message = self.messages[nth].clone();
            if !again {
                self.messages.remove(nth);
            }
            self.hear(message);
        }
    }

    pub(super) fn lose(&mut self, nth: usize) {
        if !self.messages.is_empty() {
            self.messages.remove(nth % self.messages.len());
        }
    }

    /// Another process that asks for no place comes and goes.
    pub(super) fn foreign_comes_or_goes(&mut self, holds: bool) {
        self.expire_stored();
        self.foreign = holds && self.stored.is_none();
        self.serve(None);
    }

    pub(super) fn rival_lets_go(&mut self) {
        if let Some((owner, ..)) = self.stored
            && !self.is_ours(owner)
        {
            self.stored = None;
            self.serve(None);
        }
    }

    pub(super) fn rival_gives_up(&mut self) {
        if let Some(nth) = self.line.iter().rposition(|(_, ours)| !ours) {
            self.line.remove(nth);
            self.serve(None);
        }
    }

    fn hear(&mut self, message: Hint) {
        let (owner, waits) = (self.machine.owner(), self.machine.is_waiting());
        self.machine.hint(message.clone());
        self.machine.settle();
        match message {
            Hint::Contended => {
                let known = self.machine.contention();
                assert!(known.is_none_or(|known| known == Contention::Contended), "unheard");
            }
            Hint::Granted { owner: granted, .. } if owner == Some(granted) && waits => {
                let acts = self.machine.is_held()
                    || self.machine.due_release().is_some()
                    || self.machine.asks();
                assert!(acts, "a grant that the process ignores");
            }
            Hint::Next { owner: next, after } => {
                self.next = Some((next, self.now + after + JITTER));
            }
            _ => {}
        }
    }
}
