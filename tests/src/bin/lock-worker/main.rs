//! A process that takes locks as it is told: see `lock_tests::Worker` for what it understands.

#![forbid(unsafe_code)]

mod args;
mod hold;
mod shelf;
mod work;

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Display;
use std::io::{BufRead, Write};
use std::time::Duration;

use lock_core::Clock;
use tokio::sync::mpsc;

use crate::hold::{Hold, How, Order, failed};
use crate::shelf::Shelf;
use crate::work::Work;

fn main() -> Result<(), Box<dyn Error>> {
    let shelf = args::parse(std::env::args().skip(1))?;
    // One thread, so that blocking it blocks everything but what the library does by itself.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (lines, inbox) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let stdin = std::io::stdin().lock();
        // The end of the pipe ends the channel, and that the process.
        stdin.lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
    });
    say(format_args!("ready {}", std::process::id()));
    runtime.block_on(serve(shelf, inbox));
    Ok(())
}

/// Says what happened, and when on the clock that all processes of the machine share.
fn say(event: impl Display) {
    let at = Clock::boot().now().as_nanos();
    let mut stdout = std::io::stdout().lock();
    if writeln!(stdout, "{at} {event}").and_then(|()| stdout.flush()).is_err() {
        // Nobody listens any more.
        std::process::exit(1);
    }
}

async fn serve(mut shelf: Shelf, mut inbox: mpsc::UnboundedReceiver<String>) {
    let mut holds = HashMap::<String, Hold>::new();
    let mut works = HashMap::<String, Work>::new();
    while let Some(line) = inbox.recv().await {
        let words: Vec<&str> = line.split_whitespace().collect();
        let millis = || words.last()?.parse().ok().map(Duration::from_millis);
        let understood = match words[..] {
            ["lock", key] => take(&mut shelf, &mut holds, key, How::Lock),
            ["try", key] => take(&mut shelf, &mut holds, key, How::Try),
            ["timeout", key, _] => {
                millis().is_some_and(|limit| take(&mut shelf, &mut holds, key, How::Within(limit)))
            }
            ["hold", key, _] => {
                millis().is_some_and(|time| take(&mut shelf, &mut holds, key, How::For(time)))
            }
            ["valid", key] => tell(&holds, key, Order::Valid),
            ["unlock", key] => tell(&holds, key, Order::Unlock),
            ["drop", key] => tell(&holds, key, Order::Drop),
            ["work", key, tasks, file] => tasks.parse().is_ok_and(|tasks| {
                match shelf.mutex(key) {
                    Ok(mutex) => {
                        works.insert(key.to_owned(), Work::begin(mutex, key, tasks, file));
                    }
                    Err(error) => say(failed(key, &error)),
                }
                true
            }),
            ["rest", key] => works.remove(key).map(|work| work.rest()).is_some(),
            ["cached", key] => {
                say(format_args!("cached {key} {}", shelf.is_cached(key)));
                true
            }
            ["block", millis_word] => millis().is_some_and(|time| {
                std::thread::sleep(time);
                say(format_args!("blocked {millis_word}"));
                true
            }),
            _ => false,
        };
        if !understood {
            say(format_args!("failed {} not understood: {line}", words.get(1).unwrap_or(&"-")));
        }
    }
}

fn take(shelf: &mut Shelf, holds: &mut HashMap<String, Hold>, key: &str, how: How) -> bool {
    match holds.get(key) {
        Some(hold) if !hold.is_over() => say(format_args!("failed {key} already taken or awaited")),
        _ => _ = holds.insert(key.to_owned(), Hold::begin(shelf.mutex(key), key, how)),
    }
    true
}

fn tell(holds: &HashMap<String, Hold>, key: &str, order: Order) -> bool {
    if holds.get(key).is_none_or(|hold| hold.tell(order).is_err()) {
        say(format_args!("failed {key} not taken"));
    }
    true
}
