//! A lock that is broken on purpose, one flaw at a time: the checkers have to find each flaw.
//!
//! The lock is small and plain, and uses no code of the library. Without a flaw it is a correct lock, and the
//! checkers find nothing: otherwise a found flaw would prove nothing.
//!
//! ```text
//!    traffic ─► mutex ─► line (of this process) ─► store ─► one server: queue, hand-over, messages
//!       │         └─► lease, renewed                 ├────► quorum: votes, tokens, quarantine
//!       │                                            └────► historic: a design of earlier times
//!       ├─► shared (readers, writers, permits), cell, page ─► one server
//!       └─► journal ─► history
//! ```

mod barrier;
mod cell;
mod design;
mod ears;
mod flaw;
mod historic;
mod journal;
mod lease;
mod line;
mod link;
mod mutex;
mod page;
mod quorum;
mod shared;
mod store;
mod stored;
mod ticker;
mod traffic;
mod world;

use std::sync::Arc;

use lock_tests::Random;
use lock_tests::chaos::history::Deed;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use self::flaw::Flaw;
use self::traffic::Locks;
use self::world::World;
use crate::voice::{say, scream_when_it_panics};
use crate::worker::Options;
use crate::worker::orders::{self, Order, What};
use crate::worker::uses::uses;

/// Runs until the harness closes the pipe of orders.
pub(crate) fn main(args: impl Iterator<Item = String>) -> Result<(), String> {
    scream_when_it_panics();
    let options = Options::parse(args)?;
    let flaw: Flaw = options.flaw.as_deref().unwrap_or("none").parse()?;
    if options.urls.is_empty() {
        return Err("the specimen lives on servers".to_owned());
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let (lines, inbox) = mpsc::unbounded_channel();
    let orders = orders::listen();
    std::thread::spawn(move || orders.into_iter().try_for_each(|line| lines.send(line)));
    runtime.block_on(async {
        let world = World::new(&options, flaw)?;
        say(format_args!("ready {}", std::process::id()));
        ticker::tick(Arc::clone(&world.journal));
        Crew::new(world, options).serve(inbox).await;
        Ok(())
    })
}

/// The tasks of a client.
struct Crew {
    world: Arc<World>,
    locks: Arc<Locks>,
    tasks: Vec<JoinHandle<()>>,
    /// The number of tasks to keep.
    size: u32,
    started: u32,
    random: Random,
    rests: watch::Sender<bool>,
}

impl Crew {
    fn new(world: Arc<World>, options: Options) -> Self {
        let (size, random) = (options.tasks, Random::from_seed(options.seed));
        let locks = Locks::new(&world, options);
        let rests = watch::Sender::new(false);
        let mut crew = Self { world, locks, tasks: Vec::new(), size, started: 0, random, rests };
        (0..size).for_each(|_| crew.start());
        crew
    }

    fn start(&mut self) {
        let work = Arc::clone(&self.locks).work(self.started, self.rests.subscribe());
        self.started += 1;
        self.tasks.push(tokio::spawn(work));
    }

    async fn serve(&mut self, mut orders: mpsc::UnboundedReceiver<String>) {
        while let Some(line) = orders.recv().await {
            match Order::parse(&line).map(|order| order.what) {
                Some(What::Block(time)) => {
                    std::thread::sleep(time);
                    say(format_args!("blocked {}", time.as_millis()));
                }
                Some(What::Abort(count)) => {
                    self.abort(count).await;
                    say(format_args!("aborted {count}"));
                }
                Some(What::Uses) => {
                    self.world.journal.record(&used());
                    say("used");
                }
                Some(What::Rest) => {
                    self.rest().await;
                    say("rested");
                }
                Some(What::Go) => {
                    self.rests.send_replace(false);
                    (0..self.size).for_each(|_| self.start());
                    say("gone on");
                }
                Some(What::Probe) => {
                    self.locks.probe(self.size).await;
                    say("probed");
                }
                Some(What::Shutdown) => {
                    self.world.journal.record(&used());
                    say("shut");
                }
                Some(What::Collapse | What::Store(_)) | None => say(format_args!("failed {line}")),
            }
        }
    }

    /// Ends some tasks wherever they are, and starts others.
    async fn abort(&mut self, count: usize) {
        for _ in 0..count.min(self.tasks.len()) {
            let task = self.tasks.swap_remove(self.random.below(self.tasks.len()));
            task.abort();
            // The error means that the task was aborted.
            _ = task.await;
            self.start();
        }
    }

    /// Starts nothing new, and waits until everything has ended.
    async fn rest(&mut self) {
        self.rests.send_replace(true);
        for task in self.tasks.drain(..) {
            _ = task.await;
        }
        self.world.settle().await;
    }
}

fn used() -> Deed {
    uses(Handle::current().metrics().num_alive_tasks())
}
