//! A mutex of the specimen.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{FencingToken, Instant};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::World;
use super::flaw::Flaw;
use super::lease::{Lease, now};
use super::line::{Line, Turn};
use super::link::Failed;
use super::store::{AcquireOutcome, Store};

/// How many times a lock goes from task to task before it is released.
const HANDOVERS: u32 = 16;

/// And for the time of how many leases.
const SPELL: u32 = 4;

/// The pause after a failed request.
const PAUSE: Duration = Duration::from_millis(20);

/// The pause between a refusal and the subscription, so that a release can fall in between.
const DALLY: Duration = Duration::from_millis(15);

/// How much of a lease must be left when it goes to the next task.
const SLICE: Duration = Duration::from_millis(5);

pub(super) struct Mutex {
    world: Arc<World>,
    key: String,
    line: Arc<Line<Term>>,
}

/// A lock of the process, which one task after another may hold.
pub(super) struct Term {
    world: Arc<World>,
    key: String,
    owner: String,
    lease: Arc<Lease>,
    renewal: AbortHandle,
    tokens: Range<u64>,
    handovers: u32,
    since: Instant,
    is_open: bool,
}

/// The owner of this value holds the lock.
pub(super) struct Guard {
    turn: Option<Turn<Term>>,
    term: Option<Term>,
    lease: Arc<Lease>,
    token: FencingToken,
}

/// An owner that may have the lock on the server, without a task here that knows.
struct Claim<'a> {
    mutex: &'a Mutex,
    owner: Option<String>,
}

impl Mutex {
    pub(super) fn new(world: &Arc<World>, key: &str) -> Self {
        let line = Line::new(world.flaw);
        Self { world: Arc::clone(world), key: key.to_owned(), line }
    }

    /// Waits for the lock, within this time. `None` if the time was too short.
    ///
    /// # Cancel safety
    ///
    /// The next task is not held up, and the owner is withdrawn from the server.
    pub(super) async fn lock(&self, limit: Duration) -> Option<Guard> {
        let limit = if self.world.flaw == Flaw::Endless { Duration::MAX } else { limit };
        let end = tokio::time::Instant::now().checked_add(limit);
        let left = || end.map_or(Duration::MAX, |end| end - tokio::time::Instant::now());
        let mut turn = timeout(limit, self.line.turn()).await.ok()?;
        if let Some(term) = turn.left.take() {
            return Some(Guard::new(turn, term));
        }
        let mut claim = Claim { mutex: self, owner: Some(self.world.owner()) };
        match timeout(left(), self.obtain(&claim)).await {
            Ok(term) => {
                claim.owner = None;
                Some(Guard::new(turn, term))
            }
            Err(_) => {
                claim.give_up().await;
                None
            }
        }
    }

    /// Takes the lock if it is free.
    pub(super) async fn try_lock(&self) -> Result<Option<Guard>, Failed> {
        if self.world.is_refused(&self.key) {
            return Ok(None);
        }
        let Some(turn) = self.line.try_turn() else { return Ok(None) };
        let mut claim = Claim { mutex: self, owner: Some(self.world.owner()) };
        let asked = now();
        let owner = claim.owner.clone().unwrap_or_default();
        let attempt = self.world.store.attempt(&self.key, &owner, false).await;
        match attempt {
            Ok(AcquireOutcome::Granted(tokens)) => {
                claim.owner = None;
                Ok(Some(Guard::new(turn, self.term(owner, asked, tokens))))
            }
            Ok(AcquireOutcome::Busy(time)) => {
                claim.owner = None;
                turn.pass(None);
                self.world.refuse(&self.key, time);
                Ok(None)
            }
            Err(Failed) => {
                claim.give_up().await;
                turn.pass(None);
                Err(Failed)
            }
        }
    }

    async fn obtain(&self, claim: &Claim<'_>) -> Term {
        let owner = claim.owner.clone().unwrap_or_default();
        let early = self.world.flaw == Flaw::CheckThenSubscribe;
        let mut pause = match self.ask(&owner, early).await {
            Ok(term) => return term,
            Err(pause) => pause,
        };
        let Store::One(one) = &self.world.store else {
            loop {
                sleep(pause).await;
                pause = match self.ask(&owner, true).await {
                    Ok(term) => return term,
                    Err(pause) => pause,
                };
            }
        };
        sleep(DALLY).await;
        let listener = match &self.world.ears {
            Some(ears) => Some(ears.listen(one.channel(&self.key, &owner)).await),
            None => None,
        };
        if early {
            self.rest(listener.as_ref().map(|listener| &*listener.told), pause).await;
        }
        loop {
            match self.ask(&owner, true).await {
                Ok(term) => return term,
                Err(pause) => {
                    self.rest(listener.as_ref().map(|listener| &*listener.told), pause).await;
                }
            }
        }
    }

    /// Sleeps for this time, or until a message comes.
    async fn rest(&self, told: Option<&tokio::sync::Notify>, pause: Duration) {
        let relies = told.is_some() && self.world.flaw.relies_on_messages();
        let pause = if relies { Duration::MAX } else { pause.min(self.world.store.nap()) };
        let pause = sleep(pause);
        match told {
            Some(told) => tokio::select! {
                () = told.notified() => {}
                () = pause => {}
            },
            None => pause.await,
        }
    }

    /// Asks once. If refused, returns when to ask again.
    async fn ask(&self, owner: &str, waits: bool) -> Result<Term, Duration> {
        let asked = now();
        match self.world.store.attempt(&self.key, owner, waits).await {
            Ok(AcquireOutcome::Granted(tokens)) => {
                let term = self.term(owner.to_owned(), asked, tokens);
                // The answer took as long as the lease.
                if term.lease.lasts(Duration::ZERO) {
                    Ok(term)
                } else {
                    term.give_back().await;
                    Err(PAUSE)
                }
            }
            Ok(AcquireOutcome::Busy(time)) => Err(time),
            Err(Failed) => Err(PAUSE),
        }
    }

    fn term(&self, owner: String, asked: Instant, tokens: Range<u64>) -> Term {
        let lease = Lease::new(self.world.ttl, self.world.flaw, asked);
        let (world, key, name) = (Arc::clone(&self.world), self.key.clone(), owner.clone());
        let renewal = lease.keep(move || {
            let (world, key, owner) = (Arc::clone(&world), key.clone(), name.clone());
            async move { world.store.renew(&key, &owner).await }
        });
        Term {
            world: Arc::clone(&self.world),
            key: self.key.clone(),
            owner,
            lease,
            renewal,
            tokens,
            handovers: 0,
            since: now(),
            is_open: true,
        }
    }
}

impl Term {
    /// Whether another task of the process may have it: not if other processes have waited too long.
    fn may_go_on(&self) -> bool {
        let world = &self.world;
        let lasts = self.lease.lasts(SLICE) || world.flaw == Flaw::NoDeadlineCheck;
        let is_short = now().saturating_duration_since(self.since) < world.ttl * SPELL;
        let may_stay = !world.fair && is_short && self.handovers < HANDOVERS - 1;
        lasts && (may_stay || world.flaw == Flaw::NoBudget)
    }

    /// Releases it. Returns whether the server has confirmed that.
    async fn give_back(mut self) -> bool {
        self.is_open = false;
        self.renewal.abort();
        self.world.store.release(&self.key, &self.owner).await.is_ok()
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.renewal.abort();
        if self.is_open {
            let (world, key) = (Arc::clone(&self.world), std::mem::take(&mut self.key));
            let owner = std::mem::take(&mut self.owner);
            self.world.later(async move { _ = world.store.release(&key, &owner).await });
        }
    }
}

impl Guard {
    fn new(turn: Turn<Term>, mut term: Term) -> Self {
        let reused = term.world.flaw == Flaw::ReusedToken;
        let number = if reused { term.tokens.end - 1 } else { term.tokens.next().unwrap_or(0) };
        let (lease, token) = (Arc::clone(&term.lease), FencingToken::new(number));
        Self { turn: Some(turn), term: Some(term), lease, token }
    }

    pub(super) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// The owner that holds the lock on the server.
    pub(super) fn owner(&self) -> &str {
        self.term.as_ref().map_or("", |term| &term.owner)
    }

    pub(super) fn token(&self) -> FencingToken {
        self.token
    }

    /// Releases. Returns whether the server has confirmed that, or the next task has the lock.
    pub(super) async fn leave(mut self) -> bool {
        let (Some(turn), Some(term)) = (self.turn.take(), self.term.take()) else { return true };
        match hand_over(turn, term) {
            None => true,
            Some((turn, term)) => {
                let confirmed = term.give_back().await;
                turn.pass(None);
                confirmed
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let (Some(turn), Some(term)) = (self.turn.take(), self.term.take())
            && let Some((turn, term)) = hand_over(turn, term)
        {
            drop(term);
            turn.pass(None);
        }
    }
}

/// To the next task. Returns the lock if there is no next task, or the lock may not stay here.
fn hand_over(turn: Turn<Term>, mut term: Term) -> Option<(Turn<Term>, Term)> {
    if !term.may_go_on() || !turn.is_wanted() {
        return Some((turn, term));
    }
    term.handovers += 1;
    if term.world.flaw == Flaw::NoDeadlineCheck {
        term.lease.pretend();
    }
    // If there was no task after all, the lock is dropped, and so released.
    drop(turn.pass(Some(term)));
    None
}

impl Claim<'_> {
    /// Withdraws the owner from the server, and returns when the server has confirmed that.
    async fn give_up(mut self) {
        if let Some(owner) = &self.owner {
            _ = self.mutex.world.store.withdraw(&self.mutex.key, owner).await;
            self.owner = None;
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.take() {
            let (world, key) = (Arc::clone(&self.mutex.world), self.mutex.key.clone());
            self.mutex.world.later(async move { _ = world.store.withdraw(&key, &owner).await });
        }
    }
}
