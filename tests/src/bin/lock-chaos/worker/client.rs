//! A client: its locks, and the thread that its tasks run on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{Error, ErrorKind};
use lock_tests::Random;
use lock_tests::chaos::history::Deed;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::acts;
use super::crew::Crew;
use super::journal::Journal;
use super::options::Options;
use super::orders::{Done, What};
use super::shelf::Shelf;
use super::task::Task;
use super::uses::uses;

/// The pause before the next request to a store that did not answer.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a blocking thread is kept for the next task. A short time, so that none exists at rest.
const KEEP: Duration = Duration::from_millis(50);

/// A client on its thread, for the thread that gives orders.
pub(crate) struct Client {
    orders: UnboundedSender<Order>,
}

/// An order, and its completion, which is reported when all have dropped it.
type Order = (What, Arc<Done>);

impl Client {
    /// Starts the thread.
    pub(crate) fn start(
        options: &Arc<Options>,
        name: String,
        journal: Arc<Journal>,
        memory: MemoryBackend,
    ) -> io::Result<Self> {
        let (orders, inbox) = unbounded_channel();
        let options = Arc::clone(options);
        let thread = std::thread::Builder::new().name(name.clone());
        thread.spawn(move || Stage { options, name, journal, memory }.run(inbox))?;
        Ok(Self { orders })
    }

    /// Gives an order, which is executed after the earlier ones.
    pub(crate) fn send(&self, what: What, done: Arc<Done>) {
        _ = self.orders.send((what, done));
    }
}

/// The parts that exist before the locks.
struct Stage {
    options: Arc<Options>,
    name: String,
    journal: Arc<Journal>,
    memory: MemoryBackend,
}

impl Stage {
    /// Executes orders until there are no more.
    fn run(self, mut inbox: UnboundedReceiver<Order>) {
        let mut runtime = runtime();
        let shelf = runtime.block_on(self.shelf());
        let crew = Crew::new(self.options, self.name, self.journal, shelf);
        let mut thread = Thread { crew: Arc::new(crew), tasks: None };
        // It ends for good when no more orders can come.
        while let Some(done) = runtime.block_on(thread.obey(&mut inbox)) {
            // From here on the journal ignores the tasks.
            thread.crew.journal.collapse();
            drop(std::mem::replace(&mut runtime, self::runtime()));
            thread.crew.blocking.close(false);
            drop(done);
        }
    }

    /// The locks, as soon as enough of the store answers.
    async fn shelf(&self) -> Shelf {
        loop {
            match Shelf::build(&self.options, &self.memory).await {
                Ok(shelf) => return shelf,
                Err(error) if is_hopeless(&error) => panic!("there are no locks: {error:?}"),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

fn is_hopeless(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidConfig | ErrorKind::InvalidKey | ErrorKind::InvalidTtl)
}

/// The runtime of the tasks, and of nothing else.
fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().thread_keep_alive(KEEP).build();
    runtime.unwrap_or_else(|error| panic!("there is no runtime: {error}"))
}

/// The tasks of this thread.
fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

/// The resources that the process uses, including the tasks of this thread.
fn used() -> Deed {
    uses(tasks())
}

struct Thread {
    crew: Arc<Crew>,
    /// How many tasks there were at the first rest.
    tasks: Option<usize>,
}

impl Thread {
    /// Executes orders until the runtime is to end, and returns the order to confirm; `None` if there are no
    /// more orders.
    async fn obey(&mut self, inbox: &mut UnboundedReceiver<Order>) -> Option<Arc<Done>> {
        let mut seats = self.seats();
        while let Some((what, done)) = inbox.recv().await {
            match what {
                What::Block(time) => std::thread::sleep(time),
                What::Abort(count) => self.abort(&mut seats, count).await,
                What::Collapse => {
                    // Nothing can end a thread that waits for a lock.
                    self.crew.blocking.close(true);
                    self.crew.blocking.emptied().await;
                    return Some(done);
                }
                // The thread that gives orders executes it.
                What::Store(_) => {}
                What::Uses => self.crew.journal.record(&used()),
                What::Rest => {
                    self.rest(&mut seats).await;
                    self.tasks.get_or_insert(tasks());
                }
                What::Go => {
                    self.crew.over.store(false, Ordering::Relaxed);
                    if seats.is_empty() {
                        seats = self.seats();
                    }
                }
                What::Probe => acts::probe(&self.crew).await,
                What::Shutdown => {
                    self.crew.shelf.locks.shutdown().await;
                }
            }
            drop(done);
        }
        None
    }

    /// The tasks, if they are to run.
    fn seats(&self) -> Vec<JoinHandle<()>> {
        let tasks = if self.crew.is_over() { 0 } else { self.crew.options.tasks };
        (0..tasks).map(|number| self.spawn(number)).collect()
    }

    fn spawn(&self, number: u32) -> JoinHandle<()> {
        tokio::spawn(Task::new(&self.crew, number).run())
    }

    /// Ends this many tasks wherever they are, and starts others in their place.
    async fn abort(&self, seats: &mut [JoinHandle<()>], count: usize) {
        let mut random: Random = self.crew.random();
        for seat in random.some(count, seats.len()) {
            seats[seat].abort();
            _ = (&mut seats[seat]).await;
            if !self.crew.is_over() {
                seats[seat] = self.spawn(seat as u32);
            }
        }
    }

    /// Starts nothing new, and waits until everything has ended.
    async fn rest(&self, seats: &mut Vec<JoinHandle<()>>) {
        self.crew.over.store(true, Ordering::Relaxed);
        for task in seats.drain(..) {
            _ = task.await;
        }
        self.crew.blocking.emptied().await;
        self.crew.errands.emptied().await;
        self.settle().await;
    }

    /// Waits until the queued work is done, as far as that shows from outside: until the resources of the
    /// process stay constant for a while, with no more tasks than at the first rest. A task that is there for longer may
    /// wait for a server that is late. The wait ends at the latest when every lease would have ended.
    async fn settle(&self) {
        const LOOK: Duration = Duration::from_millis(50);
        const STEADY: usize = 4;

        let looks = self.crew.options.ttl.as_millis() / LOOK.as_millis() + 2 * STEADY as u128;
        let (mut seen, mut steady) = (None, 0);
        for _ in 0..looks {
            tokio::time::sleep(LOOK).await;
            let now = match used() {
                Deed::Uses { files, threads, tasks, .. } => [files, threads, tasks],
                _ => [0; 3],
            };
            steady = if seen == Some(now) { steady + 1 } else { 0 };
            seen = Some(now);
            if steady >= STEADY && self.tasks.is_none_or(|first| tasks() <= first) {
                return;
            }
        }
    }
}
