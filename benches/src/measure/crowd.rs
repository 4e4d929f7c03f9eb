//! Many tasks at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::Window;
use super::section::Protected;
use crate::meter::spent;
use crate::{Account, Contestant, Failure, Meters, Rule, cpu};

/// Tasks that lock, count and unlock, again and again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Crowd {
    /// The number of tasks.
    pub tasks: usize,
    /// The keys. The tasks are spread over them in turn.
    pub keys: Vec<String>,
    /// Which holders may be inside at once.
    pub rule: Rule,
    /// For how long passes are counted. The tasks run for a quarter of this time before.
    pub window: Duration,
    /// Whether to measure the wait of each pass. The measurement itself takes a little time.
    pub waits: bool,
    /// The URLs of the servers whose commands are counted, and their processor time.
    pub servers: Vec<String>,
}

impl Crowd {
    /// A crowd whose waits and commands are not measured.
    pub fn new(tasks: usize, keys: Vec<String>, window: Duration) -> Self {
        let rule = Rule::Exclusive;
        Self { tasks, keys, rule, window, waits: false, servers: Vec::new() }
    }
}

struct Worker {
    number: usize,
    protected: Arc<Protected>,
    shared: Arc<Shared>,
    passes: AtomicU64,
    /// How many of the passes make an update that can be lost.
    updates: AtomicU64,
    /// Since when the task waits, in nanoseconds since the crowd began; 0 if it does not wait.
    waiting_since: AtomicU64,
    waits: Mutex<Vec<Duration>>,
}

struct Shared {
    begin: Instant,
    rule: Rule,
    timed: bool,
    counting: AtomicBool,
    done: AtomicBool,
}

/// Runs a crowd on the present runtime, which has more than one thread.
pub(crate) async fn crowd<C: Contestant>(
    clients: &[Arc<C>],
    crowd: Crowd,
    inner_commands: &[&str],
) -> Result<Window, Failure> {
    let mut meters = Meters::at(&crowd.servers)?;
    let crew = Crew::start(clients, &crowd)?;
    tokio::time::sleep(crowd.window / 4).await;
    let before = crew.look(&mut meters)?;
    crew.shared.counting.store(true, Ordering::Relaxed);

    tokio::time::sleep(crowd.window).await;
    let after = crew.look(&mut meters)?;
    crew.shared.counting.store(false, Ordering::Relaxed);
    let waits = crew.workers.iter().flat_map(|worker| worker.waits(before.at)).collect();
    let ended = crew.end(clients).await?;

    let (commands, server) =
        spent(&before.accounts, &after.accounts, |account| account.sent(inner_commands));
    let passes = after.passes.iter().zip(before.passes);
    Ok(Window {
        elapsed: after.at - before.at,
        passes: passes.map(|(after, before)| after - before).collect(),
        handovers: after.handovers - before.handovers,
        waits,
        cpu: after.cpu.saturating_sub(before.cpu),
        server,
        commands,
        lost: ended.updates.saturating_sub(ended.counted),
        intrusions: ended.intrusions,
    })
}

/// Tasks at work.
struct Crew {
    shared: Arc<Shared>,
    protected: Vec<Arc<Protected>>,
    workers: Vec<Arc<Worker>>,
    tasks: JoinSet<Result<(), Failure>>,
}

/// All counts at one moment.
struct Look {
    accounts: Vec<Account>,
    at: Instant,
    cpu: Duration,
    passes: Vec<u64>,
    handovers: u64,
}

/// The counts after all tasks have ended.
struct Ended {
    /// How many updates the tasks have made.
    updates: u64,
    /// How many of these updates the protected value shows.
    counted: u64,
    intrusions: u64,
}

impl Crew {
    fn start<C: Contestant>(clients: &[Arc<C>], crowd: &Crowd) -> Result<Self, Failure> {
        let shared = Arc::new(Shared {
            begin: Instant::now(),
            rule: crowd.rule,
            timed: crowd.waits,
            counting: AtomicBool::new(false),
            done: AtomicBool::new(false),
        });
        let protected = crowd.keys.iter().map(|_| Arc::default()).collect();
        let mut crew = Self { shared, protected, workers: Vec::new(), tasks: JoinSet::new() };
        for number in 0..crowd.tasks {
            let key = number % crowd.keys.len();
            let worker = Arc::new(Worker {
                number: number + 1,
                protected: Arc::clone(&crew.protected[key]),
                shared: Arc::clone(&crew.shared),
                passes: AtomicU64::new(0),
                updates: AtomicU64::new(0),
                waiting_since: AtomicU64::new(0),
                waits: Mutex::default(),
            });
            crew.workers.push(Arc::clone(&worker));
            let client = Arc::clone(&clients[number % clients.len()]);
            let key = client.key(&crowd.keys[key])?;
            crew.tasks.spawn(work(client, key, worker));
        }
        Ok(crew)
    }

    /// Asks the servers first. That takes a while, so both looks at a window do it at the same point.
    fn look(&self, meters: &mut Meters) -> Result<Look, Failure> {
        Ok(Look {
            accounts: meters.accounts()?,
            at: Instant::now(),
            cpu: cpu::used(),
            passes: self.workers.iter().map(|it| it.passes.load(Ordering::Acquire)).collect(),
            handovers: self.protected.iter().map(|it| it.handovers()).sum(),
        })
    }

    async fn end<C: Contestant>(mut self, clients: &[Arc<C>]) -> Result<Ended, Failure> {
        self.shared.done.store(true, Ordering::Relaxed);
        self.tasks.abort_all();
        while let Some(task) = self.tasks.join_next().await {
            match task {
                Ok(outcome) => outcome?,
                Err(error) if error.is_cancelled() => {}
                Err(panic) => return Err(panic.into()),
            }
        }
        for client in clients {
            client.settled().await;
        }
        Ok(Ended {
            updates: self.workers.iter().map(|it| it.updates.load(Ordering::Acquire)).sum(),
            counted: self.protected.iter().map(|it| it.updates(self.shared.rule)).sum(),
            intrusions: self.protected.iter().map(|it| it.intrusions()).sum(),
        })
    }
}

async fn work<C: Contestant>(
    client: Arc<C>,
    key: C::Key,
    worker: Arc<Worker>,
) -> Result<(), Failure> {
    let (shared, task) = (Arc::clone(&worker.shared), worker.number as u64);
    while !shared.done.load(Ordering::Relaxed) {
        if shared.rule.reads(task, worker.passes.load(Ordering::Relaxed)) {
            client.shared(&key, look(Arc::clone(&worker))).await?;
        } else {
            worker.begin_to_wait();
            client.locked(&key, hold(Arc::clone(&worker))).await?;
        }
    }
    Ok(())
}

/// The section of a task that makes an update.
async fn hold(worker: Arc<Worker>) {
    worker.end_waiting();
    let (protected, pass) = (&*worker.protected, worker.passes.load(Ordering::Relaxed));
    match worker.shared.rule {
        Rule::Exclusive => protected.alone(worker.number, pass).await,
        Rule::ReadWrite { .. } => protected.write(pass).await,
        Rule::Permits(permits) => protected.enter(permits, pass).await,
    }
    // No await since the write: a task that is aborted has counted both or neither.
    if !matches!(worker.shared.rule, Rule::Permits(_)) {
        let updates = worker.updates.load(Ordering::Relaxed);
        worker.updates.store(updates + 1, Ordering::Release);
    }
    worker.passes.store(pass + 1, Ordering::Release);
}

/// The section of a task that only reads.
async fn look(worker: Arc<Worker>) {
    let pass = worker.passes.load(Ordering::Relaxed);
    worker.protected.read(pass).await;
    worker.passes.store(pass + 1, Ordering::Release);
}

impl Worker {
    fn begin_to_wait(&self) {
        if self.shared.timed {
            self.waiting_since.store(self.shared.now(), Ordering::Relaxed);
        }
    }

    fn end_waiting(&self) {
        if !self.shared.timed {
            return;
        }
        let since = self.waiting_since.swap(0, Ordering::Relaxed);
        if self.shared.counting.load(Ordering::Relaxed) {
            let waited = self.shared.now().saturating_sub(since);
            let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
            waits.push(Duration::from_nanos(waited));
        }
    }

    /// The waits of the task, including the present one. `start` is when the window began.
    fn waits(&self, start: Instant) -> Vec<Duration> {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let since = self.waiting_since.load(Ordering::Relaxed);
        if self.shared.timed && since > 0 {
            let waited = self.shared.now().saturating_sub(since);
            waits.push(Duration::from_nanos(waited).min(start.elapsed()));
        }
        waits
    }
}

impl Shared {
    /// Nanoseconds since the crowd began; never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestants::{Local, rwlocks, semaphores};

    const MIXED: Rule = Rule::ReadWrite { reads: 50 };

    /// A lock that keeps no task out.
    struct Open;

    impl Contestant for Open {
        type Key = ();

        const INNER: &'static [&'static str] = &[];

        fn key(&self, _: &str) -> Result<(), Failure> {
            Ok(())
        }

        async fn locked<S>(&self, (): &(), section: S) -> Result<(), Failure>
        where
            S: Future<Output = ()> + Send + 'static,
        {
            section.await;
            tokio::task::yield_now().await;
            Ok(())
        }
    }

    async fn run<C: Contestant>(client: C, rule: Rule) -> Window {
        let mut plan = Crowd::new(8, vec!["hot".to_owned()], Duration::from_millis(400));
        (plan.rule, plan.waits) = (rule, true);
        crowd(&[Arc::new(client)], plan, &[]).await.unwrap()
    }

    fn assert_all_took_part(window: &Window) {
        assert_eq!((window.lost, window.intrusions), (0, 0));
        assert!(window.passes.iter().all(|&passes| passes > 0), "{:?}", window.passes);
        assert!(!window.waits.is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lock_loses_no_update() {
        let window = run(Local::default(), Rule::Exclusive).await;
        assert_all_took_part(&window);
        assert!(window.handovers > 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_lock_loses_updates() {
        assert!(run(Open, Rule::Exclusive).await.lost > 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_writer_is_alone() {
        assert_all_took_part(&run(rwlocks::Local::default(), MIXED).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_writer_beside_readers_is_seen() {
        assert!(run(Open, MIXED).await.intrusions > 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_more_are_inside_than_there_are_permits() {
        assert_all_took_part(&run(semaphores::Local::new(3), Rule::Permits(3)).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_too_many_is_seen() {
        assert!(run(semaphores::Local::new(4), Rule::Permits(3)).await.intrusions > 0);
    }
}
