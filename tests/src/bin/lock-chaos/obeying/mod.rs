//! A process that takes locks on command: see `lock_tests::Worker` for the commands.

mod args;
mod guard;
mod hold;
mod kind;
mod lock;
mod mix;
mod shelf;
mod store;
mod work;

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::time::Duration;

use tokio::sync::mpsc;

use self::hold::{Hold, How, Order, failed};
use self::kind::{Kind, key_of};
use self::lock::Patience;
use self::mix::{Mix, Step};
use self::shelf::Shelf;
use self::work::{Job, Work};
use crate::voice::say;

/// Runs until the test closes the pipe of commands.
///
/// # Errors
///
/// If the options make no sense, or the store does not answer.
pub(crate) fn main(args: impl Iterator<Item = String>) -> Result<(), String> {
    // One thread: blocking it blocks everything except the library's own threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let shelf = runtime.block_on(args::parse(args)).map_err(|error| format!("{error:?}"))?;
    let (lines, inbox) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        // The end of the pipe ends the channel, and the channel ends the process.
        io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
    });
    say(format_args!("ready {}", std::process::id()));
    runtime.block_on(serve(shelf, inbox));
    Ok(())
}

async fn serve(shelf: Shelf, mut inbox: mpsc::UnboundedReceiver<String>) {
    let mut worker = Worker { shelf, holds: HashMap::new(), works: HashMap::new() };
    while let Some(line) = inbox.recv().await {
        let words: Vec<&str> = line.split_whitespace().collect();
        if worker.obey(&words).is_none() {
            say(format_args!("failed {} not understood: {line}", words.get(1).unwrap_or(&"-")));
        }
    }
}

/// The held locks, by the names in the commands.
struct Worker {
    shelf: Shelf,
    holds: HashMap<String, Hold>,
    works: HashMap<String, Work>,
}

impl Worker {
    /// `None` if the command makes no sense.
    fn obey(&mut self, words: &[&str]) -> Option<()> {
        match *words {
            ["lock", name, ref kind @ ..] => self.take(name, kind, Patience::Usual, None),
            ["try", name, ref kind @ ..] => self.take(name, kind, Patience::None, None),
            ["timeout", name, limit, ref kind @ ..] => {
                self.take(name, kind, Patience::AtMost(millis(limit)?), None)
            }
            ["hold", name, time, ref kind @ ..] => {
                self.take(name, kind, Patience::Usual, Some(millis(time)?))
            }
            ["valid", name] => self.tell(name, Order::Valid),
            ["unlock", name] => self.tell(name, Order::Unlock),
            ["drop", name] => self.tell(name, Order::Drop),
            ["upgrade", name] => self.tell(name, Order::Upgrade(true)),
            ["try-upgrade", name] => self.tell(name, Order::Upgrade(false)),
            ["downgrade", name] => self.tell(name, Order::Downgrade(false)),
            ["downgrade", name, "upgradable"] => self.tell(name, Order::Downgrade(true)),
            ["give", name, count] => self.tell(name, Order::Give(count.parse().ok()?)),
            ["forget", name] => self.tell(name, Order::Forget),
            ref words => self.obey_key(words),
        }
    }

    /// Commands about a key, and not about one holder.
    fn obey_key(&mut self, words: &[&str]) -> Option<()> {
        match *words {
            ["work", key, tasks, file, hold] => {
                let hold = millis(hold)?;
                let job = self.shelf.mutex(key).map(|mutex| Job::Alone(mutex, hold));
                self.begin(key, job, tasks.parse().ok()?, file)
            }
            ["mix", key, tasks, file, "permits", most, of] => {
                let (most, of) = (most.parse().ok()?, of.parse().ok()?);
                let semaphore = self.shelf.semaphore(key, of);
                let job = semaphore.map(|semaphore| Job::Mixed(Mix::Permits(semaphore, most)));
                self.begin(key, job, tasks.parse().ok()?, file)
            }
            ["mix", key, tasks, file, ref steps @ ..] if !steps.is_empty() => {
                let steps =
                    steps.iter().map(|word| Step::parse(word)).collect::<Option<Vec<_>>>()?;
                let climbs = steps.iter().any(|step| step.is_upgradable());
                let upgradable = climbs.then(|| self.shelf.rwlock(key)).transpose();
                let job = self
                    .shelf
                    .fixed_rwlock(key)
                    .and_then(|lock| Ok(Job::Mixed(Mix::Steps(lock, upgradable?, steps))));
                self.begin(key, job, tasks.parse().ok()?, file)
            }
            ["rest", key] => {
                self.works.remove(key)?.rest();
                Some(())
            }
            ["cached", key] => {
                say(format_args!("cached {key} {}", self.shelf.is_cached(key)));
                Some(())
            }
            ["block", time] => {
                std::thread::sleep(millis(time)?);
                say(format_args!("blocked {time}"));
                Some(())
            }
            _ => None,
        }
    }

    fn take(
        &mut self,
        name: &str,
        kind: &[&str],
        patience: Patience,
        time: Option<Duration>,
    ) -> Option<()> {
        let kind = Kind::parse(kind)?;
        if self.holds.get(name).is_some_and(|hold| !hold.is_over()) {
            say(format_args!("failed {name} already taken or awaited"));
        } else {
            let lock = self.shelf.lock(key_of(name), kind);
            self.holds.insert(name.to_owned(), Hold::begin(lock, name, How { patience, time }));
        }
        Some(())
    }

    fn tell(&self, name: &str, order: Order) -> Option<()> {
        if self.holds.get(name).is_none_or(|hold| hold.tell(order).is_err()) {
            say(format_args!("failed {name} not taken"));
        }
        Some(())
    }

    fn begin(
        &mut self,
        key: &str,
        job: Result<Job, lock_core::Error>,
        tasks: u32,
        file: &str,
    ) -> Option<()> {
        match job {
            Ok(job) => _ = self.works.insert(key.to_owned(), Work::begin(job, key, tasks, file)),
            Err(error) => say(failed(key, &error)),
        }
        Some(())
    }
}

fn millis(word: &str) -> Option<Duration> {
    word.parse().ok().map(Duration::from_millis)
}
