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
use super::store::{Attempt, Store};

/// How many times a lock goes from task to task before it is given back.
const HANDOVERS: u32 = 16;

/// And for how many leases.
const SPELL: u32 = 4;

/// After a request that failed.
const PAUSE: Duration = Duration::from_millis(20);

/// Between being refused and listening, so that what may happen in between does.
const DALLY: Duration = Duration::from_millis(15);

/// How much of a lease is to be left when it goes to the next task.
const SLICE: Duration = Duration::from_millis(5);

pub(super) struct Mutex {
    world: Arc<World>,
    key: String,
    line: Arc<Line<Term>>,
}

/// A lock that the process has, to be held by one task after another.
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

/// Whoever has this holds the lock.
pub(super) struct Guard {
    turn: Option<Turn<Term>>,
    term: Option<Term>,
    lease: Arc<Lease>,
    token: FencingToken,
}

/// An owner that may have the lock on the server, without anybody here who knows.
struct Claim<'a> {
    mutex: &'a Mutex,
    owner: Option<String>,
}

impl Mutex {
    pub(super) fn new(world: &Arc<World>, key: &str) -> Self {
        let line = Line::new(world.flaw);
        Self { world: Arc::clone(world), key: key.to_owned(), line }
    }

    /// Waits for the lock, for so long. `None` if that was too short.
    ///
    /// # Cancel safety
    ///
    /// Whoever comes next is not held up, and what the server knows of this one is taken back.
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
            Ok(Attempt::Granted(tokens)) => {
                claim.owner = None;
                Ok(Some(Guard::new(turn, self.term(owner, asked, tokens))))
            }
            Ok(Attempt::Busy(time)) => {
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

    /// Sleeps for so long, or until something is said.
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

    /// Asks once; when to ask again otherwise.
    async fn ask(&self, owner: &str, waits: bool) -> Result<Term, Duration> {
        let asked = now();
        match self.world.store.attempt(&self.key, owner, waits).await {
            Ok(Attempt::Granted(tokens)) => {
                let term = self.term(owner.to_owned(), asked, tokens);
                // The answer took as long as the lease.
                if term.lease.lasts(Duration::ZERO) {
                    Ok(term)
                } else {
                    term.give_back().await;
                    Err(PAUSE)
                }
            }
            Ok(Attempt::Busy(time)) => Err(time),
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
    /// Whether another task may have it, for as long as others have not had it for too long.
    fn may_go_on(&self) -> bool {
        let world = &self.world;
        let lasts = self.lease.lasts(SLICE) || world.flaw == Flaw::NoDeadlineCheck;
        let is_short = now().saturating_duration_since(self.since) < world.ttl * SPELL;
        let may_stay = !world.fair && is_short && self.handovers < HANDOVERS - 1;
        lasts && (may_stay || world.flaw == Flaw::NoBudget)
    }

    /// Gives it back; whether the server has confirmed that.
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

    pub(super) fn token(&self) -> FencingToken {
        self.token
    }

    /// Lets go; whether the server has confirmed that, or the next task has it.
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

/// To the next task. Returns what was to be handed over if there is none, or the lock may not stay here.
fn hand_over(turn: Turn<Term>, mut term: Term) -> Option<(Turn<Term>, Term)> {
    if !term.may_go_on() || !turn.is_wanted() {
        return Some((turn, term));
    }
    term.handovers += 1;
    if term.world.flaw == Flaw::NoDeadlineCheck {
        term.lease.pretend();
    }
    // If nobody was there after all, it is dropped, and so released.
    drop(turn.pass(Some(term)));
    None
}

impl Claim<'_> {
    /// Takes back what the server may know, and returns when it has said so.
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
