//! The nodes, the time, and what has happened.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{Clock, Instant, Key, Membership, Terms};
use tokio::time::sleep;

use crate::history::{History, Wrong};
use crate::plan::{Flaw, LINES, Loss, Plan, Way};
use crate::rng::Rng;

/// Floors are counted from here. It is far behind the time itself, so that a node which forgets its counter
/// has really done so: a store goes on above what is ahead of its own clock.
const EPOCH: u64 = 1_000_000_000;

/// A floor that is not of a client's clock is below this.
const CLOCKS: u64 = 1 << 45;

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) nodes: Vec<MemoryBackend>,
    state: Mutex<State>,
    is_troubled: AtomicBool,
    is_logged: bool,
    origin: Instant,
}

struct State {
    rng: Rng,
    history: History,
    /// When trouble began.
    began: Instant,
    /// Clients that have crashed.
    crashed: Vec<bool>,
    /// When each node restarted last.
    restarted: Vec<Option<Instant>>,
    /// What each client's floors were turned into, and the highest token that it has seen of each key.
    floors: Vec<HashMap<(Key, u64), u64>>,
    seen: Vec<HashMap<Key, u64>>,
    ballots: Vec<u64>,
    log: Vec<String>,
}

/// The fate of one request.
#[derive(Debug)]
pub(crate) enum Fate {
    /// The client notices at once that it cannot be sent.
    Refused,
    Lost,
    Travels {
        /// How long it takes to arrive, and then once more.
        there: Duration,
        again: Option<Duration>,
        /// Whether it is the second that is answered.
        answers_second: bool,
        /// How long the answer takes; `None` if it is lost.
        back: Option<Duration>,
    },
}

impl World {
    pub(crate) fn new(plan: Plan, rng: Rng, is_logged: bool) -> Arc<Self> {
        let (clients, origin) = (plan.clients() + 1, Clock::tokio().now());
        let state = State {
            rng,
            history: History::default(),
            began: origin,
            crashed: vec![false; clients],
            restarted: vec![None; plan.nodes],
            floors: vec![HashMap::new(); clients],
            seen: vec![HashMap::new(); clients],
            ballots: vec![0; clients],
            log: Vec::new(),
        };
        Arc::new(Self {
            nodes: (0..plan.nodes).map(|_| MemoryBackend::new()).collect(),
            plan,
            state: Mutex::new(state),
            is_troubled: AtomicBool::new(false),
            is_logged,
            origin,
        })
    }

    pub(crate) fn now(&self) -> Instant {
        Clock::tokio().now()
    }

    /// The terms of every client.
    pub(crate) fn terms(&self) -> Terms {
        let names: Vec<_> = (0..self.plan.nodes).map(name_of).collect();
        Terms::new(Membership::of(names.iter().map(String::as_str)), self.plan.max_ttl)
    }

    pub(crate) fn rng(&self) -> Rng {
        self.lock().rng.fork()
    }

    pub(crate) fn begin_trouble(&self) {
        self.lock().began = self.now();
        self.is_troubled.store(true, Ordering::Relaxed);
    }

    /// From now on every message arrives once and soon.
    pub(crate) fn end_trouble(&self) {
        self.is_troubled.store(false, Ordering::Relaxed);
    }

    pub(crate) fn crash(&self, client: usize) {
        self.lock().crashed[client] = true;
        self.log(|| format!("client {client} crashes"));
    }

    pub(crate) fn has_crashed(&self, client: usize) -> bool {
        self.lock().crashed[client]
    }

    /// Restarts and flushes nodes when their time has come.
    pub(crate) async fn restart_nodes(self: Arc<Self>) {
        let began = self.lock().began;
        for restart in &self.plan.restarts {
            until(began + restart.at).await;
            let node = &self.nodes[restart.node];
            match restart.kind {
                Loss::Nothing => node.restart(),
                Loss::Flush => node.forget(),
                Loss::Everything => {
                    node.restart();
                    node.forget();
                }
            }
            self.lock().restarted[restart.node] = Some(self.now());
            if self.plan.flaw == Flaw::SetsClocks {
                let (node, longest) = (node.clone(), self.plan.max_ttl.duration());
                tokio::spawn(async move {
                    sleep(longest / 4).await;
                    node.set_clock_forward(2 * longest);
                });
            }
            self.log(|| format!("node {} restarts and loses {:?}", restart.node, restart.kind));
        }
    }

    /// The line on which a request is sent now.
    pub(crate) fn line(&self) -> usize {
        self.lock().rng.index(LINES)
    }

    /// The fate of a request that is sent now.
    pub(crate) fn fate(&self, client: usize, node: usize) -> Fate {
        let mut state = self.lock();
        if state.crashed[client] {
            return Fate::Lost;
        }
        let plan = &self.plan;
        let calm = (state.rng.millis(0, plan.pace), state.rng.millis(0, plan.pace));
        if !self.is_troubled.load(Ordering::Relaxed) {
            let (there, back) = calm;
            return Fate::Travels { there, again: None, answers_second: false, back: Some(back) };
        }
        let at = self.now().saturating_duration_since(state.began);
        if let Some(noticed) = plan.cut(client, node, Way::There, at) {
            return if noticed { Fate::Refused } else { Fate::Lost };
        }
        let rng = &mut state.rng;
        if rng.chance(plan.lost) {
            return Fate::Lost;
        }
        let mut take = |calm| if rng.chance(plan.late) { rng.millis(0, 1500) } else { calm };
        let (there, back) = (take(calm.0), take(calm.1));
        let again = rng.chance(plan.twice).then(|| rng.millis(0, 600));
        let (answers_second, is_lost) = (rng.chance(50), rng.chance(plan.lost));
        let back = (!is_lost).then_some(back);
        Fate::Travels { there, again, answers_second, back }
    }

    /// When a node comes round to a request that reaches it at this time.
    pub(crate) fn awake(&self, node: usize, at: Instant) -> Instant {
        if !self.is_troubled.load(Ordering::Relaxed) {
            return at;
        }
        let began = self.lock().began;
        began + self.plan.awake(node, at.saturating_duration_since(began))
    }

    /// Whether an answer that should arrive now does.
    pub(crate) fn is_answered(&self, client: usize, node: usize) -> bool {
        let state = self.lock();
        let at = self.now().saturating_duration_since(state.began);
        let is_troubled = self.is_troubled.load(Ordering::Relaxed);
        let is_cut = is_troubled && self.plan.cut(client, node, Way::Back, at).is_some();
        !is_cut && !state.crashed[client]
    }

    /// The floor that a client brings whose clock is as far ahead as was planned: the same for all nodes if
    /// what the client wanted to bring is the same.
    pub(crate) fn floor(&self, client: usize, key: &Key, wanted: u32, floor: u64) -> u64 {
        if floor < CLOCKS || self.plan.faults.tokens {
            return floor;
        }
        let mut state = self.lock();
        let skew = self.plan.skews.get(client).copied().unwrap_or_default();
        let time = self.now().saturating_duration_since(self.origin) + skew;
        let time = EPOCH + u64::try_from(time.as_nanos() / 250).unwrap();
        let seen = state.seen[client].get(key).map_or(0, |seen| seen + u64::from(wanted));
        *state.floors[client].entry((key.clone(), floor)).or_insert(time.max(seen))
    }

    /// Notes a token that a client has been told of.
    pub(crate) fn see(&self, client: usize, key: &Key, token: u64) {
        let mut state = self.lock();
        let seen = state.seen[client].entry(key.clone()).or_default();
        *seen = token.max(*seen);
    }

    /// How many votes this client has asked for.
    pub(crate) fn ballots(&self, client: usize) -> u64 {
        self.lock().ballots[client]
    }

    pub(crate) fn asks_for_vote(&self, client: usize) {
        self.lock().ballots[client] += 1;
    }

    /// A node has given a vote.
    pub(crate) fn voted(&self, node: usize) {
        let state = self.lock();
        let Some(restarted) = state.restarted[node] else { return };
        let out = self.now().saturating_duration_since(restarted);
        drop(state);
        if !self.plan.faults.unguarded && out < self.plan.quarantine() {
            self.wrong(Wrong::KeptOut, || format!("node {node} votes {out:?} after it restarted"));
        }
    }

    pub(crate) fn history<T>(&self, act: impl FnOnce(&mut History) -> T) -> T {
        act(&mut self.lock().history)
    }

    pub(crate) fn wrong(&self, wrong: Wrong, what: impl FnOnce() -> String) {
        let what = what();
        self.log(|| format!("WRONG: {what}"));
        self.history(|history| history.wrongs.push((wrong, what)));
    }

    /// Notes what happens, if the story is to be told.
    pub(crate) fn log(&self, what: impl FnOnce() -> String) {
        if self.is_logged {
            let what = what();
            let mut state = self.lock();
            let now = self.now().saturating_duration_since(state.began);
            state.log.push(format!("{now:>12?}  {what}"));
        }
    }

    pub(crate) fn story(&self) -> String {
        self.lock().log.join("\n")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn name_of(node: usize) -> String {
    node.to_string()
}

/// Sleeps until this time.
pub(crate) async fn until(at: Instant) {
    let left = at.saturating_duration_since(Clock::tokio().now());
    if !left.is_zero() {
        sleep(left).await;
    }
}
