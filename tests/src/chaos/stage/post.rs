//! The place of a worker, which may be killed and replaced.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Instant};

use super::Link;
use crate::chaos::Mischief;
use crate::{Worker, WorkerBuilder};

/// The place of a worker.
#[derive(Debug)]
pub struct Post {
    name: String,
    links: Vec<Link>,
    urls: Vec<String>,
    options: WorkerBuilder,
    /// The number of clients of the process, if they share a memory backend.
    clients: Option<usize>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    worker: Worker,
    /// The number of earlier workers in this place.
    generation: u32,
    stops: u32,
    kills: u32,
    /// Since when it stands still.
    since: Option<Instant>,
    stood: Vec<Stood>,
    /// The failures that workers have reported.
    complaints: Vec<String>,
    /// The faults of its store, with the numbers of the steps.
    mischief: Vec<(usize, Mischief)>,
}

/// How soon a worker executes an immediate order.
const SOON: Duration = Duration::from_secs(20);

/// A time in which a client could do nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stood {
    /// The client, by its name in the history.
    pub client: String,
    /// From when on.
    pub from: Instant,
    /// Until when.
    pub until: Instant,
}

impl Post {
    pub(super) fn fill(
        name: String,
        links: Vec<Link>,
        urls: Vec<String>,
        options: WorkerBuilder,
        clients: Option<usize>,
    ) -> Self {
        let worker = options.clone().arg("--client", &name).spawn_over(&urls);
        let state = State {
            worker,
            generation: 1,
            stops: 0,
            kills: 0,
            since: None,
            stood: Vec::new(),
            complaints: Vec::new(),
            mischief: Vec::new(),
        };
        Self { name, links, urls, options, clients, state: Mutex::new(state) }
    }

    /// The links to the servers.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The names of the present clients in the history.
    pub fn clients(&self) -> Vec<String> {
        self.clients_of(&self.state())
    }

    /// The times when present or earlier clients could do nothing.
    pub fn stood(&self) -> Vec<Stood> {
        self.state().stood.clone()
    }

    /// Whether the worker lives, although it may stand still. One that was killed does not.
    pub fn is_alive(&self) -> bool {
        self.state().worker.is_alive()
    }

    /// Gives an order; `false` if the worker is not there.
    pub fn order(&self, order: &str) -> bool {
        self.state().worker.try_send(order)
    }

    /// The number of workers so far, including the present one.
    pub(in crate::chaos) fn generation(&self) -> u32 {
        self.state().generation
    }

    /// Waits until the worker of this generation confirms an order, in these words, or can never do so any
    /// more. No other step has to wait for that: the worker may stand still until another step lets it
    /// continue.
    pub(in crate::chaos) fn carried_out(&self, words: &str, generation: u32, limit: Duration) {
        const LOOK: Duration = Duration::from_millis(5);

        let deadline = std::time::Instant::now() + limit;
        while std::time::Instant::now() < deadline {
            let state = self.state();
            let is_here = state.generation == generation && state.worker.is_alive();
            if !is_here || state.worker.poll(words).is_some() {
                return;
            }
            drop(state);
            std::thread::sleep(LOOK);
        }
        self.state().complaints.push(format!("{}: it was not {words}", self.name));
    }

    /// Waits until the worker says this, and returns how long ago. An error contains what it said instead.
    ///
    /// # Errors
    ///
    /// If it does not say so within `limit`, or has ended.
    pub fn hear(&self, words: &str, limit: Duration) -> Result<crate::Event, String> {
        self.state().worker.try_wait_for(words, limit)
    }

    /// The reports of this worker and its predecessors, if there are any: about a panic, an order that makes no
    /// sense, an operation that hangs.
    pub fn complaints(&self) -> Vec<String> {
        let mut state = self.state();
        self.collect(&mut state);
        std::mem::take(&mut state.complaints)
    }

    /// The process, which a kill ends.
    pub fn pid(&self) -> u32 {
        self.state().worker.pid()
    }

    /// As above, if the process runs and no fault is being applied to it at this moment.
    pub(super) fn process(&self) -> Option<u32> {
        let state = self.state.try_lock().ok()?;
        (state.kills == 0).then(|| state.worker.pid())
    }

    pub(in crate::chaos) fn stop(&self) {
        let mut state = self.state();
        state.stops += 1;
        if state.stops == 1 && state.kills == 0 {
            state.since = Some(now());
            state.worker.stop();
        }
    }

    pub(in crate::chaos) fn cont(&self) {
        let mut state = self.state();
        state.stops -= 1;
        if state.stops == 0 && state.kills == 0 {
            state.worker.cont();
            self.went_on(&mut state);
        }
    }

    pub(in crate::chaos) fn kill(&self) {
        let mut state = self.state();
        state.kills += 1;
        if state.kills == 1 {
            state.worker.kill();
            self.went_on(&mut state);
        }
    }

    /// Starts a new worker, once no fault keeps the place empty any more.
    pub(in crate::chaos) fn replace(&self) {
        let mut state = self.state();
        state.kills -= 1;
        if state.kills > 0 {
            return;
        }
        self.collect(&mut state);
        state.generation += 1;
        let name = format!("{}-{}", self.name, state.generation);
        state.worker = self.options.clone().arg("--client", &name).spawn_over(&self.urls);
        if state.stops > 0 {
            state.since = Some(now());
            state.worker.stop();
        }
    }

    /// Notes that one of the clients, or the only one, can do nothing for this time from now on.
    pub(in crate::chaos) fn stands(&self, which: usize, time: Duration) {
        let mut state = self.state();
        let mut clients = self.clients_of(&state);
        let client = clients.swap_remove(which.min(clients.len() - 1));
        let from = now();
        state.stood.push(Stood { client, from, until: from + time });
    }

    /// Applies this fault to its store, or heals it.
    pub(in crate::chaos) fn mischief(&self, step: usize, mischief: Option<Mischief>) {
        let mut state = self.state();
        state.mischief.retain(|(of, _)| *of != step);
        let mut orders = Vec::new();
        match mischief {
            Some(mischief) => state.mischief.push((step, mischief)),
            None => orders.push("store heal".to_owned()),
        }
        orders.extend(state.mischief.iter().map(|(_, mischief)| format!("store {mischief}")));
        for order in orders {
            // It is executed whatever the clients do, unless the whole process stands still.
            let sent = state.worker.try_send(&order) && state.stops == 0;
            if let Err(why) = sent.then(|| state.worker.try_wait_for("stored", SOON)).transpose() {
                state.complaints.push(format!("{}: {order}: {why}", self.name));
            }
        }
    }

    fn collect(&self, state: &mut State) {
        let State { worker, complaints, .. } = state;
        let complaint = || ["panicked", "failed", "hangs"].iter().find_map(|it| worker.poll(it));
        let said = std::iter::from_fn(complaint);
        complaints.extend(said.map(|event| format!("{}: {}", self.name, event.text)));
    }

    fn went_on(&self, state: &mut State) {
        let Some(from) = state.since.take() else { return };
        let until = now();
        for client in self.clients_of(state) {
            state.stood.push(Stood { client, from, until });
        }
    }

    fn clients_of(&self, state: &State) -> Vec<String> {
        match (self.clients, state.generation) {
            (Some(clients), _) => (0..clients).map(|it| format!("{}.{it}", self.name)).collect(),
            (None, 1) => vec![self.name.clone()],
            (None, generation) => vec![format!("{}-{generation}", self.name)],
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now() -> Instant {
    Clock::boot().now()
}
