//! A server, and its faults.
//!
//! It can have several faults at once: it stands still only once, however often it was stopped, and settings
//! that it could not be told are applied when it can.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::rights::{rules, set_user};
use crate::chaos::{Deployment, Rights};
use crate::resp::Value;
use crate::{DataCopy, RedisServer, RedisServerBuilder, SOON, ServerClock, eventually};

/// One of the servers of a stage.
#[derive(Debug)]
pub struct Node {
    server: RedisServer,
    clock: ServerClock,
    /// Whether the workers have all rights.
    all_rights: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stops: u32,
    kills: u32,
    /// The data with which it comes back.
    returns: Returns,
    /// How many faults take away its memory.
    full: u32,
    without: Vec<Rights>,
    /// Until when it answers no client.
    deaf: Option<Instant>,
}

/// The data with which a killed server comes back.
#[derive(Debug, Default)]
pub(in crate::chaos) enum Returns {
    /// All its data.
    #[default]
    Kept,
    /// An older copy of its data.
    Copy(DataCopy),
    /// Nothing.
    Empty,
}

impl Node {
    pub(super) fn start(deployment: Deployment, all_rights: bool) -> Self {
        let clock = ServerClock::new();
        let server = clock
            .options(RedisServer::builder())
            // After a kill everything is there, for the system has it.
            .append_only()
            .config("appendfsync", "no")
            .config("auto-aof-rewrite-percentage", "0")
            .user(super::rights::USER, rules(all_rights, &[]));
        let server = notifying(deployment, server).start();
        Self { server, clock, all_rights, state: Mutex::default() }
    }

    /// The server. A stop through this value is not counted here.
    pub fn server(&self) -> &RedisServer {
        &self.server
    }

    /// The process, if it runs and no fault is being applied to it at this moment.
    pub(super) fn process(&self) -> Option<u32> {
        let state = self.state.try_lock().ok()?;
        (state.kills == 0).then(|| self.server.pid())
    }

    /// Its clock.
    pub fn clock(&self) -> &ServerClock {
        &self.clock
    }

    pub(in crate::chaos) fn stop(&self) {
        let mut state = self.state();
        state.stops += 1;
        if state.stops == 1 && state.kills == 0 {
            self.server.stop();
        }
    }

    pub(in crate::chaos) fn cont(&self) {
        let mut state = self.state();
        state.stops -= 1;
        if state.stops == 0 && state.kills == 0 {
            self.server.cont();
            self.tell(&state);
        }
    }

    pub(in crate::chaos) fn kill(&self) {
        let mut state = self.state();
        state.kills += 1;
        if state.kills == 1 {
            self.server.kill();
        }
    }

    /// Lets it come back, once no fault keeps it down any more.
    pub(in crate::chaos) fn rise(&self, with: Returns) {
        let mut state = self.state();
        // The fault that leaves the least data decides.
        match (&state.returns, &with) {
            (Returns::Empty, _) | (Returns::Copy(_), Returns::Kept) => {}
            _ => state.returns = with,
        }
        state.kills -= 1;
        if state.kills > 0 {
            return;
        }
        match std::mem::take(&mut state.returns) {
            Returns::Kept => {}
            Returns::Copy(copy) => self.server.restore(&copy),
            Returns::Empty => self.server.erase(),
        }
        self.server.restart();
        state.deaf = None;
        self.tell(&state);
        if state.stops > 0 {
            self.server.stop();
        }
    }

    /// A copy of its data; `None` while it cannot be asked.
    pub(in crate::chaos) fn copy(&self) -> Option<DataCopy> {
        let state = self.state();
        state.hears().then(|| self.server.copy_data())
    }

    /// Takes away its memory for new data, or gives it back.
    pub(in crate::chaos) fn fill(&self, full: bool) {
        let mut state = self.state();
        if full {
            state.full += 1;
        } else {
            state.full -= 1;
        }
        self.tell(&state);
    }

    /// Takes rights from the workers.
    pub(in crate::chaos) fn revoke(&self, rights: Rights) {
        let mut state = self.state();
        state.without.push(rights);
        self.tell(&state);
    }

    /// Gives them back, unless two faults took them away.
    pub(in crate::chaos) fn grant(&self, rights: Rights) {
        let mut state = self.state();
        if let Some(at) = state.without.iter().position(|it| *it == rights) {
            state.without.remove(at);
        }
        self.tell(&state);
    }

    /// Makes it evict some keys, if it listens and has any. Returns whether it did.
    pub(in crate::chaos) fn evict(&self) -> bool {
        let state = self.state();
        if !state.hears() || state.full > 0 {
            return false;
        }
        let before = self.number("stats", "evicted_keys");
        self.config("maxmemory-policy", "allkeys-random");
        // Its use of memory varies by itself: the least value that is too low is not known before.
        for power in 9..22 {
            let used = self.number("memory", "used_memory");
            self.config("maxmemory", &used.saturating_sub(1 << power).max(1).to_string());
            // It makes room at the next request.
            self.server.cli(&["EXISTS", "x"]);
            self.config("maxmemory", "0");
            if self.number("stats", "evicted_keys") > before {
                break;
            }
        }
        self.config("maxmemory-policy", "noeviction");
        self.number("stats", "evicted_keys") > before
    }

    /// Makes it answer no client for this time, or no client that writes. Returns whether it listened.
    pub(in crate::chaos) fn pause(&self, all: bool, time: Duration) -> bool {
        let mut state = self.state();
        if !state.hears() {
            return false;
        }
        let kind = if all { "ALL" } else { "WRITE" };
        // The server itself delays this command, if it comes a moment later.
        if all {
            state.deaf = Some(Instant::now() + time + Duration::from_millis(20));
        }
        self.command(&["CLIENT", "PAUSE", &time.as_millis().to_string(), kind]);
        true
    }

    /// Ends a pause of clients that write.
    pub(in crate::chaos) fn unpause(&self) {
        self.at_once(&["CLIENT", "UNPAUSE"]);
    }

    /// Closes the connections of all clients, if it listens.
    pub(in crate::chaos) fn kill_clients(&self) -> bool {
        let state = self.state();
        state.hears() && self.server.client_kill_all() > 0
    }

    /// Sends a command that is of use only now. Returns whether that worked.
    pub(in crate::chaos) fn at_once(&self, command: &[&str]) -> bool {
        let state = self.state();
        let hears = state.hears();
        if hears {
            self.command(command);
        }
        hears
    }

    /// Sets the clock forward by this time, or back. Returns whether that worked.
    pub(in crate::chaos) fn jump(&self, millis: i64) -> bool {
        let state = self.state();
        let hears = state.hears();
        let can_be = self.clock.is_real() || hears;
        if can_be {
            self.clock.jump(&self.server, millis);
        }
        if hears {
            let is_told = || self.clock.is_told_by(&self.server);
            eventually("the server has looked at its clock", SOON, is_told);
        }
        can_be
    }

    /// Sends the present settings, if it runs. During a pause the server delays them, and so this call.
    fn tell(&self, state: &State) {
        if !state.runs() {
            return;
        }
        self.config("maxmemory", if state.full > 0 { "1" } else { "0" });
        self.command(&set_user(&rules(self.all_rights, &state.without)));
    }

    fn config(&self, name: &str, value: &str) {
        self.command(&["CONFIG", "SET", name, value]);
    }

    fn command<A: AsRef<[u8]>>(&self, command: &[A]) {
        if let Value::Error(error) = self.server.cli(command) {
            panic!("the server on port {} refuses: {error}", self.server.port());
        }
    }

    /// A number from a section of its INFO.
    fn number(&self, section: &str, name: &str) -> u64 {
        let info = self.server.cli(&["INFO", section]).text();
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|number| number.trim().parse().ok())
            .unwrap_or_else(|| panic!("no number {name} in {info}"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the server answers at once.
    fn hears(&self) -> bool {
        self.runs() && self.deaf.is_none_or(|until| until <= Instant::now())
    }

    fn runs(&self) -> bool {
        self.stops == 0 && self.kills == 0
    }
}

fn notifying(deployment: Deployment, server: RedisServerBuilder) -> RedisServerBuilder {
    match deployment {
        Deployment::Plain | Deployment::Memory => server,
        _ => server.config("notify-keyspace-events", "Kgxe"),
    }
}
