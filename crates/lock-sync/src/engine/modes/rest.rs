//! How events are run, and how a test comes to rest.

use std::time::Duration;

use lock_core::{Mode, PermitBackend};
use tokio::runtime::Builder;

use super::events::Event;
use super::{OF, Sent, World};
use crate::engine::manner::Manner;
use crate::engine::policy::Policy;
use crate::engine::tests::common::{Answer, TTL};

impl World {
    /// Brings everything under way to an end. With `let_go`, the holders let go.
    async fn settle(&mut self, time: Duration, let_go: bool) {
        let mut passed = Duration::ZERO;
        let mut looks = 0;
        for _ in 0..5_000 {
            self.hear();
            if !self.woken.is_empty() || self.upgrade_woken {
                self.event(Event::Run).await;
            } else if self.release_asked {
                self.event(Event::TakeRelease).await;
            } else if !self.sent.is_empty() {
                self.event(Event::Answer(0, Answer::Truth)).await;
            } else if self.watch_asked && self.watch.is_none() {
                self.event(Event::Watch(true)).await;
            } else if !self.messages.is_empty() {
                self.event(Event::Deliver(0)).await;
            } else if !(self.holding.is_empty() && self.readers.is_empty()) && let_go {
                self.event(Event::Release(0)).await;
            } else if let Some(deadline) = self.machine.next
                && passed < time
            {
                let pause = deadline.at.saturating_duration_since(self.now());
                looks = if pause.is_zero() { looks + 1 } else { 0 };
                assert!(looks < 10, "a look that changes nothing: {:?}", self.machine);
                let pause = pause + Duration::from_millis(1);
                passed = passed.saturating_add(pause);
                self.event(Event::Advance(pause.as_millis() as u64)).await;
            } else {
                break;
            }
        }
        if let_go {
            let back = self.machine.returned(&self.returns).is_some();
            assert!(back, "a query waits for nothing: {:?}", self.machine);
        }
    }

    /// The store answers every request at once and with the same answer. Time stands still, so all must come to rest.
    pub(super) async fn storm(&mut self, answer: Answer, hears: bool) {
        self.event(Event::Watch(hears)).await;
        for round in 0..400 {
            self.hear();
            if !self.woken.is_empty() || self.upgrade_woken {
                self.event(Event::Run).await;
            } else if self.release_asked {
                self.event(Event::TakeRelease).await;
            } else if let Some(nth) =
                self.sent.iter().position(|sent| !matches!(sent, Sent::Withdraw(..)))
            {
                self.event(Event::Answer(nth, answer)).await;
            } else if hears && !self.messages.is_empty() {
                self.event(Event::Deliver(0)).await;
            } else {
                return;
            }
            assert!(round < 300, "no rest while time stands still: {:?}", self.sent);
        }
    }

    /// From here on the store answers, no new process comes, and holders let go. So all must come to rest.
    pub(super) async fn come_to_rest(&mut self) {
        for nth in 0..self.rivals.len() {
            self.event(Event::RivalLeaves(nth)).await;
        }
        while self.forgotten > 0 && !self.waiters.is_empty() {
            // There may never be enough permits for these waiters.
            self.event(Event::Cancel(0)).await;
        }
        self.settle(Duration::from_secs(15), false).await;
        self.check_no_waiter_waits_for_nothing();
        self.settle(Duration::MAX, true).await;
        let waiting: Vec<_> = self.waiters.keys().collect();
        assert!(waiting.is_empty(), "waiters without an end: {waiting:?} {:?}", self.machine);
        assert!(self.upgrading.is_none(), "an upgrade without an end: {:?}", self.machine);
        assert!(self.machine.is_idle(), "no rest: {:?}", self.machine);
        assert!(self.watch.is_none(), "a watch was left behind");
        if self.failed {
            tokio::time::advance(TTL * 3).await;
        }
        assert_eq!(self.store.live_leases(), 0, "left behind on the store");
        if self.wants.iter().any(|want| want.counts()) && !self.failed {
            let state = self.ours.permits(&self.key, OF).await.unwrap();
            assert_eq!((state.held, state.waiting), (0, 0));
            // Forgotten permits are gone for good, unless their lease ended before the store heard of it.
            assert!((OF - self.forgotten..=OF).contains(&state.limit), "{state:?}");
        }
    }
}

/// Runs a test under paused time.
pub(super) fn tell(story: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(story);
}

/// Runs these events, and lets all come to rest.
pub(super) fn run(
    policy: Policy,
    manner: Manner,
    wants: Vec<Mode>,
    few: Option<u32>,
    events: Vec<Event>,
) {
    tell(async move {
        let mut world = World::new(policy, manner, wants, few).await;
        for event in events {
            world.event(event).await;
        }
        world.come_to_rest().await;
    });
}
