//! What a worker says to the harness.

use std::fmt::Display;
use std::io::Write;
use std::panic;
use std::process;

use lock_core::Clock;

/// Says what happened, and when on the clock that all processes of the machine share.
pub(crate) fn say(event: impl Display) {
    let at = Clock::boot().now().as_nanos();
    let mut stdout = std::io::stdout().lock();
    if writeln!(stdout, "{at} {event}").and_then(|()| stdout.flush()).is_err() {
        // Nobody listens any more.
        process::exit(1);
    }
}

/// Makes every panic one that the harness sees, and the last thing that the process does. One that is begun
/// by [`panic::resume_unwind`] is none.
pub(crate) fn scream_when_it_panics() {
    panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let text = format!("panicked in {name}: {panic}").replace('\n', " ");
        say(text);
        process::abort();
    }));
}
