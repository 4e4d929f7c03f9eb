//! A process that uses every primitive in every way, and records the outcome.
//!
//! ```text
//!   orders ─► main ─► client, a thread each ─► tasks ─► acts: one primitive each
//!                       │ locks, journal         │
//!                       │                        ├─► op: from asking to letting go, each step an event
//!                       ▼                        └─► the resource, with the token
//!                     driver of the locks
//! ```

mod acts;
mod attendance;
pub(crate) mod cells;
mod client;
mod crew;
mod grip;
mod journal;
mod ledger;
mod op;
pub(crate) mod options;
pub(crate) mod orders;
pub(crate) mod pages;
mod polls;
mod refusal;
mod shelf;
mod store;
mod task;
mod ticker;
pub(crate) mod uses;

use std::io;
use std::sync::Arc;

use lock_core::memory::MemoryBackend;

use client::Client;
pub(crate) use crew::digest;
use journal::Journal;
pub(crate) use options::Options;
use orders::{Done, Order, What};
use store::Connection;
use ticker::Ticks;

use crate::voice::{say, scream_when_it_panics};

/// Runs until the harness closes the pipe of orders.
///
/// # Errors
///
/// If the options make no sense, or there are no files or threads to be had.
pub(crate) fn main(args: impl Iterator<Item = String>) -> Result<(), String> {
    scream_when_it_panics();
    let options = Arc::new(Options::parse(args)?);
    let mut hands = start(&options).map_err(|error| format!("cannot start: {error}"))?;
    say(format_args!("ready {}", std::process::id()));
    for line in orders::listen() {
        let given = Order::parse(&line).is_some_and(|order| give(&mut hands, order));
        if !given {
            say(format_args!("failed {line}"));
        }
    }
    Ok(())
}

/// A client, and the faults of its connection to the memory backend.
struct Hand {
    client: Client,
    connection: Connection,
}

/// Starts every client, and the threads that observe them.
fn start(options: &Arc<Options>) -> io::Result<Vec<Hand>> {
    let ticks = Ticks::default();
    let memory = MemoryBackend::new();
    let (mut hands, mut journals) = (Vec::new(), Vec::new());
    for name in options.names() {
        let journal = Arc::new(Journal::open(options, &name, ticks.clone())?);
        journals.push(Arc::clone(&journal));
        let memory = memory.client();
        let client = Client::start(options, name, journal, memory.clone())?;
        hands.push(Hand { client, connection: Connection::new(memory) });
    }
    let watch = std::thread::Builder::new().name("ticker".to_owned());
    watch.spawn(move || ticks.run(&journals))?;
    Ok(hands)
}

/// Makes the addressed clients execute the order, all at once: the last of them confirms it. Faults of the
/// memory backend are executed here, whatever the clients do. Returns whether any client was addressed.
fn give(hands: &mut [Hand], order: Order) -> bool {
    let mut meant: &mut [Hand] = match order.hand {
        None => hands,
        Some(number) => hands.get_mut(number..=number).unwrap_or_default(),
    };
    // There is one memory backend for all clients.
    if let What::Store(mischief) = order.what
        && mischief.is_common()
    {
        let first = meant.len().min(1);
        meant = &mut meant[..first];
    }
    let is_any = !meant.is_empty();
    let done = is_any.then(|| Arc::new(Done::of(&order.what)));
    for (Hand { client, connection }, done) in meant.iter_mut().zip(done.iter().cycle()) {
        match &order.what {
            What::Store(mischief) => connection.disturb(*mischief),
            what => client.send(what.clone(), Arc::clone(done)),
        }
    }
    is_any
}
