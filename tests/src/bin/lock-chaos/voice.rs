//! The reports of a worker to the harness.

use std::fmt::Display;
use std::io::Write;
use std::panic;
use std::process;

use lock_core::Clock;

/// Reports an event, with the time on the clock that all processes of the machine share.
pub(crate) fn say(event: impl Display) {
    let at = Clock::boot().now().as_nanos();
    let mut stdout = std::io::stdout().lock();
    if writeln!(stdout, "{at} {event}").and_then(|()| stdout.flush()).is_err() {
        // The harness listens no more.
        process::exit(1);
    }
}

/// Makes every panic visible to the harness, and the last act of the process. A panic that is begun by
/// [`panic::resume_unwind`] does not count.
pub(crate) fn scream_when_it_panics() {
    panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let text = format!("panicked in {name}: {panic}").replace('\n', " ");
        say(text);
        process::abort();
    }));
}
