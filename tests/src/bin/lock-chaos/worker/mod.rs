//! A process that takes every primitive in every way, and writes down what came of it.
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
mod client;
mod crew;
mod grip;
mod journal;
mod ledger;
mod op;
pub(crate) mod options;
pub(crate) mod orders;
mod polls;
mod refusal;
mod shelf;
mod task;
mod ticker;
pub(crate) mod uses;
pub(crate) mod voice;

use std::io;
use std::sync::Arc;

use lock_core::memory::MemoryBackend;

use client::Client;
use journal::Journal;
pub(crate) use options::Options;
use orders::{Order, What};
use ticker::Ticks;
use voice::say;

/// Runs until the harness closes the pipe of orders.
///
/// # Errors
///
/// If the options make no sense, or there are no files or threads to be had.
pub(crate) fn main(args: impl Iterator<Item = String>) -> Result<(), String> {
    voice::scream_when_it_panics();
    let options = Arc::new(Options::parse(args)?);
    let clients = start(&options).map_err(|error| format!("cannot start: {error}"))?;
    say(format_args!("ready {}", std::process::id()));
    for line in orders::listen() {
        match Order::parse(&line) {
            Some(order) if carry_out(&clients, &order) => say(order.what.done()),
            _ => say(format_args!("failed {line}")),
        }
    }
    Ok(())
}

/// Starts every client, and what watches over them.
fn start(options: &Arc<Options>) -> io::Result<Vec<Client>> {
    let ticks = Ticks::default();
    let memory = MemoryBackend::new();
    let (mut clients, mut journals) = (Vec::new(), Vec::new());
    for name in options.names() {
        let journal = Arc::new(Journal::open(options, &name, ticks.clone())?);
        journals.push(Arc::clone(&journal));
        clients.push(Client::start(options, name, journal, memory.client())?);
    }
    let watch = std::thread::Builder::new().name("ticker".to_owned());
    watch.spawn(move || ticks.run(&journals))?;
    Ok(clients)
}

/// Has the clients that are meant do it, all at once, and waits until they have. Whether there are any.
fn carry_out(clients: &[Client], order: &Order) -> bool {
    let mut meant: &[Client] = match order.whom {
        None => clients,
        Some(number) => clients.get(number..=number).unwrap_or_default(),
    };
    // There is one memory for all.
    if let What::Store(mischief) = order.what
        && mischief.is_common()
    {
        meant = &meant[..meant.len().min(1)];
    }
    let sent: Vec<_> = meant.iter().map(|client| client.send(order.what.clone())).collect();
    for carried_out in &sent {
        // It never says anything: it ends.
        _ = carried_out.recv();
    }
    !sent.is_empty()
}
