//! The end of a test: everything comes to rest.

use super::World;
use super::common::Answer;
use super::events::Event;

impl World {
    /// The store answers every request at once and with the same answer. Time stands still, so all must come to rest.
    pub(super) fn storm(&mut self, answer: Answer) {
        for round in 0.. {
            if !self.woken.is_empty() {
                self.event(Event::Run);
            } else if self.attempt.is_some() {
                self.event(Event::AnswerAttempt(answer));
            } else if !self.withdrawing.is_empty() {
                self.withdrawing.clear();
            } else if self.releasing.is_some() || !self.late.is_empty() {
                self.event(Event::AnswerRelease(answer));
            } else if self.release_asked {
                self.event(Event::TakeRelease);
            } else if !self.renewals.is_empty() {
                self.event(Event::AnswerRenewal(answer));
            } else {
                return;
            }
            assert!(round < 300, "no rest while time stands still: {:?}", self.machine);
        }
    }
    /// From here on the store answers, no new process comes, and holders let go. So all must come to rest.
    pub(super) fn come_to_rest(&mut self) {
        (self.foreign, self.bystander) = (false, false);
        self.line.retain(|(_, ours)| *ours);
        for _ in 0..10_000 {
            if !self.woken.is_empty() {
                self.event(Event::Run);
            } else if self.attempt.is_some() {
                self.event(Event::AnswerAttempt(Answer::Truth));
            } else if self.releasing.is_some()
                || !self.late.is_empty()
                || !self.withdrawing.is_empty()
            {
                self.event(Event::AnswerRelease(Answer::Truth));
            } else if self.release_asked {
                self.event(Event::TakeRelease);
            } else if self.holding.is_some() {
                self.event(Event::Release);
            } else if !self.renewals.is_empty() {
                self.event(Event::AnswerRenewal(Answer::Truth));
            } else if !self.messages.is_empty() {
                self.event(Event::Deliver { nth: 0, again: false });
            } else if let Some(deadline) = self.machine.next {
                let pause = deadline.at.saturating_duration_since(self.now);
                self.event(Event::Advance(pause.as_millis() as u64 + 1));
            } else {
                break;
            }
        }
        assert!(self.waiters.is_empty(), "waiters without an end: {:?}", self.waiters);
        assert!(self.machine.is_idle(), "no rest: {:?}", self.machine);
        self.expire_stored();
        let ours = self.stored.as_ref().is_some_and(|(owner, ..)| self.is_ours(*owner));
        assert!(self.release_failed || !ours, "left behind on the store");
        assert!(self.release_failed || self.line.is_empty(), "a place was left behind");
        assert!(!self.watching, "a watch was left behind");
    }
}
