//! Two clients that take one lock in turn.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lock_core::FencingToken;
use lock_redlock::Redlock;
use lock_sync::{Locks, MutexGuard, ReleaseError};
use tokio::task::JoinSet;

use crate::AnyError;
use crate::nodes::Node;

/// How long a client holds the lock.
const HOLD: Duration = Duration::from_millis(5);

type Quorum = Redlock<Node>;

/// Clients that take turns until they are stopped.
pub(crate) struct Players {
    tasks: JoinSet<Result<(), AnyError>>,
    turns: Arc<Mutex<Vec<Turn>>>,
    over: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    client: usize,
    token: FencingToken,
    had: Instant,
    until: Instant,
}

impl Players {
    /// Starts the clients, with leases of this length.
    pub(crate) fn start(clients: Vec<Quorum>, ttl: Duration) -> Result<Self, AnyError> {
        let mut players =
            Self { tasks: JoinSet::new(), turns: Arc::default(), over: Arc::default() };
        for (client, quorum) in clients.into_iter().enumerate() {
            let locks = Locks::builder(quorum).ttl(ttl).build()?;
            let (turns, over) = (Arc::clone(&players.turns), Arc::clone(&players.over));
            players.tasks.spawn(take_turns(client, locks, turns, over));
        }
        Ok(players)
    }

    /// The turns so far.
    pub(crate) fn turns(&self) -> Turns {
        // Only whole turns are ever added. The client of the next turn may be faster to add its own.
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner).clone();
        turns.sort_by_key(|turn| turn.had);
        Turns(turns)
    }

    /// Ends the play after the turns that have begun.
    ///
    /// # Errors
    ///
    /// If a client could not acquire the lock.
    pub(crate) async fn stop(mut self) -> Result<Turns, AnyError> {
        self.over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        Ok(self.turns())
    }
}

async fn take_turns(
    client: usize,
    locks: Locks<Quorum>,
    turns: Arc<Mutex<Vec<Turn>>>,
    over: Arc<AtomicBool>,
) -> Result<(), AnyError> {
    let lock = locks.mutex("stage", ())?;
    while !over.load(Ordering::Relaxed) {
        let guard = lock.lock().await?;
        let had = Instant::now();
        tokio::time::sleep(HOLD).await;
        let turn = Turn {
            client,
            token: MutexGuard::lease(&guard).fencing_token(),
            had,
            until: Instant::now(),
        };
        match MutexGuard::release(guard).await {
            Ok(()) => turns.lock().unwrap_or_else(PoisonError::into_inner).push(turn),
            // The lease ended before the turn did, so the turn does not count.
            Err(ReleaseError::Lost(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    locks.shutdown().await;
    Ok(())
}

/// The turns that were taken, in their order.
pub(crate) struct Turns(Vec<Turn>);

impl Turns {
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The turns after the first `count`.
    pub(crate) fn since(mut self, count: usize) -> Self {
        self.0.drain(..count);
        self
    }

    /// Whether each turn came after the one before, with a higher token.
    pub(crate) fn are_in_order(&self) -> bool {
        self.0.windows(2).all(|pair| pair[0].until <= pair[1].had && pair[0].token < pair[1].token)
    }
}

/// The number of turns of each client, and the time from one turn to the next.
impl fmt::Display for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |client| self.0.iter().filter(|turn| turn.client == client).count();
        let pairs = self.0.windows(2);
        let mut gaps: Vec<_> =
            pairs.map(|pair| pair[1].had.duration_since(pair[0].until)).collect();
        gaps.sort_unstable();
        let micros = |at: usize| gaps.get(at).map_or(0, Duration::as_micros);
        let (median, slowest) = (micros(gaps.len() / 2), micros(gaps.len().saturating_sub(1)));
        write!(f, "{} and {} turns", of(0), of(1))?;
        write!(f, ", {median} µs from one to the next, {slowest} µs at most")
    }
}
