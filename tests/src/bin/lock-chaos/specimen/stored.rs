//! The work with the stored mutex of the specimen.

use std::sync::Arc;
use std::time::Duration;

use lock_core::FencingToken;
use lock_tests::chaos::history::{Patience, Refusal, Sight, Way};
use tokio::time::{Instant, sleep};

use super::World;
use super::flaw::Flaw;
use super::mutex::Mutex;
use super::page::Pages;
use super::traffic::{Task, failed};

pub(super) const STORED: &str = "v0";

/// How often a stream looks for a new version.
const LOOKS: Duration = Duration::from_millis(30);

/// A mutex, and the value beside it.
pub(super) struct Stored {
    mutex: Mutex,
    pages: Pages,
}

impl Stored {
    pub(super) fn new(world: &Arc<World>, key: &str) -> Self {
        Self { mutex: Mutex::new(world, key), pages: Pages::new(world, key) }
    }
}

impl Task<'_> {
    /// Changes the value, reads it, or follows it. Returns whether it got what it asked for.
    pub(super) async fn change(&mut self) -> bool {
        match self.random.below(40) {
            0..10 => self.peek().await,
            10 => self.follow().await,
            _ => self.store().await,
        }
    }

    async fn peek(&self) -> bool {
        let entry = self.locks.world.journal.peek(self.number, STORED);
        match self.locks.stored.pages.load().await {
            Ok(sight) => entry.peeked(sight),
            Err(_) => entry.not(failed()),
        }
        true
    }

    /// Follows the versions for a while.
    async fn follow(&mut self) -> bool {
        let locks = self.locks;
        let time = self.random.between(LOOKS, Duration::from_secs(3) + 3 * locks.options.ttl);
        let (end, mut last) = (Instant::now() + time, None::<FencingToken>);
        let entry = locks.world.journal.follow(self.number, STORED);
        let mut is_deaf = false;
        while Instant::now() < end {
            if let Ok(sight) = locks.stored.pages.load().await
                && sight.version > last
                && !is_deaf
            {
                last = sight.version;
                entry.heard(sight);
                // No message comes: the next version was there before the subscription.
                is_deaf = locks.world.flaw == Flaw::DeafStream;
            }
            sleep(LOOKS).await;
        }
        entry.unfollow();
        true
    }

    async fn store(&mut self) -> bool {
        let locks = self.locks;
        let Stored { mutex, pages } = &locks.stored;
        let is_early = locks.world.flaw == Flaw::EarlyLoad;
        let early = if is_early { pages.load().await.ok() } else { None };
        let wait = locks.options.wait_limit;
        let held;
        let mut entry =
            locks.world.journal.ask(self.number, STORED, Way::Write, Patience::Within(wait));
        held = match mutex.lock(wait).await {
            Some(held) => held,
            None => {
                entry.not(Refusal::TimedOut);
                return false;
            }
        };
        entry.got(held.token(), held.lease());
        let (token, lease) = (held.token(), Arc::clone(held.lease()));
        let found = match early {
            Some(found) => Ok(found),
            None => pages.load().await,
        };
        // A holder that stood still may find what others have stored since.
        if let Ok(found) = found
            && lease.lasts(Duration::ZERO)
        {
            entry.found(found);
            self.section(&entry, STORED, (Way::Write, token), &lease).await;
            if let (Sight { value: Some(base), .. }, true) = (found, self.random.percent(90)) {
                let value = locks.world.value();
                entry.store(value, base);
                let answer = pages.store(held.owner(), value, token).await.ok();
                entry.stored(token, answer);
            }
        }
        entry.leave();
        let confirmed = held.leave().await;
        entry.left(confirmed);
        true
    }
}
