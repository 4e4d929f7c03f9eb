//! Two clients that hand a lock to and fro.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::{Contestant, Failure};

/// A game of two clients with one lock.
///
/// While one holds it, the other one asks, and has time to settle down to wait. Then it is released,
/// and the clock runs until the other one has it. The first one asks again only then: nobody
/// overtakes the waiter, and what is measured is the hand-over and nothing else.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PingPong {
    /// The lock.
    pub key: String,
    /// How long each holds it.
    pub hold: Duration,
    /// How long the game goes on.
    pub time: Duration,
}

impl PingPong {
    /// A game.
    pub fn new(key: String, hold: Duration, time: Duration) -> Self {
        Self { key, hold, time }
    }
}

#[derive(Default)]
struct Board {
    released: Mutex<Option<Instant>>,
    latencies: Mutex<Vec<Duration>>,
}

struct Player {
    board: Arc<Board>,
    may_ask: Arc<Notify>,
    other_may_ask: Arc<Notify>,
    hold: Duration,
}

/// From the end of one section to the beginning of the next one, each time.
pub(crate) async fn ping_pong<C: Contestant>(
    one: &Arc<C>,
    other: &Arc<C>,
    game: &PingPong,
) -> Result<Vec<Duration>, Failure> {
    let board = Arc::<Board>::default();
    let (first, second) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    first.notify_one();
    let player = |may_ask: &Arc<Notify>, other_may_ask: &Arc<Notify>| {
        Arc::new(Player {
            board: Arc::clone(&board),
            may_ask: Arc::clone(may_ask),
            other_may_ask: Arc::clone(other_may_ask),
            hold: game.hold,
        })
    };
    let end = Instant::now() + game.time;
    let tasks = [
        spawn(one, game, player(&first, &second), end)?,
        spawn(other, game, player(&second, &first), end)?,
    ];
    let [one_plays, other_plays] = tasks;
    let (outcome, left) = match select(one_plays, other_plays).await {
        Either::Left(ended) => ended,
        Either::Right(ended) => ended,
    };
    left.abort();
    // It is aborted where it waits for its turn or for the lock.
    drop(left.await);
    one.settled().await;
    other.settled().await;
    outcome??;
    let latencies = std::mem::take(&mut *lock(&board.latencies));
    Ok(latencies)
}

fn spawn<C: Contestant>(
    client: &Arc<C>,
    game: &PingPong,
    player: Arc<Player>,
    end: Instant,
) -> Result<JoinHandle<Result<(), Failure>>, Failure> {
    let (client, key) = (Arc::clone(client), client.key(&game.key)?);
    Ok(tokio::spawn(async move {
        while Instant::now() < end {
            player.may_ask.notified().await;
            client.locked(&key, hold(Arc::clone(&player))).await?;
        }
        Ok(())
    }))
}

async fn hold(player: Arc<Player>) {
    let released = lock(&player.board.released).take();
    if let Some(released) = released {
        lock(&player.board.latencies).push(released.elapsed());
    }
    player.other_may_ask.notify_one();
    tokio::time::sleep(player.hold).await;
    *lock(&player.board.released) = Some(Instant::now());
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestants::Local;

    #[tokio::test]
    async fn the_lock_goes_to_and_fro() {
        let client = Arc::new(Local::default());
        let (hold, time) = (Duration::from_millis(1), Duration::from_millis(40));
        let game = PingPong::new("to and fro".to_owned(), hold, time);
        let latencies = ping_pong(&client, &client, &game).await.unwrap();
        assert!(latencies.len() > 2, "{latencies:?}");
    }
}
