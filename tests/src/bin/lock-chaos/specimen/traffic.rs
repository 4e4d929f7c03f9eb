//! The work of the tasks: like that of the library's own workers, in fewer ways.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{FencingToken, Instant};
use lock_tests::Random;
use lock_tests::chaos::history::{Patience, Refusal, Way};
use lock_tests::chaos::resource::{self, Guest};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::World;
use super::barrier::Barrier;
use super::cell::Cell;
use super::journal::Entry;
use super::lease::{Lease, now};
use super::link::Failed;
use super::mutex::{Guard, Mutex};
use super::shared::Shared;
use super::stored::{STORED, Stored};
use crate::worker::options::Primitive;
use crate::worker::{Options, cells};

/// How often a holder reports that it still holds.
const SLICE: Duration = Duration::from_millis(50);

/// The number of permits of the semaphore.
const PERMITS: u32 = 3;

/// The longest pause of a task that got nothing.
const BREATH: Duration = Duration::from_millis(5);

/// The locks, which all tasks of a client share.
pub(super) struct Locks {
    pub(super) world: Arc<World>,
    pub(super) options: Options,
    mutexes: [(&'static str, Mutex); 2],
    rwlock: Shared,
    semaphore: Shared,
    barrier: Barrier,
    pub(super) stored: Stored,
}

impl Locks {
    pub(super) fn new(world: &Arc<World>, options: Options) -> Arc<Self> {
        Arc::new(Self {
            world: Arc::clone(world),
            mutexes: ["m0", "m1"].map(|key| (key, Mutex::new(world, key))),
            rwlock: Shared::new(world, "w0", 0),
            semaphore: Shared::new(world, "s0", PERMITS),
            barrier: Barrier::new(world, "b0", options.party),
            stored: Stored::new(world, STORED),
            options,
        })
    }

    /// Runs one task, until it is to rest.
    pub(super) async fn work(self: Arc<Self>, number: u32, rests: watch::Receiver<bool>) {
        let seed = self.options.seed ^ (u64::from(number) << 32);
        let mut random = Random::from_seed(seed);
        let mut task = Task { locks: &self, number, random: random.fork(), visitor: None };
        // The barrier is for one task of each client.
        let primitives: Vec<Primitive> = self.options.primitives.clone();
        let others = primitives.iter().copied().filter(|what| *what != Primitive::Barrier);
        let others: Vec<Primitive> = others.collect();
        while !*rests.borrow() {
            let got = if others.is_empty() || number == 0 && primitives.len() > others.len() {
                task.meet().await
            } else {
                task.take(*random.pick(&others)).await
            };
            sleep(if got { self.pause(&mut random) } else { BREATH }).await;
        }
    }

    /// Tries everything, when no task holds anything.
    pub(super) async fn probe(&self, number: u32) {
        if !self.options.primitives.contains(&Primitive::Mutex) {
            return;
        }
        for (key, mutex) in &self.mutexes {
            let mut entry = self.world.journal.ask(number, key, Way::Write, Patience::None);
            match mutex.try_lock().await {
                Ok(Some(guard)) => {
                    entry.got(guard.token(), guard.lease());
                    entry.leave();
                    entry.left(guard.leave().await);
                }
                Ok(None) => entry.not(Refusal::Busy),
                Err(Failed) => entry.not(failed()),
            }
        }
    }

    /// A task that runs alone ends everything it begins, so a try has no excuse for a holder in its way.
    fn is_orderly(&self) -> bool {
        self.options.tasks == 1
    }

    fn pause(&self, random: &mut Random) -> Duration {
        random.between(Duration::ZERO, self.options.hold)
    }
}

/// One task.
pub(super) struct Task<'a> {
    pub(super) locks: &'a Locks,
    pub(super) number: u32,
    pub(super) random: Random,
    visitor: Option<resource::Client>,
}

impl Task<'_> {
    /// Takes one lock once. Returns whether it got the lock.
    async fn take(&mut self, what: Primitive) -> bool {
        match what {
            Primitive::RwLock => self.read_or_write().await,
            Primitive::Semaphore => {
                let way = Way::Permits(1 + self.random.below(2) as u32);
                self.share("s0", way, false).await
            }
            Primitive::Cell => self.look().await,
            Primitive::Stored => self.change().await,
            _ => self.alone().await,
        }
    }

    /// Asks for the value of a cell, and makes it if there is none. Returns whether it got a value.
    async fn look(&mut self) -> bool {
        let locks = self.locks;
        let (ttl, limit) = (locks.options.ttl, locks.options.wait_limit);
        let key = cells::name(cells::Series::new(ttl).draw(&mut self.random));
        let (cell, end) = (Cell::new(&locks.world, &key), now() + limit);
        let entry = locks.world.journal.look(self.number, &key);
        let mut is_mine = false;
        let found = match find(&cell, &mut is_mine, end).await {
            Ok(found) => found,
            Err(why) => {
                entry.not(why);
                return false;
            }
        };
        let value = match found {
            Some(value) => Ok(Some(value)),
            None => {
                entry.make();
                sleep(self.random.between(ttl / 4, ttl / 2)).await;
                let value = locks.world.value();
                entry.made(value);
                cell.store(value).await.map(|stored| stored.then_some(value))
            }
        };
        if is_mine {
            cell.unlock().await;
        }
        let outcome = value.map_err(|Failed| failed()).and_then(|it| it.ok_or(Refusal::Lost));
        let found = outcome.is_ok();
        match outcome {
            Ok(value) => entry.saw(value),
            Err(why) => entry.not(why),
        }
        found
    }

    async fn alone(&mut self) -> bool {
        let locks = self.locks;
        let number = self.random.below(locks.mutexes.len());
        let (key, mutex) = &locks.mutexes[number];
        let (roll, wait) = (self.random.below(100), locks.options.wait_limit);
        // Votes may be split, and then no client has the lock.
        let often = if locks.is_orderly() { 30 } else { 15 };
        let tries = roll < often && locks.options.deployment.counts();
        let short = self.random.between(Duration::from_millis(5), locks.options.ttl);
        let held;
        let is_short = !locks.is_orderly() && !tries && (15..25).contains(&roll);
        let patience = match tries {
            true => Patience::None,
            false => Patience::Within(if is_short { short } else { wait }),
        };
        let mut entry = locks.world.journal.ask(self.number, key, Way::Write, patience);
        let gives_up = !locks.is_orderly() && (25..35).contains(&roll);
        held = match seek(mutex, patience, gives_up.then_some(short / 2)).await {
            Ok(got) => got,
            Err(why) => {
                entry.not(why);
                return false;
            }
        };
        entry.got(held.token(), held.lease());
        let (token, lease) = (held.token(), Arc::clone(held.lease()));
        self.section(&entry, key, (Way::Write, token), &lease).await;
        entry.leave();
        if self.random.percent(30) && !locks.is_orderly() {
            drop(held);
            entry.left(false);
        } else {
            let confirmed = held.leave().await;
            entry.left(confirmed);
        }
        true
    }

    async fn read_or_write(&mut self) -> bool {
        match self.random.below(10) {
            0..4 => self.share("w0", Way::Read, false).await,
            4..8 => self.share("w0", Way::Upgradable, true).await,
            _ => self.share("w0", Way::Write, true).await,
        }
    }

    /// Holds a lock together with other owners, and sometimes converts the hold afterwards.
    async fn share(&mut self, key: &str, way: Way, turns: bool) -> bool {
        let locks = self.locks;
        let shared = if key == "s0" { &locks.semaphore } else { &locks.rwlock };
        let journal = &locks.world.journal;
        let mut holder;
        let patience = Patience::Within(locks.options.wait_limit);
        let mut entry = journal.ask(self.number, key, way, patience);
        match shared.hold(way, locks.options.wait_limit).await {
            Some(got) => holder = got,
            None => {
                entry.not(Refusal::TimedOut);
                return false;
            }
        }
        let lease = Arc::clone(holder.lease());
        entry.got(holder.token(), &lease);
        self.section(&entry, key, (way, holder.token()), &lease).await;
        if turns {
            let next = if way == Way::Write { Way::Read } else { Way::Write };
            entry.turn(next, Patience::Within(locks.options.ttl));
            let outcome = match next {
                Way::Write => holder.upgrade(locks.options.ttl).await,
                _ => holder.downgrade().await,
            };
            entry.turned(outcome.clone());
            if let Ok(token) = outcome {
                self.section(&entry, key, (next, token), &lease).await;
            }
        }
        entry.leave();
        let confirmed = holder.leave().await;
        entry.left(confirmed);
        true
    }

    /// Waits at the barrier once. Returns whether it opened.
    async fn meet(&mut self) -> bool {
        let locks = self.locks;
        let entry = locks.world.journal.arrive("b0", locks.options.party);
        match locks.barrier.wait(locks.options.ttl).await {
            Ok(Some(leads)) => {
                entry.pass(leads);
                return true;
            }
            Ok(None) => entry.not(Refusal::TimedOut),
            Err(Failed) => entry.not(failed()),
        }
        false
    }

    /// The work under the lock. Most tasks check whether they still hold it before they write, but not all.
    pub(super) async fn section(
        &mut self,
        entry: &Entry<'_>,
        key: &str,
        (way, token): (Way, FencingToken),
        lease: &Lease,
    ) {
        let time = self.random.between(Duration::ZERO, self.locks.options.hold);
        let careless = self.random.percent(10);
        let Some(mut visitor) = self.visitor().await else { return };
        let of = matches!(way, Way::Permits(_)).then_some(PERMITS);
        let guest = Guest { way, of, token, valid_until: lease.valid_until() };
        if visitor.enter(key, guest).await.is_err() {
            return;
        }
        let (end, mut is_lost) = (now() + time, false);
        while !is_lost && now() < end {
            let left = end.saturating_duration_since(now());
            tokio::select! {
                () = sleep(left.min(SLICE)) => entry.still(),
                () = lease.lost() => {
                    entry.lost();
                    is_lost = true;
                }
            }
        }
        let valid = !is_lost && now() < lease.valid_until();
        if way.is_exclusive() && (careless || valid) {
            let token = self.locks.world.shown(key, token);
            match visitor.write(key, token).await {
                Ok(accepted) => entry.wrote(token, accepted),
                Err(_) => return,
            }
        }
        if visitor.leave(key).await.is_ok() {
            self.visitor = Some(visitor);
        }
    }

    /// The connection to the resource: of no use if a section was left in the middle.
    async fn visitor(&mut self) -> Option<resource::Client> {
        match self.visitor.take() {
            Some(visitor) => Some(visitor),
            None => resource::Client::connect(&self.locks.options.resource()).await.ok(),
        }
    }
}

/// Locks a mutex. The task drops its wait after `leaves`.
async fn seek(
    mutex: &Mutex,
    patience: Patience,
    leaves: Option<Duration>,
) -> Result<Guard, Refusal> {
    match (patience, leaves) {
        (Patience::None, _) => {
            let got = mutex.try_lock().await.map_err(|Failed| failed());
            got.and_then(|got| got.ok_or(Refusal::Busy))
        }
        (Patience::Within(wait), None) => mutex.lock(wait).await.ok_or(Refusal::TimedOut),
        (Patience::Within(wait), Some(leaves)) => {
            let got = timeout(leaves, mutex.lock(wait)).await.map_err(|_| Refusal::GivenUp);
            got.and_then(|got| got.ok_or(Refusal::TimedOut))
        }
    }
}

/// Looks for the value of a cell until `end`. `None` once the cell is locked and there is no value.
async fn find(cell: &Cell, is_mine: &mut bool, end: Instant) -> Result<Option<u64>, Refusal> {
    loop {
        let found = match cell.load().await {
            // An earlier holder of the lock may have stored a value.
            Ok(None) if *is_mine => return Ok(None),
            Ok(None) => cell.lock().await.map(|locked| *is_mine = locked).map(|()| None),
            found => found,
        };
        match found {
            Ok(Some(value)) => return Ok(Some(value)),
            _ if now() > end => {
                return Err(if found.is_ok() { Refusal::TimedOut } else { failed() });
            }
            _ if *is_mine => {}
            _ => sleep(BREATH).await,
        }
    }
}

/// There is only one kind of error here.
pub(super) fn failed() -> Refusal {
    Refusal::Failed("Unreachable".to_owned())
}
